"""Kernel limits that all containers of a host share: their root is the same user outside. Pure, but for `read()`.

systemd in one container holds about eight inotify instances and a dozen keys (measured with 17 machines: 127 of 128
and 200 of 200). Once these are used up, services in *any* container fail to start, and few messages name the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

SETTINGS: Final[Mapping[str, int]] = {
    "fs.inotify.max_user_instances": 4096,  # for about 500 machines; the kernel's default of 128 is for about 15
    "kernel.keys.maxkeys": 4000,  # for about 300 machines; the default of 200 is for about 16
    "kernel.keys.maxbytes": 400_000,  # 100 bytes for each of these keys, as in the kernel's own default
}
FILE: Final = Path("/etc/sysctl.d/60-anycastlab-lab.conf")  # not the name that a node has: a host may be both


def too_low(current: Mapping[str, int]) -> dict[str, int]:
    """The settings that have to be raised, with the values they need. A kernel that does not have one needs none."""
    return {name: needed for name, needed in SETTINGS.items() if name in current and current[name] < needed}


def file_text(settings: Mapping[str, int]) -> str:
    lines = [f"{name} = {value}\n" for name, value in sorted(settings.items())]
    return "# All containers share these; with the kernel's defaults, about 15 machines use them up.\n" + "".join(lines)


def read() -> dict[str, int]:
    """The current values of those that exist here."""
    found = {}
    for name in SETTINGS:
        path = Path("/proc/sys", *name.split("."))
        if path.exists():
            found[name] = int(path.read_text())
    return found
