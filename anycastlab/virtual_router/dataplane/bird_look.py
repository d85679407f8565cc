"""What BIRD and the kernel say, read. Pure: their texts in, `routing.Look` out.

BIRD knows all paths and whose a route is, the kernel which next hops really forward: BIRD's table has no mark for those
that share with the best one. Kernel routes with the protocol `bird` are the best of BIRD's routes to that prefix. Times
are `iso long ms` (see `bird.py`), in the zone of this machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address, ip_network
from typing import Any

from anycastlab.virtual_router.dataplane.routing import (
    EBGP_DISTANCE,
    TOP_DISTANCE,
    BfdPeer,
    BgpPath,
    Hop,
    Look,
    Neighbor,
    Route,
)

COMMANDS = ("show protocols all", "show bfd sessions all", "show route all")
"""What BIRD is asked, in the order of `Texts`."""
KERNEL_COMMANDS = (("ip", "-j", "route", "show"), ("ip", "-j", "-6", "route", "show"))

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?")
_ENTRY = re.compile(r"^(\S*) +(\w+) \[(\S+) [^\]]*\](?: [*!])? \((\d+)")
_VIA = re.compile(r"^via (\S+) on (\S+)")
_DEVICE = re.compile(r"^dev (\S+)")
_IMPORTED = re.compile(r"(\d+) imported")
_FAMILY = {"ipv4": 4, "ipv6": 6}
_BFD_STATE = {"up": "up", "init": "init", "admindown": "admin-down"}
_DEAD = {"dead", "linkdown"}


@dataclass(frozen=True)
class Texts:
    """The answers. Empty where there was none."""

    protocols: str = ""
    bfd: str = ""
    routes: str = ""
    kernel4: str = ""
    kernel6: str = ""


def look(texts: Texts, now: datetime, ever: Collection[str] = ()) -> Look:
    """All of it. `ever`: addresses of neighbours that once had a session, which BIRD forgets."""
    protocols = [protocol for protocol in _protocols(texts.protocols) if protocol.address]
    neighbors = tuple(_neighbor(protocol, now, ever) for protocol in protocols)
    own = {neighbor.address: neighbor.local_address for neighbor in neighbors}
    internal = {protocol.name for protocol in protocols if protocol.values.get("Session", "").startswith("internal")}
    table = _table(texts.routes)
    return Look(
        neighbors=neighbors,
        bfd=tuple(_bfd_peer(values, own, now) for values in _bfd_sessions(texts.bfd)),
        paths=_paths(table, internal),
        routes=_routes(table, [*_kernel(texts.kernel4, 4), *_kernel(texts.kernel6, 6)]),
    )


def protocol_of(text: str, address: str) -> str | None:
    """The name of the protocol that speaks with a neighbour, from `show protocols all`."""
    return next((protocol.name for protocol in _protocols(text) if protocol.address == address), None)


def _canonical(text: str) -> str:
    """An address without BIRD's `%interface`."""
    return str(ip_address(text.partition("%")[0]))


def _since(text: str, now: datetime) -> int:
    """Whole seconds since the time in a text; 0 without one, and when the clock was set back."""
    found = _TIME.search(text)
    return max(0, int((now - datetime.fromisoformat(found[0])).total_seconds())) if found else 0


# --- BGP sessions ------------------------------------------------------------------------------------------------


@dataclass
class _Protocol:
    """A protocol of BIRD's: its line, its properties, and those of each of its channels."""

    name: str
    since: str
    values: dict[str, str] = field(default_factory=dict)
    channels: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The neighbour's; empty for what is no BGP session, also for a range that waits for neighbours."""
        text = self.values.get("Neighbor address", "")
        return _canonical(text) if text else ""


def _protocols(text: str) -> Iterator[_Protocol]:
    protocol: _Protocol | None = None
    section: dict[str, str] = {}
    for line in text.splitlines():
        if line and not line[0].isspace():
            if protocol:
                yield protocol
            name, _, rest = line.partition(" ")
            protocol = _Protocol(name, rest)
            section = protocol.values
        elif protocol and line.startswith("  Channel "):
            section = protocol.channels.setdefault(line.split()[1], {})
        elif ":" in line:
            key, _, value = line.strip().partition(":")
            # The first counts: a neighbour's capabilities have lines named like our own.
            section.setdefault(key, value.strip())
    if protocol:
        yield protocol


