"""A person's firewall, NAT, raw and mangle rules in the way of DNS, or of what keeps it alive. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from anycastlab.errors import AnycastlabError
from anycastlab.routeros.obstacles import Obstacle, Scene, at, connected, interface_towards
from anycastlab.routeros.packet import ANYWHERE, Hit, Packet, Protocol, walk
from anycastlab.routeros.reading import DEFAULT_ROUTES
from anycastlab.routeros.rows_fallback import NAT
from anycastlab.routeros.rows_firewall import BFD_PORT, BGP_PORT, INPUT
from anycastlab.routeros.values import is_true
from anycastlab.site import upstreams

FILTER: Final = INPUT
RAW: Final = "/ip/firewall/raw"
MANGLE: Final = "/ip/firewall/mangle"
DNS: Final = 53
PROTOCOLS: Final[tuple[Protocol, ...]] = ("udp", "tcp")
_DENIES: Final = frozenset({"drop", "reject", "tarpit"})
_TURNS: Final = frozenset({"dst-nat", "redirect", "netmap", "same"})


@dataclass(frozen=True)
class Flow:
    """Packets of one purpose, in words for the sentence: `questions of 10.1.1.0/24 to the service address`."""

    about: str
    packet: Packet
    cost: str
    """What it means when they do not get through."""

    @property
    def answers(self) -> Packet:
        """The way back."""
        sent = self.packet
        return replace(
            sent, source=sent.target, target=sent.source, source_port=sent.port, port=0, into=sent.out, out=sent.into,
            state="established", local=not sent.into,
        )  # fmt: skip


def firewall(scene: Scene) -> Iterator[Obstacle]:
    """One obstacle per rule: the worst it does, and of that the first."""
    worst: dict[tuple[str, str], Obstacle] = {}
    for menu, row_id, obstacle in _all(scene):
        known = worst.setdefault((menu, row_id), obstacle)
        if known.weight == "may" and obstacle.weight == "breaks":
            worst[menu, row_id] = obstacle
    yield from worst.values()


def _all(scene: Scene) -> Iterator[tuple[str, str, Obstacle]]:
    for flow in clients(scene):
        yield from _turned(scene, flow)
        yield from _through(scene, flow)
        yield from _marked(scene, flow)
    for flow in nodes(scene):
        yield from _turned(scene, flow)
        yield from _through(scene, flow)
    for flow in own(scene):
        yield from _own(scene, flow)


def clients(scene: Scene) -> Iterator[Flow]:
    """What the household asks."""
    out = scene.interface_of(scene.site.nodes[0])
    service = IPv4Network(scene.site.service.address)
    for network, interface in scene.clients:
        for protocol in PROTOCOLS:
            yield Flow(
                f"the questions of {network} to {service.network_address}",
                Packet(network, service, protocol, DNS, into=interface, out=out),
                "no node answers these clients",
            )


def nodes(scene: Scene) -> Iterator[Flow]:
    """What the nodes ask: their upstreams, and the router for local names."""
    site = scene.site
    for node in site.nodes:
        source, into = IPv4Network(node.address), scene.interface_of(node)
        router = IPv4Network(site.resolver.router_dns)
        about = f"what {node.name} asks the router"
        yield Flow(about, Packet(source, router, "udp", DNS, into=into, local=True), "local names fail there")
        for target, port in _upstreams(site.resolver.upstreams):
            protocol: Protocol = "udp" if port == DNS else "tcp"
            # A resolver in the LAN or behind a VPN, or the router itself, is not asked by way of the provider.
            local = any(interface.ip == target.network_address for interface, _ in connected(scene.reading))
            out = "" if local else interface_towards(target.network_address, scene.reading) or site.router.wan_interface
            packet = Packet(source, target, protocol, port, into=into, out=out, local=local)
            about = f"what {node.name} asks its upstream {target.network_address}"
            yield Flow(about, packet, "internet names fail there")


def own(scene: Scene) -> Iterator[Flow]:
    """Between the router and the nodes: sessions, and netwatch's question."""
    site = scene.site
    for node in site.nodes:
        here, there, name = IPv4Network(node.gateway), IPv4Network(node.address), scene.interface_of(node)
        sessions: tuple[tuple[Protocol, int, str], ...] = (
            ("tcp", int(BGP_PORT), "BGP"),
            ("udp", int(BFD_PORT), "BFD"),
        )
        for protocol, port, what in sessions:
            cost = f"{node.name} is not used, or not watched"
            yield Flow(f"{what} with {node.name}", Packet(there, here, protocol, port, into=name, local=True), cost)
            yield Flow(f"{what} with {node.name}", Packet(here, there, protocol, port, out=name), cost)
    node = site.nodes[0]
    packet = Packet(
        IPv4Network(node.gateway), IPv4Network(site.service.address), "udp", DNS, out=scene.interface_of(node)
    )
    yield Flow("netwatch's question to the service address", packet, "the last resort is on all the time")


