"""Rows to the text of FRR's configuration. Pure; `daemons.py` applies it.

The text looks like FRR's own `show running-config` (no default values, its order of lines), so that frr-reload finds an
empty difference when nothing changed. What differs from FRR's habits is made to behave like the router: no policy
means accept, a filter chain ends with reject, paths of equal length share (when ECMP is on), the lowest router-id wins.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from anycastlab.virtual_router.dataplane import chains, filters, route_maps, static_routes, timing
from anycastlab.virtual_router.dataplane.api import Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.peers import BfdTimers, Bgp, Peer, understand
from anycastlab.virtual_router.dataplane.routing import Rendered
from anycastlab.virtual_router.dataplane.rows import singleton, truth
from anycastlab.virtual_router.dataplane.static_routes import DEFAULT_DISTANCE, StaticRoute
from anycastlab.virtual_router.version import Version

FRR_BFD_DEFAULTS = {"detect-multiplier": 3, "receive-interval": 300, "transmit-interval": 300}
_FAMILY = {4: "ipv4", 6: "ipv6"}


def safe_name(text: str) -> str:
    """A name FRR takes: no spaces or signs of its own syntax; changed names stay distinct by a checksum."""
    clean = re.sub(r"[^A-Za-z0-9_.-]", "_", text)
    return clean if clean == text and clean else f"{clean}-{zlib.crc32(text.encode()):08x}"


def render(snapshot: Snapshot, version: Version, interfaces: Interfaces, hostname: str) -> Rendered:
    """The whole configuration for one snapshot of rows."""
    bgp, notes = understand(snapshot, version, interfaces)
    rules, rule_notes = chains.understand(snapshot)
    routes, route_notes = static_routes.understand(snapshot, interfaces)
    notes |= rule_notes | route_notes
    lines = ["frr defaults traditional", f"hostname {hostname}"]
    if not truth(singleton(snapshot, "/ip/settings"), "ip-forward", default=True):
        lines.append("no ip forwarding")
    ipv6 = singleton(snapshot, "/ipv6/settings")
    if truth(ipv6, "disable-ipv6") or not truth(ipv6, "forward", default=True):
        lines.append("no ipv6 forwarding")
    # By default zebra waits 10 ms for more changes before it tells the kernel of one; nothing of RouterOS is in that.
    lines.append("zebra work-queue 0")
    if bgp:
        lines.append("bgp route-map delay-timer 1")
    lines += ["service integrated-vtysh-config", "!"]
    lines += _static_routes(routes)
    if bgp:
        for name, chain, family in sorted({use for peer in bgp.peers for use in _policies(peer)}):
            try:
                lines += route_maps.render(name, chain, rules, family)
            except filters.RuleError:  # chains that jump in a circle: nothing gets through
                lines += [f"route-map {name} deny 10", "exit", "!"]
        lines += _router(bgp)
        lines += _bfd({peer.bfd for peer in bgp.peers if peer.bfd})
    return Rendered("\n".join(lines) + "\n", bgp, notes)


def _policies(peer: Peer) -> list[tuple[str, str, int]]:
    """Route maps a peer needs: (name, chain, family)."""
    chains = {peer.input_chain, peer.output_chain} - {""}
    return [(_map_name(chain, family), chain, family) for chain in chains for family in peer.families]


def _map_name(chain: str, family: int) -> str:
    return f"{safe_name(chain)}-{_FAMILY[family]}"


def _static_routes(routes: Sequence[StaticRoute]) -> list[str]:
    lines = sorted({line for route in routes for line in _static_route(route)})
    return [*lines, *(["!"] if lines else [])]


def _static_route(route: StaticRoute) -> list[str]:
    start = f"{'ip' if route.family == 4 else 'ipv6'} route {route.target}"
    end = "" if route.distance == DEFAULT_DISTANCE else f" {route.distance}"
    if route.blackhole:
        return [f"{start} blackhole{end}"]
    hops = (" ".join(part for part in (hop.address, hop.device) if part) for hop in route.gateways)
    return [f"{start} {hop}{end}" for hop in hops]


def _router(bgp: Bgp) -> list[str]:
    lines = [
        f"router bgp {bgp.asn}",
        f" bgp router-id {bgp.router_id}",
        " no bgp ebgp-requires-policy",
        " no bgp default ipv4-unicast",
        " bgp graceful-restart-disable",
        " bgp bestpath as-path multipath-relax",
        " bgp bestpath compare-routerid",
    ]
    for peer in bgp.peers:
        lines += _neighbor(bgp, peer)
    lines.append(" !")
    for family in (4, 6):
        members = [peer for peer in bgp.peers if family in peer.families]
        if members:
            lines.append(f" address-family {_FAMILY[family]} unicast")
            for peer in members:
                lines += _activation(peer, family)
            lines += [f"  maximum-paths {bgp.paths}", f"  maximum-paths ibgp {bgp.paths}", " exit-address-family"]
    return [*lines, "exit", "!"]


def _target(peer: Peer) -> str:
    return safe_name(peer.name) if peer.is_range else peer.remote


def _neighbor(bgp: Bgp, peer: Peer) -> list[str]:
    who = f" neighbor {_target(peer)}"
    lines = [f"{who} peer-group"] if peer.is_range else []
    lines.append(f"{who} remote-as {peer.remote_as or ('internal' if peer.internal else 'external')}")
    if peer.local_as != bgp.asn:
        lines.append(f"{who} local-as {peer.local_as} no-prepend replace-as")
    lines.append(f"{who} description {safe_name(peer.name)}")
    if peer.bfd:
        # `bfd` alone as well: with only `bfd profile`, every reload drops the session for two seconds.
        lines += [f"{who} bfd", f"{who} bfd profile {peer.bfd.profile}"]
    if peer.password:
        lines.append(f"{who} password {peer.password}")
    if peer.passive:
        lines.append(f"{who} passive")
    if peer.multihop and not peer.internal:
        lines.append(f"{who} ebgp-multihop 255")
    if peer.local_address:
        lines.append(f"{who} update-source {peer.local_address}")
    lines += [f"{who} timers {peer.keepalive_s} {peer.hold_s}", f"{who} timers connect {timing.CONNECT_RETRY_S}"]
    if peer.is_range:
        lines.append(f" bgp listen range {peer.remote} peer-group {_target(peer)}")
    return lines


def _activation(peer: Peer, family: int) -> list[str]:
    who = f"  neighbor {_target(peer)}"
    lines = [f"{who} activate"]
    if peer.reflector_client:
        lines.append(f"{who} route-reflector-client")
    if peer.default_originate:
        lines.append(f"{who} default-originate")
    if peer.allow_as_in:
        lines.append(f"{who} allowas-in {peer.allow_as_in}")
    if peer.input_chain:
        lines.append(f"{who} route-map {_map_name(peer.input_chain, family)} in")
    if peer.output_chain:
        lines.append(f"{who} route-map {_map_name(peer.output_chain, family)} out")
    return lines


def _bfd(timers: set[BfdTimers]) -> list[str]:
    if not timers:
        return []
    lines = ["bfd"]
    for one in sorted(timers, key=lambda t: t.profile):
        values = {
            "detect-multiplier": one.multiplier,
            "transmit-interval": one.tx_ms,
            "receive-interval": one.rx_ms,
        }
        lines.append(f" profile {one.profile}")
        lines += [f"  {key} {value}" for key, value in values.items() if FRR_BFD_DEFAULTS[key] != value]
        lines += [" exit", " !"]
    return [*lines, "exit", "!"]
