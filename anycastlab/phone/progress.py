"""Show how a run is going, on stderr, from a thread of its own.

A terminal or a pipe that does not drain blocks whoever writes to it. That must not be the sender: it would send late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TextIO

from anycastlab.phone import limits


class Progress:
    """Repaints one line on a terminal; writes a line now and then elsewhere. `line` makes the text."""

    def __init__(self, out: TextIO, line: Callable[[], str]) -> None:
        self._out = out
        self._line = line
        self._terminal = out.isatty()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Does not wait for a reader that does not read.
        self._done.set()
        self._thread.join(timeout=1.0)
        if self._terminal and not self._thread.is_alive():
            self._out.write("\n")

    def _run(self) -> None:
        interval = limits.PROGRESS_TERMINAL_S if self._terminal else limits.PROGRESS_LOG_S
        while not self._done.wait(interval):
            self._show()
        if self._terminal:
            self._show()

    def _show(self) -> None:
        try:
            self._out.write(f"\r\x1b[K{self._line()}" if self._terminal else f"{self._line()}\n")
            self._out.flush()
        except OSError:
            self._done.set()  # the reader is gone; the run goes on