def _upstreams(written: tuple[str, ...]) -> Iterator[tuple[IPv4Network, int]]:
    for text in written:
        try:
            server = upstreams.parse(text)
        except AnycastlabError:
            continue
        if isinstance(server.address, IPv4Address):
            yield IPv4Network(server.address), server.port


def _hits(scene: Scene, menu: str, chain: str, packet: Packet) -> Iterator[Hit]:
    """As `walk`; behind a rule that may accept the packet (an address list decides, say) nothing is sure any more."""
    spared = False
    for hit in walk(scene.rows(menu), chain, packet, scene.lists):
        yield replace(hit, sure=hit.sure and not spared)
        spared |= hit.action == "accept" and not hit.sure


def _turned(scene: Scene, flow: Flow) -> Iterator[tuple[str, str, Obstacle]]:
    """dst-nat and redirect rules, such as those that force all DNS to one resolver."""
    target = str(flow.packet.target.network_address)
    for hit in _hits(scene, NAT, "dstnat", flow.packet):
        to = hit.row.get("to-addresses", "") if hit.action != "redirect" else "the router itself"
        if hit.action not in _TURNS or to == target or (hit.action == "redirect" and flow.packet.local):
            continue
        whose = scene.who(to)
        to = f"{whose} ({to})" if whose else to or "elsewhere"
        # A node's upstream may be replaced by any resolver that is not fed by the nodes themselves.
        replaced = not whose and not flow.packet.local and scene.who(target) == ""
        menu, row_id, obstacle = _found(
            NAT,
            hit,
            f"sends {flow.about} to {to}: {'that one answers it instead' if replaced else flow.cost}.",
            f"Put a rule before it: {NAT}/add chain=dstnat action=accept dst-address={target} "
            f'place-before={hit.row.get(".id", "")} comment="DNS for nodes", or write dst-address=!{target} into it.',
        )
        yield menu, row_id, replace(obstacle, weight="may") if replaced else obstacle


def _through(scene: Scene, flow: Flow) -> Iterator[tuple[str, str, Obstacle]]:
    """Rules of raw and forward that packets meet there and back."""
    sent, back = flow.packet, flow.answers
    for packet, way in ((sent, ""), (back, "the answers to ")):
        if not packet.into:  # the router's own: they meet the chain output
            yield from _denied(scene, RAW, "output", packet, f"{way}{flow.about}", flow.cost)
            continue
        yield from _denied(scene, RAW, "prerouting", packet, f"{way}{flow.about}", flow.cost)
        if not sent.local:
            yield from _denied(scene, FILTER, "forward", packet, f"{way}{flow.about}", flow.cost)


def _own(scene: Scene, flow: Flow) -> Iterator[tuple[str, str, Obstacle]]:
    for packet in (flow.packet, flow.answers):
        if packet.into:
            yield from _denied(scene, RAW, "prerouting", packet, flow.about, flow.cost)
        else:
            yield from _denied(scene, RAW, "output", packet, flow.about, flow.cost)
            yield from _denied(scene, FILTER, "output", packet, flow.about, flow.cost)


def _denied(
    scene: Scene, menu: str, chain: str, packet: Packet, about: str, cost: str
) -> Iterator[tuple[str, str, Obstacle]]:
    for hit in _hits(scene, menu, chain, packet):
        if hit.action in _DENIES:
            yield _found(
                menu,
                hit,
                f"{hit.action}s {about}: {cost}." if hit.action != "tarpit" else f"holds {about}: {cost}.",
                f"Accept before it what goes to and from the nodes: {menu}/add chain={chain} action=accept "
                f"{_from_to(packet)} place-before={hit.row.get('.id', '')}.",
            )
        elif hit.action == "notrack" and DNS in (packet.port, packet.source_port):
            yield _found(
                menu,
                hit,
                f"keeps {about} out of connection tracking: NAT never sees them, so the last resort cannot answer.",
                "Except the service address from it.",
            )


def _from_to(packet: Packet) -> str:
    ends = ((name, net) for name, net in (("src-address", packet.source), ("dst-address", packet.target)))
    return " ".join(f"{name}={net.network_address if net.prefixlen == 32 else net}" for name, net in ends)


