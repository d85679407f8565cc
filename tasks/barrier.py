"""The end of a phase: an operation that every host takes part in and that changes nothing.

Operations after it run on no host before everything ahead of it is done on all hosts. `--no-wait` and `--serial` take
its power away.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation


@operation()
def _barrier(phase: str) -> Generator[str, None, None]:
    host.noop(phase)
    yield from ()


def barrier(phase: str) -> None:
    """Hold every host here until all have arrived."""
    _barrier(name=f"Barrier: {phase}", phase=phase)
