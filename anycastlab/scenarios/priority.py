"""The phone goes before everything else on this machine, and so does BFD.

20 queries a second cost the others nothing, and a busy machine must not make the instrument late. Nor may it make a BFD
daemon miss three packets in a row: in a home each machine has a processor of its own, here all of them share one, and
with ten processes for two cores an ordinary process stands still for 0.1 s several times a minute. Where the kernel or
our rights do not allow it, nothing is lost: the phone's own account of its lateness decides, as ever, and a false alarm
is in the record.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

# Lowest real-time priority: above every ordinary process, below every other real-time one.
PRIORITY = 1
# Microseconds per second that a control group may spend on real-time processes, where the kernel asks (CONFIG_RT_GROUP_
# SCHED, control groups version 1). Far above what a phone of `MOST_RATE` needs; beyond it, it would be held up.
RT_RUNTIME_US = 150_000
# The same for a machine's BFD daemon, many times what it uses: three sessions at 50 ms cost the router 26 ms a second,
# its node 9. The kernel gives away 950 ms a second to all groups together: two labs of three nodes (the layout flat has
# one of its own) get by with 720; a machine beyond that goes as it goes.
BFD_RUNTIME_US = 120_000
NODE_BFD_RUNTIME_US = 30_000
# Queries per second up to which the phone stays far below that.
MOST_RATE = 100.0
_POLL_S = 0.1
# FRR's, and BIRD, in which it is a thread. Both with what is before them in a command line: nothing else is meant.
_BFD_PROGRAMS = ("/usr/lib/frr/bfdd", "/usr/sbin/bird")

_PROC, _CPU_GROUPS = Path("/proc"), Path("/sys/fs/cgroup/cpu")


def prefer(unit: str, program: str, limit_s: float, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Raise the process that runs `program` in the container's systemd unit `unit`; whether that was possible.

    Waits for it up to `limit_s` seconds: systemd's own process has the unit's name first.
    """
    if os.geteuid() != 0:
        return False
    end = time.monotonic() + limit_s
    while (process := find(unit, program)) is None:
        if time.monotonic() > end:
            return False
        sleep(_POLL_S)
    return _raise(process, RT_RUNTIME_US)


def prefer_bfd(project: str, router: str, nodes: Iterable[str]) -> int:
    """Raise the BFD daemons of a lab's router and nodes, as they are now; of how many that was possible."""
    if os.geteuid() != 0:
        return 0
    shares = [(router, BFD_RUNTIME_US), *((node, NODE_BFD_RUNTIME_US) for node in nodes)]
    return sum(
        _raise(process, runtime_us)
        for machine, runtime_us in shares
        # liblxc's name of a container's group: Incus puts the project before the instance.
        for program in _BFD_PROGRAMS
        for process in _processes(f"/lxc.payload.{project}_{machine}/", program)
    )


def _raise(process: int, runtime_us: int) -> bool:
    with suppress(OSError):
        _allow(process, runtime_us)
    try:
        # The scheduler knows threads, not processes: without the others, BIRD's BFD would stay where it was.
        for thread in (_PROC / str(process) / "task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(PRIORITY))
    except OSError:
        return False
    return True


def find(unit: str, program: str) -> int | None:
    """The process of this machine, containers included, that runs `program` in a systemd unit of this unique name."""
    return next(_processes(unit, program), None)


def _processes(group: str, program: str) -> Iterator[int]:
    """All that run `program` in a control group with `group` in its path."""
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            # It may end while we look.
            with suppress(OSError):
                if group in (folder / "cgroup").read_text() and program in (folder / "cmdline").read_text():
                    yield int(folder.name)


def _allow(process: int, runtime_us: int) -> None:
    """Give the control groups of a process a share of real time, from the top down, where they have none."""
    for line in (_PROC / str(process) / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" not in controllers.split(","):
            continue
        group = _CPU_GROUPS
        for part in path.strip("/").split("/"):
            group /= part
            runtime = group / "cpu.rt_runtime_us"
            if runtime.exists() and int(runtime.read_text()) == 0:
                runtime.write_text(str(runtime_us))
