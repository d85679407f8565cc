"""Runs the build's processes so that an interruption at any moment ends all of them and tidies up once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from anycastlab.image.limits import FAILURE_LINES, STOP_GRACE_S

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Outcome:
    """How a pipe of two processes ended. `last_lines` are from both, oldest first."""

    producer_exit: int
    consumer_exit: int
    last_lines: tuple[str, ...]
    timed_out: bool

    @property
    def good(self) -> bool:
        return self.producer_exit == 0 and self.consumer_exit == 0 and not self.timed_out


@contextlib.contextmanager
def ending_signals_interrupt() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP raise `KeyboardInterrupt`, as Ctrl-C does. Only the main thread can do that."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handlers(dict.fromkeys(_ENDING_SIGNALS, interrupt)):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """For short tidying: a second Ctrl-C must not stop it half-way."""
    with _handlers(dict.fromkeys((signal.SIGINT, *_ENDING_SIGNALS), signal.SIG_IGN)):
        yield


@contextlib.contextmanager
def _handlers(
    handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], None] | signal.Handlers],
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def run_piped(
    producer: Sequence[str],
    consumer: Sequence[str],
    *,
    stdin: bytes,
    log: Path,
    on_line: Callable[[str], None],
    environment: Mapping[str, str],
    timeout_s: float,
) -> Outcome:
    """`producer | consumer`. Every line they say (for the consumer: on either output) goes to `log` and to `on_line`.

    Whatever ends it early (an exception in `on_line`, Ctrl-C, the timeout) ends both processes first.
    """
    last: deque[str] = deque(maxlen=FAILURE_LINES)
    timed_out = threading.Event()
    errors_read, errors_write = os.pipe()
    processes: list[subprocess.Popen[bytes]] = []

    def give_up() -> None:
        timed_out.set()
        _end(processes)

    watchdog = threading.Timer(timeout_s, give_up)
    watchdog.daemon = True
    try:
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(os.fdopen(errors_read, "r", encoding="utf-8", errors="replace"))
            try:
                first = subprocess.Popen(
                    producer,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors_write,
                    env=dict(environment),
                    start_new_session=True,
                )
                processes.append(first)
                second = subprocess.Popen(
                    consumer,
                    stdin=first.stdout,
                    stdout=errors_write,
                    stderr=errors_write,
                    env=dict(environment),
                    start_new_session=True,
                )
                processes.append(second)
            finally:
                os.close(errors_write)
            watchdog.start()
            assert first.stdout is not None
            assert first.stdin is not None
            first.stdout.close()  # the consumer's alone now: if it dies, the producer gets SIGPIPE instead of hanging
            with contextlib.suppress(BrokenPipeError):
                first.stdin.write(stdin)
                first.stdin.close()
            output = stack.enter_context(log.open("w", encoding="utf-8"))
            for line in errors:
                output.write(line)
                last.append(line.rstrip("\n"))
                on_line(line.rstrip("\n"))
            return Outcome(first.wait(), second.wait(), tuple(last), timed_out.is_set())
    finally:
        watchdog.cancel()
        with undisturbed():
            _end(processes)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """SIGTERM, a moment to tidy up, SIGKILL; whole process groups, so no grandchild stays. Harmless when all ended."""
    for number, grace in ((signal.SIGTERM, STOP_GRACE_S), (signal.SIGKILL, STOP_GRACE_S)):
        living = [process for process in processes if process.poll() is None]
        for process in living:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        for process in living:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
