"""Ctrl-C before a command has begun to work: it ends with a word, wherever it comes.

Importing takes a good part of a second, and pyinfra's replaces the standard library meanwhile: an exception out of that
would be a mess of tracebacks. Nothing has begun, so the process may simply end. Imports next to nothing itself.
"""

from __future__ import annotations

import os
import signal
import sys

from anycastlab.exit_codes import INTERRUPTED


def begin() -> None:
    """From now on Ctrl-C ends the process at once; the command's program calls it first of all."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held back while Python started: see scripts/bootstrap


def complete_streams() -> None:
    """Standard input, output or error that was closed (`<&-`) becomes /dev/null; Python has None in its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Takes the free number, from 0 on; is handed on to programs that we start, and outlives this object.
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def over() -> None:
    """The command works now: Ctrl-C is a KeyboardInterrupt, so that it can put things back."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_number: int, _frame: object) -> None:
    os.write(2, b"Stopped by Ctrl-C.\n")
    os._exit(INTERRUPTED)
