"""Hears that the resolver's process ended, in the moment it does (pidfd_open(2)).

systemd hears it too and takes the link down (see `units`), but to do so it forks and executes, which takes its time on
a busy machine. This process is awake already. Whichever is first.

Only processes that were there while the resolver answered are watched, and only the end of all of them counts: what
systemd runs beside a resolver that starts or stops says nothing about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from anycastlab.probe.loop import Loop

# Where the tree of control groups is: version 2 alone, beside version 1, and version 1's own of systemd.
ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
# More processes than any resolver has; a cgroup with more of them is not what we think it is.
MOST = 64


class Watch:
    """Call `look` while the resolver answers; `ended()` is called once, when all that were seen have ended."""

    def __init__(self, loop: Loop, cgroup: str, ended: Callable[[], None], roots: Sequence[str] = ROOTS) -> None:
        self._loop = loop
        self._paths = [f"{root}/{cgroup}/cgroup.procs" for root in roots] if cgroup else []
        self._ended = ended
        self._watched: dict[int, _Process] = {}

    @property
    def active(self) -> bool:
        return bool(self._watched)

    def look(self) -> None:
        """Does nothing while there is something watched, or where the kernel does not let us."""
        if self._watched:
            return
        for pid in next(filter(None, map(_pids, self._paths)), []):
            try:
                process = _Process(os.pidfd_open(pid))
            except OSError:  # it has ended already, or pidfds are not to be had here
                continue
            self._watched[pid] = process
            self._loop.on_readable(process, lambda pid=pid: self._gone(pid))  # type: ignore[misc]

    def _gone(self, pid: int) -> None:
        process = self._watched.pop(pid)
        self._loop.forget(process)
        process.close()
        if not self._watched:
            self._ended()


def _pids(path: str) -> list[int]:
    try:
        with open(path, encoding="ascii") as file:
            pids = [int(line) for line in file]
    except (OSError, ValueError):
        return []
    return [pid for pid in pids if pid > 0] if len(pids) <= MOST else []


class _Process:
    """A pidfd: readable when its process has ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)
