"""The pipe of two processes, with real processes that do what builders do at their worst."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from anycastlab.image.process import Outcome, ending_signals_interrupt, run_piped

PATIENCE_S = 10.0


def piped(tmp_path: Path, producer: str, consumer: str, **options: object) -> Outcome:
    settings: dict[str, object] = {"stdin": b"", "on_line": lambda _line: None, "timeout_s": PATIENCE_S, **options}
    return run_piped(
        [sys.executable, "-c", producer],
        [sys.executable, "-c", consumer],
        log=tmp_path / "log",
        environment=dict(os.environ),
        **settings,  # type: ignore[arg-type]
    )


def gone(process: int) -> bool:
    """Ended and reaped, or a zombie that waits for whoever adopted it."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def until_gone(process: int) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not gone(process) and time.monotonic() < end:
        time.sleep(0.02)
    return gone(process)


def test_input_goes_through_and_all_lines_are_kept(tmp_path: Path) -> None:
    lines: list[str] = []
    produce = "import sys; d = sys.stdin.read(); sys.stdout.write(d.upper()); print('I: made', file=sys.stderr)"
    consume = f"import sys; open({str(tmp_path / 'out')!r}, 'w').write(sys.stdin.read()); print('packed')"

    outcome = piped(tmp_path, produce, consume, stdin=b"sources\n", on_line=lines.append)

    assert outcome.good
    assert (tmp_path / "out").read_text() == "SOURCES\n"
    assert sorted(lines) == ["I: made", "packed"]
    assert sorted((tmp_path / "log").read_text().splitlines()) == ["I: made", "packed"]


def test_a_consumer_that_dies_ends_the_producer(tmp_path: Path) -> None:
    outcome = piped(tmp_path, "while True: print('x' * 9999)", "import sys; sys.exit('No space left on device')")

    assert not outcome.good
    assert outcome.consumer_exit == 1
    assert any("No space left" in line for line in outcome.last_lines)


def test_a_build_that_hangs_is_ended(tmp_path: Path) -> None:
    started = time.monotonic()

    outcome = piped(tmp_path, "import time; time.sleep(60)", "import sys; sys.stdin.read()", timeout_s=0.3)

    assert outcome.timed_out
    assert not outcome.good
    assert time.monotonic() - started < PATIENCE_S


def test_an_interruption_ends_grandchildren_too(tmp_path: Path) -> None:
    # Given a producer with a child of its own, as mmdebstrap has many
    produce = (
        "import subprocess, sys, time; c = subprocess.Popen(['sleep', '60']); "
        "print(c.pid, file=sys.stderr, flush=True); time.sleep(60)"
    )
    child: list[int] = []

    def interrupt(line: str) -> None:
        if line.isdigit():
            child.append(int(line))
            raise KeyboardInterrupt

    # When Ctrl-C comes
    with pytest.raises(KeyboardInterrupt):
        piped(tmp_path, produce, "import sys; sys.stdin.read()", on_line=interrupt)

    # Then that child is gone as well
    assert child
    assert until_gone(child[0])


def test_a_builder_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anycastlab.image.process.STOP_GRACE_S", 0.3)
    produce = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(os.getpid(), file=sys.stderr, flush=True); time.sleep(60)"
    )
    producer: list[int] = []

    def interrupt(line: str) -> None:
        producer.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        piped(tmp_path, produce, "import sys; sys.stdin.read()", on_line=interrupt)

    assert until_gone(producer[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_signals_arrive_as_an_interruption_and_only_inside(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def ended_inside() -> None:
        with ending_signals_interrupt():
            os.kill(os.getpid(), number)
            time.sleep(PATIENCE_S)

    with pytest.raises(KeyboardInterrupt):
        ended_inside()

    assert signal.getsignal(number) is before


def test_in_another_thread_signals_are_left_alone() -> None:
    problems: list[BaseException] = []

    def enter() -> None:
        try:
            with ending_signals_interrupt():
                pass
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(PATIENCE_S)

    assert problems == []
