"""Standard output that remembers when it could not be written: a full disk is an error, also where a library hides it.

argparse says nothing of it, rich and click raise it out of the middle of a command, and Python finds it once more at
exit. So it is noted where it happens, and the command line tells it in one place.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any


class Unwritable(OSError):  # noqa: N818  (a state of standard output)
    """Standard output takes nothing more, for another reason than a reader who has left."""


class StandardOutput(io.FileIO):
    """Descriptor 1. `trouble` is what its last write that failed said; BrokenPipeError where the reader has left."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.trouble: OSError | None = None

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # bytes or a buffer, as FileIO
        try:
            return super().write(data)
        except BrokenPipeError as error:
            self.trouble = error
            raise
        except OSError as error:
            self.trouble = Unwritable(error.errno, error.strerror)
            raise self.trouble from None

    def finish(self) -> OSError | None:
        """Write what still waits; returns `trouble`. Afterwards nothing is left that could fail at exit."""
        with contextlib.suppress(OSError, ValueError):  # noted; or closed by whoever met it
            sys.stdout.flush()
        if self.trouble is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
        return self.trouble


def take() -> StandardOutput | None:
    """Put it in the place of `sys.stdout`; None where there is no standard output."""
    before = sys.stdout
    try:
        raw = StandardOutput(before.fileno())
    except (AttributeError, OSError):  # closed by the caller (`>&-`), or no file at all
        return None
    before.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=bool(before.line_buffering or getattr(before, "write_through", False)),
    )
    return raw