def _marked(scene: Scene, flow: Flow) -> Iterator[tuple[str, str, Obstacle]]:
    """Routing marks: the marked packet takes another table, where the nodes' route is not."""
    for packet, about in ((flow.packet, flow.about), (flow.answers, f"the answers to {flow.about}")):
        for hit in _hits(scene, MANGLE, "prerouting", packet):
            if hit.action not in ("mark-routing", "route"):
                continue
            table = hit.row.get("new-routing-mark", "")
            if table == "main":
                continue
            leads = hit.action == "route" or leads_away(scene, table)
            yield _found(
                MANGLE,
                Hit(hit.row, hit.action, hit.sure and leads),
                f"sends {about} by the routing table {table}, where the nodes' route is not"
                f"{': ' + flow.cost if leads else ', though it has no default route now'}.",
                f"Put a rule before it: {MANGLE}/add chain=prerouting action=accept {_from_to(packet)} "
                f"place-before={hit.row.get('.id', '')}.",
            )


def leads_away(scene: Scene, table: str) -> bool:
    """Whether a table has a default route: a packet that it does not know goes on to the main table otherwise."""
    return any(row.get("routing-table", "main") == table for row in scene.enabled(DEFAULT_ROUTES))


def _found(menu: str, hit: Hit, does: str, hint: str) -> tuple[str, str, Obstacle]:
    if hit.sure:
        obstacle = Obstacle(at(menu, hit.row), does, hint, "breaks")
    else:
        means = f"depending on its other matchers and the rules before it, {does}"
        obstacle = Obstacle(at(menu, hit.row), means, hint, "may", judged=False)
    return menu, hit.row.get(".id", ""), obstacle


def tracking(scene: Scene) -> Iterator[Obstacle]:
    for row in scene.rows("/ip/firewall/connection/tracking"):
        if row.get("enabled") in ("no", "false"):
            yield Obstacle(
                "/ip/firewall/connection/tracking enabled=no",
                "without connection tracking there is no NAT, so the last resort cannot answer.",
                "/ip/firewall/connection/tracking/set enabled=auto",
            )


def open_to(scene: Scene, interface: str) -> bool:
    """Whether a stranger behind `interface` would reach the router's resolver; our guard on `wan_interface` apart."""
    router = IPv4Network(scene.site.router.router_id)
    for protocol in PROTOCOLS:
        packet = Packet(ANYWHERE, router, protocol, DNS, into=interface, local=True)
        ends = [hit for hit in walk(scene.rows(FILTER), "input", packet, scene.lists) if hit.sure]
        raw = [hit for hit in walk(scene.rows(RAW), "prerouting", packet, scene.lists) if hit.sure]
        if not any(hit.action in _DENIES for hit in (*ends[-1:], *raw[-1:])):
            return True
    return False


def hardware(scene: Scene) -> Iterator[Obstacle]:
    """What lets packets pass by the firewall, or sends bridged ones through it."""
    ports = list(scene.rows("/interface/ethernet/switch/port"))
    for row in scene.rows("/interface/ethernet/switch"):
        if not is_true(row.get("l3-hw-offloading")):
            continue
        only_fasttrack = bool(ports) and not any(is_true(port.get("l3-hw-offloading")) for port in ports)
        if not only_fasttrack:
            yield Obstacle(
                f"{at('/interface/ethernet/switch', row)} l3-hw-offloading=yes",
                "packets that the switch routes meet neither NAT nor connection tracking: with no node left, questions "
                "for the service address may leave by the default route instead of reaching the last resort.",
                "Off on the clients' ports: /interface/ethernet/switch/port/set <port> l3-hw-offloading=no",
                "may",
            )
        for fast in scene.enabled(FILTER):
            if fast.get("action") == "fasttrack-connection":
                yield Obstacle(
                    at(FILTER, fast),
                    "FastTrack hands connections to the switch: DNS over TCP or TLS keeps its node until it ends.",
                    f"Put a rule before it: {FILTER}/add chain=forward action=accept "
                    f"dst-address={scene.site.service.address} place-before={fast.get('.id', '')}.",
                    "may",
                )
    for row in scene.rows("/interface/bridge/settings"):
        shared = {name for _, name in scene.clients} & {scene.interface_of(node) for node in scene.site.nodes} - {""}
        if shared and is_true(row.get("use-ip-firewall")):
            yield Obstacle(
                "/interface/bridge/settings use-ip-firewall=yes",
                f"clients and nodes share {', '.join(sorted(shared))}: what they say to each other meets the firewall, "
                "too, and half a connection is dropped as invalid.",
                "/interface/bridge/settings/set use-ip-firewall=no",
                "may",
            )


def interface_of_gateway(scene: Scene, gateway: str) -> str:
    """`192.0.2.1%ether1`, `pppoe-out1` or an address: the interface a route leaves by."""
    address, _, interface = gateway.partition("%")
    if interface:
        return interface
    try:
        return interface_towards(IPv4Address(address), scene.reading)
    except ValueError:
        return address
