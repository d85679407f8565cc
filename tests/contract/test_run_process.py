"""A run of `anycastlab up`, plan and down as processes: what is said, and that a run that is stopped stops.

The deploy is small and its machines are pyinfra's own @fake and @local ones; what runs it is the product's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).with_name("anycastlab"))
# Seconds: a stopped run is gone "at once", on a machine that is busy with other tests.
AT_ONCE_S = 5.0
LIMIT_S = 60.0

INVENTORY = 'nodes = [("@fake/b", {"node_name": "node02"}), ("@fake/a", {"node_name": "node01"}), "@local"]\n'
DEPLOY = """
import time
from pathlib import Path
from pyinfra import host, logger
from pyinfra.api import FunctionCommand, operation
from anycastlab.errors import AnycastlabError
from anycastlab import tell


def slow(state, host, seconds):
    Path("working").touch()
    time.sleep(seconds)
    return True


def fails(state, host):
    host.log("The disk of this machine is full.", logger.error)
    return False


@operation()
def work():
    if host.name == "@local":
        host.noop("fine")
        return
    tell.change("write 1 file", lambda: ["-old", "+new"])
    yield FunctionCommand({command})


@operation()
def raises():
    from pyinfra import context
    if context.state.is_executing:
        raise AnycastlabError("It was refused.", "Look.")
    yield from ()


@operation()
def answered():
    tell.outcome("10.1.9.53 answered by node01")
    host.noop("answered")
    yield from ()


