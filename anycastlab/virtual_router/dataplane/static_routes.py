"""Static routes of /ip/route and /ipv6/route, understood. Pure; the routing daemons' renderers print them."""

from __future__ import annotations

from dataclasses import dataclass

from anycastlab.virtual_router.dataplane.api import Row, Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.peers import Notes
from anycastlab.virtual_router.dataplane.rows import Network, enabled, items, network

MENUS = {"/ip/route": 4, "/ipv6/route": 6}
"""Menu to its address family."""
DEFAULT = {4: "0.0.0.0/0", 6: "::/0"}
DEFAULT_DISTANCE = 1


@dataclass(frozen=True)
class Gateway:
    """Where packets go: through an address, out of a device, or both."""

    address: str = ""
    device: str = ""


@dataclass(frozen=True)
class StaticRoute:
    """One row. Without gateways it is a blackhole."""

    family: int
    target: Network
    gateways: tuple[Gateway, ...]
    distance: int = DEFAULT_DISTANCE

    @property
    def blackhole(self) -> bool:
        return not self.gateways


def understand(snapshot: Snapshot, interfaces: Interfaces) -> tuple[tuple[StaticRoute, ...], Notes]:
    """Every usable row; a note with `inactive=true` on each of the others."""
    found: list[StaticRoute] = []
    notes: Notes = {}
    for menu, family in MENUS.items():
        for row in enabled(snapshot, menu):
            if row.get("routing-table", "main") not in ("", "main"):
                continue  # `policy_routing` has them
            try:
                found.append(_static_route(row, family, interfaces))
            except ValueError as error:
                notes[menu, row.get(".id", "")] = {"inactive": "true", ".why": str(error)}
    return tuple(found), notes


def _static_route(row: Row, family: int, interfaces: Interfaces) -> StaticRoute:
    reason = refused(row)
    if reason:
        raise ValueError(f"{reason} is not emulated")
    target = network(row.get("dst-address") or DEFAULT[family])
    distance = int(row.get("distance") or DEFAULT_DISTANCE)
    if row.get("blackhole", "no") not in ("no", "false"):  # set by being there: `blackhole=""`
        return StaticRoute(family, target, (), distance)
    gateways = tuple(_gateway(text, interfaces) for text in items(row.get("gateway")))
    if not gateways:
        raise ValueError("no gateway")
    return StaticRoute(family, target, gateways, distance)


def _gateway(text: str, interfaces: Interfaces) -> Gateway:
    address, _, via = text.partition("%")
    device = _device(via, interfaces) if via else ""
    if address[:1].isdigit() or ":" in address:
        return Gateway(address, device)
    return Gateway("", _device(address, interfaces))


def _device(name: str, interfaces: Interfaces) -> str:
    device = interfaces.device(name)
    if device is None:
        raise ValueError(f"no interface {name}")
    return device


def refused(row: Row) -> str | None:
    """Which property of a static route is not emulated."""
    for name, harmless in (
        ("check-gateway", "none"),
        ("vrf-interface", ""),
        ("pref-src", ""),
    ):
        value = row.get(name, "")
        if value not in ("", harmless):
            return f"{name}={value}"
    return None
