"""Rows to the text of BIRD's configuration (BIRD 2.0.12 and later). Pure.

What differs from BIRD's habits is made to behave like the router: no policy means accept, a filter chain ends with
reject, only BGP routes (and a default route that is asked for) are announced, paths of equal length share when ECMP is
on, the lowest router-id wins otherwise, no graceful restart, a second between attempts.

For whoever reads the running daemon:

- A connection is the protocol `protocol_name(peer)`, `bgp_10_1_2_11`; a range is `listen_10_1_3_0_24`, and its sessions
  are `range_10_1_3_0_24_` and a number. Names follow the address, which no two connections share: another name or
  comment resets nothing.
- Preference is 255 - distance: connected 255, static 254 for distance 1, eBGP 235, iBGP 55 (above 235 it stands for a
  weight, see `bird_filters`). A protocol has one preference, so each distance of static routes is a protocol,
  `static4_1`, `static6_200`.
- Routes of others in the kernel are only learned (`kernel4`, `kernel6`, preference 10) and never touched. All of ours
  have protocol `bird` and the metric 32 there, which keeps them apart from others' routes to the same prefix and lets
  the kernel replace one by the next in one step; with a metric for each protocol a change would leave the old route
  behind. So BGP and static routes are told apart in BIRD (`show route`), and `show route export kernel4` has the next
  hops of an ECMP route together.
- `originate4`, `originate6` hold the default route for `output.default-originate=always`; it never gets to the kernel.
- Times are like `2026-11-30 04:00:53.379`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router.dataplane import bird_filters, chains, static_routes, timing
from anycastlab.virtual_router.dataplane.api import Snapshot
from anycastlab.virtual_router.dataplane.bird_filters import EBGP_PREFERENCE
from anycastlab.virtual_router.dataplane.chains import Chains
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.peers import CONNECTION, Bgp, Notes, Peer, understand
from anycastlab.virtual_router.dataplane.routing import IBGP_DISTANCE, TOP_DISTANCE, Rendered
from anycastlab.virtual_router.dataplane.rows import network
from anycastlab.virtual_router.dataplane.static_routes import DEFAULT, Gateway, StaticRoute

FAMILIES = (4, 6)
TOP_PREFERENCE = TOP_DISTANCE
"""Preference of distance 0."""
IBGP_PREFERENCE = TOP_PREFERENCE - IBGP_DISTANCE
_NO_ROUTER_ID = "0.0.0.1"
"""BIRD wants one even without an IPv4 address and without BGP."""
_NAME_LENGTH = 32
"""Longest address in a name; BIRD wants room for the numbers it adds (48 characters in all)."""
_MIN_HOLD_S = 3
"""RFC 4271, 4.2: a hold time is 0 or at least 3 s; BIRD refuses the whole file for less."""
_MAX_TTL = 255


def render(snapshot: Snapshot, version: Version, interfaces: Interfaces, hostname: str) -> Rendered:
    """The whole configuration for one snapshot of rows."""
    bgp, notes = understand(snapshot, version, interfaces)
    rules, rule_notes = chains.understand(snapshot)
    routes, route_notes = static_routes.understand(snapshot, interfaces)
    notes |= rule_notes | route_notes
    bgp = _usable(bgp, interfaces, notes)
    lines = [
        f"hostname {_quoted(hostname)};",
        f"router id {bgp.router_id if bgp else interfaces.lowest_ipv4() or _NO_ROUTER_ID};",
        "log syslog all;",
        *(f"timeformat {what} iso long ms;" for what in ("base", "protocol", "route")),
        "",
    ]
    if bgp:
        lines += _filters(bgp, rules)
    lines += _kernel(bgp.paths if bgp else 1)
    lines += _static_routes(routes)
    if bgp:
        lines += _originated(bgp)
        lines += _protocol("bfd bfd1", []) if any(peer.bfd for peer in bgp.peers) else []
        lines += _block("template bgp speaker", _speaker())
        for peer in bgp.peers:
            lines += _peer(peer, interfaces)
    return Rendered("\n".join(lines).rstrip() + "\n", bgp, notes)


def protocol_name(peer: Peer) -> str:
    """BIRD's name of the connection's protocol; of a range, what the names of its sessions have before their number."""
    return f"range_{_address_name(peer.remote)}_" if peer.is_range else f"bgp_{_address_name(peer.remote)}"


def _address_name(text: str) -> str:
    name = re.sub(r"\W", "_", text)
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 9]}_{zlib.crc32(text.encode()):08x}"


def _quoted(text: str) -> str:
    """A string for people; BIRD knows no escapes."""
    return '"' + re.sub(r'["\n\r]', "_", text) + '"'


def _block(head: str, lines: Iterable[str]) -> list[str]:
    return [f"{head} {{", *(f"  {line}" for line in lines), "}", ""]


def _protocol(head: str, lines: Iterable[str]) -> list[str]:
    return _block(f"protocol {head}", lines)


def _channel(family: int, *items: str) -> str:
    return f"ipv{family} {{ {' '.join(f'{item};' for item in items)} }};"


# --- kernel and static routes ------------------------------------------------------------------------------------


def _kernel(paths: int) -> list[str]:
    lines = _block(
        "filter to_kernel",
        [
            # Without a usable next hop a BGP route is `unreachable` to BIRD; the router then has no route at all.
            "if source = RTS_BGP && dest = RTD_UNICAST then accept;",
            'if source = RTS_STATIC && proto !~ "originate*" then accept;',
            "reject;",
        ],
    )
    lines += _protocol("device device1", [f"scan time {timing.BIRD_SCAN_S};"])
    lines += _protocol("direct direct1", [_channel(family, f"preference {TOP_PREFERENCE}") for family in FAMILIES])
    for family in FAMILIES:
        lines += _protocol(
            f"kernel kernel{family}",
            [
                f"scan time {timing.BIRD_SCAN_S};",
                "learn;",
                *([f"merge paths on limit {paths};"] if paths > 1 else []),
                _channel(family, "import all", "export filter to_kernel"),
            ],
        )
    return lines


def _static_routes(routes: Sequence[StaticRoute]) -> list[str]:
    """Rows with the same target and distance share one route, as they do on the router."""
    groups: dict[tuple[int, int], dict[str, set[str]]] = {}
    for route in routes:
        hops = {hop for one in route.gateways if (hop := _via(one, route.family))}
        usable = route.target.version == route.family and 0 <= route.distance < TOP_DISTANCE
        if usable and (hops or route.blackhole):
            groups.setdefault((route.family, route.distance), {}).setdefault(str(route.target), set()).update(hops)
    lines = []
    for (family, distance), targets in sorted(groups.items()):
        lines += _protocol(
            f"static static{family}_{distance}",
            [
                _channel(family, f"preference {TOP_PREFERENCE - distance}", "import all"),
                *(
                    f"route {target} {' '.join(sorted(hops)) or 'blackhole'};"
                    for target, hops in sorted(targets.items())
                ),
            ],
        )
    return lines


def _via(gateway: Gateway, family: int) -> str | None:
    """None for what would make BIRD refuse the whole file; the row then has no route."""
    if not gateway.address:
        return f'via "{gateway.device}"'
    address = _address(gateway.address)
    if address is None or address.version != family or (address.is_link_local and not gateway.device):
        return None
    return f"via {address}%'{gateway.device}'" if gateway.device else f"via {address}"


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


# --- BGP ---------------------------------------------------------------------------------------------------------


def _usable(bgp: Bgp | None, interfaces: Interfaces, notes: Notes) -> Bgp | None:
    """Without the connections for which BIRD would refuse the whole file; they get a note."""
    found = []
    for peer in bgp.peers if bgp else ():
        try:
            _endpoint(peer, interfaces)
            if set(peer.password) & set('"\n\r'):
                raise ValueError("a quotation mark in tcp-md5-key is not emulated")
        except ValueError as reason:
            notes[CONNECTION, peer.id] = {"inactive": "true", ".why": str(reason)}
        else:
            found.append(peer)
    return replace(bgp, peers=tuple(found)) if bgp and found else None


def _filters(bgp: Bgp, rules: Chains) -> list[str]:
    inputs = {(family, peer.input_chain) for peer in bgp.peers for family in peer.families if peer.input_chain}
    outputs = {(family, peer.output_chain, peer.default_originate) for peer in bgp.peers for family in peer.families}
    lines = bird_filters.functions(inputs | {(family, chain) for family, chain, _ in outputs if chain}, rules)
    for family, chain in sorted(inputs):
        lines += _block(f"filter {_input_filter(family, chain)}", bird_filters.body((family, chain), rules))
    for family, chain, default in sorted(outputs):
        lines += _block(
            f"filter {_output_filter(family, chain, default)}",
            [
                *([f"if net = {DEFAULT[family]} then accept;"] if default else []),
                "if source != RTS_BGP || dest != RTD_UNICAST then reject;",
                *(bird_filters.body((family, chain), rules) if chain else ["accept;"]),
            ],
        )
    return lines


def _input_filter(family: int, chain: str) -> str:
    return bird_filters.symbol(f"in{family}_", chain)


def _output_filter(family: int, chain: str, default: bool) -> str:
    word = f"default{family}" if default else f"out{family}"
    return bird_filters.symbol(f"{word}_", chain) if chain else word


def _originated(bgp: Bgp) -> list[str]:
    """A default route that is always there, and worse than any other."""
    lines = []
    for family in FAMILIES:
        if any(peer.default_originate and family in peer.families for peer in bgp.peers):
            lines += _protocol(
                f"static originate{family}",
                [_channel(family, "preference 0", "import all"), f"route {DEFAULT[family]} blackhole;"],
            )
    return lines


def _speaker() -> list[str]:
    retry = timing.CONNECT_RETRY_S
    return [
        f"connect delay time {retry};",
        f"connect retry time {retry};",
        f"error wait time {retry}, {retry};",
        "graceful restart off;",
        "long lived graceful restart off;",
    ]


def _internal(peer: Peer) -> bool:
    return peer.remote_as == peer.local_as if peer.remote_as else peer.internal


def _peer(peer: Peer, interfaces: Interfaces) -> list[str]:
    internal = _internal(peer)
    remote_as = f"as {peer.remote_as}" if peer.remote_as else "internal" if internal else "external"
    lines = [
        f"description {_quoted(peer.name)};",
        f"local as {peer.local_as};",
        f"neighbor {'range ' if peer.is_range else ''}{peer.remote} {remote_as};",
        *_endpoint(peer, interfaces),
    ]
    if peer.is_range:
        lines.append(f"dynamic name {_quoted(protocol_name(peer))};")
    elif peer.passive:
        lines.append("passive;")
    if peer.password:
        lines.append(f'password "{peer.password}";')
    lines.append(f"hold time {max(peer.hold_s, _MIN_HOLD_S) if peer.hold_s else 0};")
    if peer.keepalive_s:
        lines.append(f"keepalive time {peer.keepalive_s};")
    if peer.bfd:
        timers = f"min tx interval {peer.bfd.tx_ms} ms; min rx interval {peer.bfd.rx_ms} ms;"
        lines.append(f"bfd {{ {timers} multiplier {peer.bfd.multiplier}; }};")
    else:
        lines.append("bfd off;")
    if peer.reflector_client and internal:
        lines.append("rr client;")
    if peer.allow_as_in:
        lines.append(f"allow local as {peer.allow_as_in};")
    for family in peer.families:
        lines.append(
            _channel(
                family,
                f"preference {IBGP_PREFERENCE if internal else EBGP_PREFERENCE}",
                # A route of the own AS keeps the next hop of its first speaker, who need not be a neighbour.
                *(["gateway recursive"] if internal else []),
                f"import filter {_input_filter(family, peer.input_chain)}" if peer.input_chain else "import all",
                f"export filter {_output_filter(family, peer.output_chain, peer.default_originate)}",
            )
        )
    name = f"listen_{_address_name(peer.remote)}" if peer.is_range else protocol_name(peer)
    return _protocol(f"bgp {name} from speaker", lines)


def _endpoint(peer: Peer, interfaces: Interfaces) -> list[str]:
    """How near the peer is and where we speak from. Raises ValueError for what BIRD would refuse.

    BIRD takes any peer of the own AS for a distant one, and BFD would speak another protocol to it (RFC 5883) than to a
    neighbour; the router looks at where it is.
    """
    first = network(peer.remote).network_address
    near = not peer.multihop and (not _internal(peer) or interfaces.towards(str(first)) is not None)
    lines = ["direct;" if near else f"multihop {_MAX_TTL};"]
    device = next((one for one in interfaces.all if one.device == peer.local_address), None)
    if device is None and peer.local_address:
        source = _address(peer.local_address)
        if source is None:
            raise ValueError(f"no interface {peer.local_address}")
    else:
        own = [one for one in device.addresses if one.version == first.version] if device else []
        own.sort(key=lambda one: first not in one.network)
        source = own[0].ip if own else None
    if source is not None and source.version != first.version:
        raise ValueError(f"local.address {source} is of another family than the peer")
    if first.is_link_local:
        if device is None or not near:
            raise ValueError("a link-local peer needs an interface as local.address")
        lines.append(f'interface "{device.device}";')
    elif source is not None:
        lines.append(f"source address {source};")
    return lines
