"""The showing process: starts the one that works, hands on what it says, and never leaves it behind.

Whatever ends this process ends that one: Ctrl-C, SIGTERM and SIGHUP are passed on as SIGINT (upon which it puts a
router's half-made change back), and the kernel does the same if this process is killed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from anycastlab.exit_codes import INTERRUPTED
from anycastlab.run.limits import CHANNEL_VARIABLE, PARENT_VARIABLE, POLL_S, STOP_LIMIT_S
from anycastlab.run.messages import Message, decode

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READ_BYTES = 1 << 16


class Working:
    """A run in a process of its own. Iterate over `messages()`; `code` is its exit status afterwards."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.stopped = False
        """Whether somebody wanted the run to end."""
        self.code = INTERRUPTED
        self._stop_at: float | None = None
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def messages(self) -> Iterator[Message]:
        """Start the run, and give what it says until it has ended."""
        reading, writing = os.pipe()
        previous = {number: signal.getsignal(number) for number in _STOPS}
        # Held back until the new process has its handler: before that it would end with a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for number in _STOPS:
                # Where SIGINT is ignored (a background job of a script), the working process still gets it.
                if number is signal.SIGINT or previous[number] is not signal.SIG_IGN:
                    signal.signal(number, self._stop)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "anycastlab.run", *self._arguments],
                env={**os.environ, CHANNEL_VARIABLE: str(writing), PARENT_VARIABLE: str(os.getpid())},
                pass_fds=(writing,),
                stdout=sys.stderr.fileno(),  # standard output is the result's
            )
            os.close(writing)
            if self.stopped:  # by a signal that came before there was a process to pass it on to
                self._process.send_signal(signal.SIGINT)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            yield from self._read(reading)
            self.code = self._ended()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(reading)
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self.stopped |= self.code == INTERRUPTED

    def _read(self, channel: int) -> Iterator[Message]:
        waiting = b""
        while True:
            self._kill_what_does_not_stop()
            if not select.select([channel], [], [], POLL_S)[0]:
                continue
            data = os.read(channel, _READ_BYTES)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            yield from map(decode, lines)

    def _ended(self) -> int:
        assert self._process is not None
        while True:
            try:
                return self._process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                self._kill_what_does_not_stop()

    def _kill_what_does_not_stop(self) -> None:
        if self._stop_at is not None and time.monotonic() > self._stop_at and self._process is not None:
            self._process.kill()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopped = True
        self._stop_at = self._stop_at or time.monotonic() + STOP_LIMIT_S
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
