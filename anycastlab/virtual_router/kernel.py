"""What the kernel under the stand-in knows: memory, load, interfaces, neighbours. Reads files, never waits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_COMPLETE = 0x2  # ATF_COM in /proc/net/arp
_NET = Path("/sys/class/net")
_COUNTERS = {
    "rx-byte": "rx_bytes",
    "tx-byte": "tx_bytes",
    "rx-packet": "rx_packets",
    "tx-packet": "tx_packets",
    "rx-drop": "rx_dropped",
    "tx-drop": "tx_dropped",
    "rx-error": "rx_errors",
    "tx-error": "tx_errors",
}


@dataclass(frozen=True)
class Neighbour:
    """An entry of the ARP table."""

    address: str
    mac: str
    device: str
    complete: bool


def memory() -> Mapping[str, int]:
    """/proc/meminfo in bytes; empty where it cannot be read."""
    pairs = (line.split() for line in _lines(Path("/proc/meminfo")))
    return {parts[0].rstrip(":"): 1024 * int(parts[1]) for parts in pairs if len(parts) > 1}


def cpu_loads() -> list[int]:
    """One number per processor, percent: the load of the last minute spread evenly (containers see no more)."""
    cpus = os.cpu_count() or 1
    return [min(100, round(100 * os.getloadavg()[0] / cpus))] * cpus


def link(device: str) -> dict[str, str]:
    """State and counters of a device under RouterOS's names. A device that is not there is not running."""
    folder = _NET / device
    values = {name: _word(folder / "statistics" / file) or "0" for name, file in _COUNTERS.items()}
    mtu = _word(folder / "mtu")
    return {
        "mac-address": _word(folder / "address").upper(),
        **({"mtu": mtu, "actual-mtu": mtu} if mtu else {}),
        "running": "true" if _word(folder / "operstate") in ("up", "unknown") else "false",
        **values,
    }


def neighbours() -> Iterator[Neighbour]:
    """The IPv4 neighbour table."""
    for line in list(_lines(Path("/proc/net/arp")))[1:]:
        fields = line.split()
        if len(fields) == 6:
            address, _, flags, mac, _, device = fields
            yield Neighbour(address, mac.upper(), device, bool(int(flags, 16) & _COMPLETE))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