def _neighbor(protocol: _Protocol, now: datetime, ever: Collection[str]) -> Neighbor:
    values = protocol.values
    established = values.get("BGP state") == "Established"
    channels = {name: channel for name, channel in protocol.channels.items() if channel.get("State") == "UP"}
    source = values.get("Source address", "")
    imported = (_IMPORTED.search(channel.get("Routes", "")) for channel in channels.values())
    return Neighbor(
        address=protocol.address,
        established=established,
        was_established=established or protocol.address in ever,
        remote_as=int(values["Neighbor AS"]) if values.get("Neighbor AS", "").isdecimal() else None,
        remote_id=values.get("Neighbor ID", ""),
        local_address=_canonical(source) if source else "",
        families=tuple(_FAMILY[name] for name in channels if name in _FAMILY),
        hold_s=_timer(values.get("Hold timer")),
        keepalive_s=_timer(values.get("Keepalive timer")),
        prefixes=sum(int(found[1]) for found in imported if found),
        uptime_s=_since(protocol.since, now) if established else 0,
        last_error=values.get("Last error", ""),
    )


def _timer(text: str | None) -> float | None:
    """`6.477/9` is a timer of 9 s that has 6.477 s to go."""
    return float(text.rpartition("/")[2]) if text else None


# --- BFD sessions ------------------------------------------------------------------------------------------------


def _bfd_sessions(text: str) -> Iterator[dict[str, str]]:
    """The properties of each session; those of a section are named after it (`Remote parameters/Multiplier`)."""
    values: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        if not colon or not line.startswith("  "):
            continue
        if key == "Address":
            if values:
                yield values
            values = {}
        if not line.startswith("    "):
            section = "" if value else f"{key}/"
        values[f"{section}{key}"] = value.strip()
    if values:
        yield values


def _bfd_peer(values: Mapping[str, str], own: Mapping[str, str], now: datetime) -> BfdPeer:
    def millis(name: str) -> int:
        return round(1000 * float(values.get(name, "0")))

    address = _canonical(values["Address"])
    state = _BFD_STATE.get(values.get("Session state", "").lower(), "down")
    return BfdPeer(
        address=address,
        state=state,
        local_address=own.get(address, ""),
        multihop=values.get("Session type") == "Multihop",
        tx_ms=millis("Local parameters/Min TX interval"),
        rx_ms=millis("Local parameters/Min RX interval"),
        multiplier=int(values.get("Local parameters/Multiplier", "0")),
        remote_tx_ms=millis("Remote parameters/Min TX interval"),
        remote_rx_ms=millis("Remote parameters/Min RX interval"),
        remote_multiplier=int(values.get("Remote parameters/Multiplier", "0")),
        uptime_s=_since(values.get("Last state change", ""), now) if state == "up" else 0,
    )


# --- routes ------------------------------------------------------------------------------------------------------


@dataclass
class _Entry:
    """One route of BIRD's table. The best one to a prefix comes first."""

    usable: bool
    blackhole: bool
    speaker: str
    distance: int
    kind: str = ""
    """`BGP`, `static`, `device`, `inherit` (learned from the kernel)."""
    hops: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)


def _table(text: str) -> dict[str, list[_Entry]]:
    """All tables; their prefixes are of different families."""
    table: dict[str, list[_Entry]] = {}
    prefix, entry = "", None
    for line in text.splitlines():
        start = _ENTRY.match(line)
        if start:
            prefix = str(ip_network(start[1])) if start[1] else prefix
            entry = _Entry(start[2] == "unicast", start[2] == "blackhole", start[3], TOP_DISTANCE - int(start[4]))
            table.setdefault(prefix, []).append(entry)
        elif entry and line.startswith("\t"):
            _read_attribute(entry, line.strip())
    return table


def _read_attribute(entry: _Entry, line: str) -> None:
    via, device = _VIA.match(line), _DEVICE.match(line)
    if via:
        entry.hops.append((_canonical(via[1]), via[2]))
    elif device:
        entry.hops.append(("", device[1]))
    elif line.startswith("Type: "):
        entry.kind = line.split()[1]
    else:
        key, _, value = line.partition(":")
        entry.values[key] = value.strip()


