"""The phone's process goes before everything else on this machine.

20 queries a second cost the others nothing, and a busy machine must not make the instrument late. Where the kernel or
our rights do not allow it, nothing is lost: the phone's own account of its lateness decides, as ever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Lowest real-time priority: above every ordinary process, below every other real-time one.
PRIORITY = 1
# Microseconds per second that a control group may spend on real-time processes, where the kernel asks (CONFIG_RT_GROUP_
# SCHED, control groups version 1). Far above what a phone of `MOST_RATE` needs; beyond it, it would be held up.
RT_RUNTIME_US = 300_000
# Queries per second up to which the phone stays far below that.
MOST_RATE = 100.0
_POLL_S = 0.1

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
    with suppress(OSError):
        _allow(process)
    try:
        os.sched_setscheduler(process, os.SCHED_RR, os.sched_param(PRIORITY))
    except OSError:
        return False
    return True


def find(unit: str, program: str) -> int | None:
    """The process of this machine, containers included, that runs `program` in a systemd unit of this unique name."""
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            # It may end while we look.
            with suppress(OSError):
                if unit in (folder / "cgroup").read_text() and program in (folder / "cmdline").read_text():
                    return int(folder.name)
    return None


def _allow(process: int) -> None:
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
                runtime.write_text(str(RT_RUNTIME_US))
