"""One run at a time on a home: two deploys at once would take two nodes out of service, and write the same files.

The lock is the kernel's (flock), so a killed run leaves none behind. pyinfra inherits it: it holds as long as anything
of the run still works, even when only this command was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import click

from anycastlab.paths import state_dir


@contextlib.contextmanager
def turn(inventory: str) -> Iterator[int]:
    """Hold the home's lock, or say at once that another run has it; yields the lock's file descriptor."""
    # By name rather than by path: two clones of the repository work on the same lab.
    name = f"{Path(inventory).stem}-{os.environ.get('ANYCASTLAB_LAB') or 'lab'}"
    path = state_dir() / "runs" / f"{name}.lock"
    for directory in (state_dir(), path.parent):  # one by one: made as a parent, a directory would be open to all
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(f"Another run is at work on {inventory}. Wait until it has ended.") from None
        yield handle
    finally:
        os.close(handle)
