"""Commands in a real instance: every byte, every exit code, nothing left behind."""

from __future__ import annotations

import time

import pytest

from anycastlab.incus import exec as incus_exec
from anycastlab.incus.errors import MissingError, NotRunningError
from anycastlab.incus.exec import execute
from anycastlab.incus.rest import Rest

EVERY_BYTE = bytes(range(256)) * 300


def recorded(rest: Rest, box: str) -> list[str]:
    return list(rest.get(f"/instances/{box}/logs/exec-output") or [])


def test_both_outputs_and_the_exit_code_come_back_apart(rest: Rest, box: str) -> None:
    result = execute(rest, box, ["sh", "-c", "printf out; printf err >&2; exit 3"])
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out", b"err")


def test_every_byte_goes_in_and_comes_out(rest: Rest, box: str) -> None:
    assert execute(rest, box, ["cat"], stdin=EVERY_BYTE).stdout == EVERY_BYTE


def test_stdin_leaves_no_file_and_shows_in_no_process(rest: Rest, box: str) -> None:
    seen = execute(
        rest, box, ["sh", "-c", "cat >/dev/null; ls -A /run; tr '\\0' ' ' </proc/*/cmdline"], stdin=b"secret"
    )
    assert b"secret" not in seen.stdout
    assert b"anycastlab-stdin" not in execute(rest, box, ["ls", "-A", "/run"]).stdout


def test_without_stdin_a_reading_command_sees_the_end_at_once(rest: Rest, box: str) -> None:
    assert execute(rest, box, ["cat"], timeout_s=5).stdout == b""


def test_arguments_are_not_touched_by_any_shell(rest: Rest, box: str) -> None:
    words = ["$HOME", "a b", "*", "'\"", "é\n", ""]
    assert execute(rest, box, ["printf", "%s\\0", *words]).stdout.decode().split("\0")[:-1] == words


@pytest.mark.parametrize(("script", "code"), [("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_exit_codes_are_those_of_a_shell(rest: Rest, box: str, script: str, code: int) -> None:
    assert execute(rest, box, ["sh", "-c", script]).exit_code == code


def test_a_command_that_does_not_exist_is_127(rest: Rest, box: str) -> None:
    assert execute(rest, box, ["no-such-command"]).exit_code == 127


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


def test_a_command_out_of_time_is_killed_inside_with_its_children(rest: Rest, box: str) -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="did not end within 1 s"):
        execute(rest, box, ["sh", "-c", "trap '' TERM; sleep 4321 & sleep 4321"], timeout_s=1)
    assert time.monotonic() - started < 6
    assert execute(rest, box, ["pgrep", "-f", "sleep 4321"]).exit_code == 1


def test_its_own_124_is_no_timeout(rest: Rest, box: str) -> None:
    assert execute(rest, box, ["sh", "-c", "exit 124"], timeout_s=30).exit_code == 124


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


def test_a_frozen_instance_does_not_hang_the_caller(rest: Rest, box: str) -> None:
    rest.run("put", f"/instances/{box}/state", {"action": "freeze"})
    try:
        with pytest.raises(NotRunningError):
            execute(rest, box, ["true"])
    finally:
        rest.run("put", f"/instances/{box}/state", {"action": "unfreeze"})
