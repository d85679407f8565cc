"""Reading values out of rows: booleans, times, lists, as the router writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from anycastlab.virtual_router.dataplane.api import Row, Snapshot

Network = IPv4Network | IPv6Network

_UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "": 1.0}
_TIME_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|w|d|h|m|s|)")
_CLOCK = re.compile(r"(?:(\d+)d ?)?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


def truth(row: Row, name: str, default: bool = False) -> bool:
    """A boolean property; both spellings (`yes`, `true`)."""
    value = row.get(name)
    if value is None or value == "":
        return default
    return value in ("true", "yes")


def enabled(snapshot: Snapshot, menu: str) -> Iterator[Row]:
    """The rows of a menu that count, in order."""
    return (row for row in snapshot.get(menu, ()) if not truth(row, "disabled"))


def singleton(snapshot: Snapshot, menu: str) -> Row:
    """The one row of a singleton menu; empty when nothing was ever set."""
    rows = snapshot.get(menu, ())
    return rows[0] if rows else {}


def seconds(text: str | None, default: float) -> float:
    """`1m30s`, `200ms`, `00:01:30` or a bare number in seconds. Raises ValueError for anything else."""
    if not text:
        return default
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes, secs = clock.groups()
        return int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(secs or 0)
    total, end = 0.0, 0
    while end < len(text):
        part = _TIME_PART.match(text, end)
        if part is None:
            raise ValueError(f"{text!r} is not a time")
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    return total


def duration(value: float) -> str:
    """Seconds as the router prints a time (`1w2d3h4m5s`, `250ms`)."""
    millis = round(value * 1000)
    if millis == 0:
        return "0s"
    text = ""
    for unit, size in (("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, millis = divmod(millis, size)
        if count:
            text += f"{count}{unit}"
    return text


def items(text: str | None) -> list[str]:
    """A comma-separated list without empty parts."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def network(text: str) -> Network:
    """An address or prefix; host bits are cut off as the router does. Raises ValueError."""
    return ip_network(text, strict=False)


def is_host(text: str) -> bool:
    """Whether `text` names a single address (`10.1.2.11`, `10.1.2.11/32`)."""
    net = network(text)
    return net.prefixlen == net.max_prefixlen


def host(text: str) -> str:
    """`10.1.2.11/32` as plain address. Raises ValueError for a real prefix."""
    net = network(text)
    if net.prefixlen != net.max_prefixlen:
        raise ValueError(f"{text} is a network, not an address")
    return str(ip_address(net.network_address))
