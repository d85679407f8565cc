"""Commands in a real instance: every byte, every exit code, nothing left behind.

Both ways to run one, recorded exec and a session, must be indistinguishable: most tests run with each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from anycastlab.incus import exec as incus_exec
from anycastlab.incus import limits
from anycastlab.incus.errors import IncusError, MissingError, NotRunningError
from anycastlab.incus.exec import Result, execute
from anycastlab.incus.rest import Rest
from anycastlab.incus.session import Session

Run = Callable[..., Result]
EVERY_BYTE = bytes(range(256)) * 300


@pytest.fixture
def session(rest: Rest, box: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(limits, "COMMANDS_BEFORE_SESSION", 0)
    session = Session(rest, box)
    yield session
    session.close()


@pytest.fixture(params=["recorded", "session"])
def run(request: pytest.FixtureRequest, rest: Rest, box: str, session: Session) -> Iterator[Run]:
    if request.param == "recorded":
        yield lambda command, **arguments: execute(rest, box, command, **arguments)
    else:
        yield session.execute
        assert session._line is not None, "the session was never used"


def recorded(rest: Rest, box: str) -> list[str]:
    return list(rest.get(f"/instances/{box}/logs/exec-output") or [])


def test_both_outputs_and_the_exit_code_come_back_apart(run: Run) -> None:
    result = run(["sh", "-c", "printf out; printf err >&2; exit 3"])
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out", b"err")


def test_every_byte_goes_in_and_comes_out(run: Run) -> None:
    assert run(["cat"], stdin=EVERY_BYTE).stdout == EVERY_BYTE


def test_stdin_leaves_no_file_and_shows_in_no_process(run: Run) -> None:
    look = ["sh", "-c", "cat >/dev/null; ls -A /run; cat /proc/[0-9]*/cmdline"]
    assert b"secret" not in run(look, stdin=b"secret").stdout
    assert b"anycastlab-stdin" not in run(["ls", "-A", "/run"]).stdout


def test_without_stdin_a_reading_command_sees_the_end_at_once(run: Run) -> None:
    assert run(["cat"], timeout_s=5).stdout == b""


def test_arguments_are_not_touched_by_any_shell(run: Run) -> None:
    words = ["$HOME", "a b", "*", "'\"", "é\n", ""]
    assert run(["printf", "%s\\0", *words]).stdout.decode().split("\0")[:-1] == words


@pytest.mark.parametrize(("script", "code"), [("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_exit_codes_are_those_of_a_shell(run: Run, script: str, code: int) -> None:
    assert run(["sh", "-c", script]).exit_code == code


def test_a_command_that_does_not_exist_is_127(run: Run) -> None:
    assert run(["no-such-command"]).exit_code == 127


def test_user_directory_and_environment(rest: Rest, box: str) -> None:
    result = execute(
        rest,
        box,
        ["sh", "-c", "id -u; id -g; pwd; echo $ANSWER; cat"],
        user=33,
        group=34,
        cwd="/tmp",
        environment={"ANSWER": "forty two"},
        stdin=b"and stdin\n",
    )
    assert result.text.splitlines() == ["33", "34", "/tmp", "forty two", "and stdin"]


def test_a_command_out_of_time_is_killed_inside_with_its_children(run: Run) -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="did not end within 1 s"):
        run(["sh", "-c", "trap '' TERM; sleep 4321 & sleep 4321"], timeout_s=1)
    assert time.monotonic() - started < 6
    assert run(["pgrep", "-f", "sleep 4321"]).exit_code == 1


def test_its_own_124_is_no_timeout(run: Run) -> None:
    assert run(["sh", "-c", "exit 124"], timeout_s=30).exit_code == 124


def test_recorded_output_is_deleted_on_the_server(rest: Rest, box: str) -> None:
    for _ in range(5):
        execute(rest, box, ["true"])
    with pytest.raises(TimeoutError):
        execute(rest, box, ["sleep", "60"], timeout_s=1)
    incus_exec.flush(box)
    assert recorded(rest, box) == []


def test_an_instance_that_is_not_there(rest: Rest, box: str) -> None:
    assert box
    with pytest.raises(MissingError, match="nobody"):
        execute(rest, "nobody", ["true"])


def test_a_frozen_instance_does_not_hang_the_caller(rest: Rest, box: str, run: Run) -> None:
    run(["true"])
    rest.run("put", f"/instances/{box}/state", {"action": "freeze"})
    try:
        with pytest.raises(NotRunningError):
            run(["true"])
    finally:
        rest.run("put", f"/instances/{box}/state", {"action": "unfreeze"})
    assert run(["true"]).ok


def test_the_environment_is_the_same_both_ways(rest: Rest, box: str, session: Session) -> None:
    look = ["sh", "-c", "env | sort; pwd; id; umask; ulimit -a; readlink /proc/self/fd/0"]
    assert session.execute(look).text == execute(rest, box, look).text


def test_a_process_left_behind_does_not_hold_up_its_command(run: Run) -> None:
    started = time.monotonic()
    assert run(["sh", "-c", "sleep 20 & echo done"]).text == "done\n"
    assert time.monotonic() - started < 5
    run(["pkill", "-x", "sleep"])


def test_a_session_survives_the_end_of_its_agent(rest: Rest, box: str, session: Session) -> None:
    assert session.execute(["true"]).ok
    execute(rest, box, ["pkill", "-f", "^python3 -I -S -c import sys"])
    deadline = time.monotonic() + 5
    assert session._line is not None
    while session._line.alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert session.execute(["echo", "again"]).text == "again\n"


def test_a_connection_lost_while_a_command_runs_is_an_error_and_no_second_try(
    rest: Rest, box: str, session: Session
) -> None:
    assert rest
    with pytest.raises(IncusError, match=f"{box} went away while a command ran in it"):
        session.execute(["sh", "-c", "echo once >>/root/times; kill -9 $PPID; sleep 1"])
    assert session.execute(["cat", "/root/times"]).text == "once\n"


def test_without_python_the_recorded_way_is_taken(rest: Rest, box: str, session: Session) -> None:
    where = execute(rest, box, ["sh", "-c", "command -v python3"]).text.strip()
    execute(rest, box, ["mv", where, f"{where}.away"])
    try:
        assert session.execute(["echo", "still"]).text == "still\n"
        assert session._line is None
    finally:
        execute(rest, box, ["mv", f"{where}.away", where])


def test_closing_ends_the_agent(rest: Rest, box: str, session: Session) -> None:
    assert session.execute(["true"]).ok
    session.close()
    deadline = time.monotonic() + 5
    while execute(rest, box, ["pgrep", "-f", "^python3 -I -S -c import sys"]).ok:
        assert time.monotonic() < deadline