def _paths(table: Mapping[str, Sequence[_Entry]], internal: Collection[str]) -> dict[str, tuple[BgpPath, ...]]:
    found = {
        prefix: tuple(_path(entry, entry.speaker not in internal) for entry in entries if entry.kind == "BGP")
        for prefix, entries in table.items()
    }
    return {prefix: paths for prefix, paths in found.items() if paths}


def _path(entry: _Entry, external: bool) -> BgpPath:
    def number(name: str) -> int | None:
        return int(entry.values[name]) if name in entry.values else None

    return BgpPath(
        # A link-local neighbour's address comes twice.
        next_hops=tuple(dict.fromkeys(_canonical(word) for word in entry.values.get("BGP.next_hop", "").split())),
        valid=entry.usable,
        external=external,
        as_path=entry.values.get("BGP.as_path", ""),
        origin=entry.values.get("BGP.origin", "").lower(),
        med=number("BGP.med"),
        local_pref=number("BGP.local_pref"),
    )


@dataclass(frozen=True)
class _Installed:
    """A kernel route of the main table."""

    prefix: str
    protocol: str
    metric: int
    hops: tuple[Hop, ...]


def _kernel(text: str, family: int) -> Iterator[_Installed]:
    for route in json.loads(text or "[]"):
        blackhole = route.get("type") == "blackhole"
        if route.get("type", "unicast") != "unicast" and not blackhole:
            continue
        target = route["dst"]
        if target == "default":
            target = "0.0.0.0/0" if family == 4 else "::/0"
        hops = (Hop(blackhole=True),) if blackhole else tuple(_hop(hop) for hop in route.get("nexthops", [route]))
        yield _Installed(str(ip_network(target)), route.get("protocol", ""), int(route.get("metric", 0)), hops)


def _hop(hop: Mapping[str, Any]) -> Hop:
    address = hop.get("gateway") or hop.get("via", {}).get("host", "")  # `via`: of the other family
    return Hop(
        _canonical(address) if address else "", hop.get("dev", ""), live=not _DEAD.intersection(hop.get("flags", []))
    )


def _routes(table: Mapping[str, Sequence[_Entry]], installed: Sequence[_Installed]) -> dict[str, tuple[Route, ...]]:
    found: dict[str, list[Route]] = {}
    lowest: dict[str, int] = {}
    for route in installed:
        lowest[route.prefix] = min(route.metric, lowest.get(route.prefix, route.metric))
    given: set[int] = set()
    for route in installed:
        active = route.metric == lowest[route.prefix]
        ours = [entry for entry in table.get(route.prefix, ()) if _is_ours(entry)]
        best = min(ours, key=lambda entry: entry.distance, default=None)
        if route.protocol == "bird" and best:
            given.add(id(best))
            protocol, distance = ("bgp" if best.kind == "BGP" else "static"), best.distance
        elif route.protocol == "bird":
            # Withdrawn between the two looks, or left behind by a BIRD that died; static routes do not come and go.
            protocol, distance = "bgp", EBGP_DISTANCE
        else:
            connected = route.protocol == "kernel" and not any(hop.address or hop.blackhole for hop in route.hops)
            protocol, distance = ("connected" if connected else "kernel"), 0
        hops = route.hops if active else tuple(Hop(h.address, h.device, False, h.blackhole) for h in route.hops)
        found.setdefault(route.prefix, []).append(
            Route(protocol, hops, distance, active and any(hop.live for hop in hops))
        )
    for prefix, entries in table.items():
        # A BGP route that is not in the kernel is among the paths.
        unused = [e for e in entries if _is_ours(e) and e.kind == "static" and id(e) not in given]
        found.setdefault(prefix, []).extend(_unused(entry) for entry in unused)
    return {prefix: tuple(routes) for prefix, routes in found.items() if routes}


def _is_ours(entry: _Entry) -> bool:
    """Whether BIRD gives it to the kernel if it is the best: not what it learned, nor what it only announces."""
    return entry.kind in ("BGP", "static") and entry.distance < TOP_DISTANCE


def _unused(entry: _Entry) -> Route:
    hops = [Hop(address, device, live=False) for address, device in entry.hops] or [Hop(live=False, blackhole=True)]
    return Route("static", tuple(hops), entry.distance, active=False)
