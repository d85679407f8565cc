"""Forwarding, routing rules, VRFs, hotspot, and where the provider is. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from anycastlab.routeros.obstacles import Obstacle, Scene, at
from anycastlab.routeros.obstacles_firewall import interface_of_gateway, leads_away, open_to
from anycastlab.routeros.packet import Actual, within
from anycastlab.routeros.reading import DEFAULT_ROUTES
from anycastlab.routeros.values import is_true

RULES: Final = "/routing/rule"
VRF: Final = "/ip/vrf"
HOTSPOT: Final = "/ip/hotspot"
ROUTE: Final = "/ip/route"


def forwarding(scene: Scene) -> Iterator[Obstacle]:
    for row in scene.rows("/ip/settings"):
        if row.get("ip-forward") in ("no", "false"):
            yield Obstacle(
                "/ip/settings ip-forward=no",
                "the router forwards nothing, so no client reaches a node.",
                "/ip/settings/set ip-forward=yes",
            )


def rules(scene: Scene) -> Iterator[Obstacle]:
    """Policy routing: the first rule that matches decides about the table."""
    site = scene.site
    service = IPv4Network(site.service.address)
    ways: list[tuple[IPv4Network, IPv4Network, str, str]] = []
    for network, interface in scene.clients:
        ways.append((network, service, interface, f"the questions of {network} to {service.network_address}"))
        node = site.nodes[0]
        ways.append((service, network, scene.interface_of(node), f"the answers to {network}"))
    ways.append((IPv4Network(site.router.router_id), service, "", "netwatch's question to the service address"))
    told: set[str] = set()
    for source, target, interface, about in ways:
        for row in scene.enabled(RULES):
            fits = _fits(row, source, target, interface)
            if fits is False:
                continue
            obstacle = _diverted(scene, row, about, sure=fits is True)
            if obstacle is not None and row.get(".id", "") not in told:
                told.add(row.get(".id", ""))
                yield obstacle
            if fits:
                break


def _fits(row: Actual, source: IPv4Network, target: IPv4Network, interface: str) -> bool | None:
    if row.get("routing-mark"):
        return False  # marked packets: the mangle rule is told
    found: bool | None = True
    for name, network in (("src-address", source), ("dst-address", target)):
        fits = within(row[name], network) if row.get(name) else True
        if fits is False:
            return False
        found = found and fits if fits is not None else None
    if row.get("interface"):
        return found if row["interface"] == interface else False
    return found


def _diverted(scene: Scene, row: Actual, about: str, *, sure: bool) -> Obstacle | None:
    action, table = row.get("action", "lookup"), row.get("table") or "main"
    weight = "breaks" if sure and not row.get("min-prefix") else "may"
    where = f"{at(RULES, row)} table={table}" if "lookup" in action else at(RULES, row)
    if "lookup" not in action:
        return Obstacle(where, f"{about} are dropped.", _except(scene, row), weight)  # type: ignore[arg-type]
    if table == "main" or (action == "lookup" and not leads_away(scene, table)):
        return None
    means = f"{about} take the routing table {table}, where the nodes' route is not."
    return Obstacle(where, means, _except(scene, row), weight)  # type: ignore[arg-type]


def _except(scene: Scene, row: Actual) -> str:
    return (
        f"Put a rule before it: {RULES}/add dst-address={scene.site.service.address}/32 action=lookup table=main "
        f"place-before={row.get('.id', '')}; and one with src-address for the answers."
    )


def vrfs(scene: Scene) -> Iterator[Obstacle]:
    """BGP and the service's route are in the main table; an interface in a VRF does not see them."""
    ours = {name: f"clients in {network}" for network, name in scene.clients if name}
    ours |= {name: node.name for node in scene.site.nodes if (name := scene.interface_of(node))}
    for row in scene.enabled(VRF):
        if is_true(row.get("builtin")) or row.get("name") == "main":
            continue
        for name in (part.strip() for part in row.get("interfaces", "").split(",")):
            if name in ours:
                yield Obstacle(
                    f"{at(VRF, row)} interfaces={row['interfaces']}",
                    f"{name}, towards {ours[name]}, is in this VRF; BGP and the nodes' routes are in the main table.",
                    f"Take {name} out of the VRF, or put the nodes and all clients outside of it.",
                )


def hotspots(scene: Scene) -> Iterator[Obstacle]:
    clients = {name: network for network, name in scene.clients if name}
    nodes = {scene.interface_of(node) for node in scene.site.nodes}
    for row in scene.enabled(HOTSPOT):
        name = row.get("interface", "")
        if name in clients or (name and name in nodes):
            who = f"clients in {clients[name]}" if name in clients else "the nodes"
            yield Obstacle(
                f"{at(HOTSPOT, row)} interface={name}",
                f"a hotspot answers the DNS questions of {who} itself: they never reach a node.",
                "Let DNS to the service address pass: /ip/hotspot/walled-garden/ip/add action=accept "
                f"dst-address={scene.site.service.address}; or take the hotspot off this interface.",
            )


def providers(scene: Scene) -> Iterator[Obstacle]:
    """Interfaces with a default route other than `wan_interface`: DNS from there is not refused by our guard."""
    wan = scene.site.router.wan_interface
    # Of the main table: those of others serve what a person sends there, such as a VPN.
    defaults = [row for row in scene.enabled(DEFAULT_ROUTES) if row.get("routing-table", "main") == "main"]
    found: dict[str, Actual] = {}
    for row in defaults:
        for gateway in (row.get("immediate-gw") or row.get("gateway", "")).split(","):
            if gateway and (interface := interface_of_gateway(scene, gateway)):
                found.setdefault(interface, row)
    # A second router beside the clients (a gateway with LTE, say) lets no strangers in by itself.
    inside = {name for _, name in scene.clients} | {scene.interface_of(node) for node in scene.site.nodes}
    for interface, row in found.items():
        if interface == wan or interface in inside:
            continue
        where = at(ROUTE, {k: v for k, v in row.items() if k in (".id", "dst-address", "comment")})
        where += f" gateway={row.get('immediate-gw') or row.get('gateway')}"
        more = "" if wan in found else f" wan_interface is {wan!r}, which carries no default route."
        guard = f"/ip/firewall/filter/add chain=input in-interface={interface} protocol=%s dst-port=53 action=drop"
        if open_to(scene, interface):
            yield Obstacle(
                where,
                f"the provider is (also) behind {interface}, and no rule keeps strangers there from the router's "
                f"resolver: it would answer the whole internet.{more}",
                f"Set wan_interface to {interface!r}"
                + (", or" if wan in found else ", if it is the only one; else")
                + f" drop DNS from there: {guard % 'udp'} and {guard % 'tcp'}",
                "exposes",
            )
        elif wan not in found:
            yield Obstacle(
                where,
                f"the provider is behind {interface}.{more} A rule of yours keeps strangers off the router's resolver.",
                f"Set wan_interface to {interface!r}.",
                "may",
            )