{before}
logger.warning("said for every host")
work(name="Node | Configure")
answered(name="Check | answers")
"""
QUICK, SLOW, FAILING = "slow, (0,), {}", "slow, (40,), {}", "fails, (), {}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "inventory.py").write_text(INVENTORY)
    (tmp_path / "config.py").write_text("from pyinfra import config\nconfig.FAIL_PERCENT = 0\n")
    return tmp_path


def write(home: Path, command: str, before: str = "") -> None:
    (home / "deploy.py").write_text(DEPLOY.replace("{command}", command).replace("{before}", before))


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments, "-i", "inventory.py"],
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_up_says_what_it_does_and_ends_with_a_sentence(home: Path) -> None:
    write(home, QUICK)
    done = run(home, "up")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "10.1.9.53 answered by node01; changed: node01, node02.\n"
    said = done.stderr.splitlines()
    assert sorted(said[:2]) == ["node01: write 1 file", "node02: write 1 file"]
    assert said.count("Note: said for every host") == 1


def test_v_shows_everything_that_pyinfra_says(home: Path) -> None:
    write(home, QUICK)
    done = run(home, "up", "-v")
    assert done.returncode == 0, done.stderr
    for part in ("--> Starting operation: Node | Configure", "noop: fine", "Grand total"):
        assert part in done.stderr
    assert done.stdout.endswith("changed: node01, node02.\n")


@pytest.mark.parametrize("option", [(), ("-v",)])
def test_what_is_refused_before_anything_began_is_said_in_both_ways(home: Path, option: tuple[str, ...]) -> None:
    write(home, QUICK, 'raise AnycastlabError("The home contradicts itself.", "Look.")')
    done = run(home, "up", *option)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines().count("Error: The home contradicts itself. Look.") == 1


def test_a_plan_is_short_and_whole_with_diff(home: Path) -> None:
    write(home, SLOW)
    short = run(home, "plan")
    assert short.returncode == 2, short.stderr
    assert short.stdout.splitlines() == [
        "node01  write 1 file",
        "node02  write 1 file",
        "2 of 3 machines would change. `--diff` shows every line of it.",
    ]
    whole = run(home, "plan", "--diff")
    assert whole.stdout.count("  -old\n  +new\n") == 2
    assert run(home, "plan", "--json").stdout.startswith('{"plan": [{')


def test_down_says_from_what_it_removed_before_anything_else(home: Path) -> None:
    write(home, QUICK, 'tell.closing("The rows as they were: backup.json")')
    text = (home / "deploy.py").read_text().replace('answered(name="Check | answers")', "")
    (home / "teardown.py").write_text(text)
    done = run(home, "down", "-y")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "What was ours is removed from node01, node02.",
        "The rows as they were: backup.json",
    ]


def test_an_error_on_every_machine_is_said_once(home: Path) -> None:
    write(home, FAILING)
    done = run(home, "up")
    assert (done.returncode, done.stdout) == (1, "")
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error:")]
    assert errors == ["Error: node01, node02: The disk of this machine is full."]
    for noise in ("hosts failed", "executed 0 commands", "pyinfra error", "Traceback"):
        assert noise not in done.stderr


def test_an_error_before_anything_ran_is_its_sentence_alone(home: Path) -> None:
    write(home, QUICK, before='raise AnycastlabError("The site is wrong.", "Correct it.")')
    for command in ("up", "plan"):
        done = run(home, command)
        assert (done.returncode, done.stdout) == (1, "")
        assert [line for line in done.stderr.splitlines() if not line.startswith("Note:")] == [
            "Error: The site is wrong. Correct it."
        ]


def test_an_error_out_of_an_operation_is_its_sentence_alone(home: Path) -> None:
    write(home, QUICK, before='raises(name="Node | Raises")')
    done = run(home, "up")
    assert (done.returncode, done.stdout) == (1, "")
    assert [line for line in done.stderr.splitlines() if not line.startswith("Note:")] == [
        "Error: It was refused. Look."
    ]


# A run that is stopped stops ------------------------------------------------------------------------------------------


@pytest.fixture
def at_work(home: Path, request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`anycastlab up` in the middle of a slow change, and the process that works for it."""
    write(home, SLOW)
    ignored = getattr(request, "param", False)
    process = subprocess.Popen(
        # All others as they are on a terminal: the tests themselves may have been started by nohup.
        ["env", "--default-signal", *(["--ignore-signal=INT"] if ignored else []), PROGRAM, "up", "-i", "inventory.py"],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + LIMIT_S
    while not (home / "working").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    yield process, int(worker)
    if process.poll() is None:
        process.kill()
    process.communicate()


def gone_within(worker: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{worker}/exe").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not Path(f"/proc/{worker}/exe").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_work_too(at_work: tuple[subprocess.Popen[str], int], number: signal.Signals) -> None:
    process, worker = at_work
    process.send_signal(number)
    assert gone_within(worker, AT_ONCE_S)
    _, said = process.communicate(timeout=AT_ONCE_S)
    assert process.returncode == 130
    assert "Stopped. What was begun is completed by the next `anycastlab up`." in said
    assert "Traceback" not in said


def test_the_work_ends_with_a_process_that_is_killed(at_work: tuple[subprocess.Popen[str], int]) -> None:
    process, worker = at_work
    process.kill()
    assert gone_within(worker, AT_ONCE_S)


@pytest.mark.parametrize("at_work", [True], indirect=True, ids=["SIGINT ignored"])
def test_an_interrupted_run_is_never_a_success(at_work: tuple[subprocess.Popen[str], int]) -> None:
    process, worker = at_work
    os.killpg(process.pid, signal.SIGINT)
    assert gone_within(worker, AT_ONCE_S)
    process.communicate(timeout=AT_ONCE_S)
    assert process.returncode == 130


@pytest.mark.parametrize(("command", "by_itself"), [("up -i inventory.py", None), ("status", 1), ("--help", 0)])
@pytest.mark.parametrize("delay_s", [0.0, 0.03, 0.1, 0.2, 0.4])
def test_ctrl_c_in_the_first_half_second_is_no_traceback(
    home: Path, command: str, by_itself: int | None, delay_s: float
) -> None:
    write(home, SLOW)
    process = subprocess.Popen(
        [PROGRAM, *command.split()],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(delay_s)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in said
    # Before anything of ours runs, the kernel ends it. What ends by itself may have been quicker.
    assert process.returncode in (130, -signal.SIGINT, by_itself)
