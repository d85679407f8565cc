"""What the routing daemon is doing, as the rows RouterOS shows. Pure.

A false flag is left out, as RouterOS leaves it out; so is what the daemon does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from anycastlab.virtual_router.dataplane.api import Row
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.peers import Bgp, Peer
from anycastlab.virtual_router.dataplane.routing import (
    EBGP_DISTANCE,
    IBGP_DISTANCE,
    BfdPeer,
    BgpPath,
    Hop,
    Look,
    Neighbor,
    Route,
)
from anycastlab.virtual_router.dataplane.rows import duration
from anycastlab.virtual_router.dataplane.static_routes import DEFAULT

_FLAG_BY_PROTOCOL = {"bgp": "bgp", "connected": "connect", "static": "static", "kernel": "dhcp"}
_AFI = {4: "ip", 6: "ipv6"}


# --- BGP sessions ------------------------------------------------------------------------------------------------


def _peer_of(address: str, bgp: Bgp) -> Peer | None:
    wanted = ip_address(address)
    for peer in bgp.peers:
        net = ip_network(peer.remote)
        if wanted in net:
            return peer
    return None


def bgp_sessions(seen: Look, bgp: Bgp | None) -> list[dict[str, str]]:
    """/routing/bgp/session. A session that never was established has no row."""
    rows: list[dict[str, str]] = []
    count: dict[str, int] = {}
    for neighbor in seen.neighbors:
        peer = _peer_of(neighbor.address, bgp) if bgp else None
        if peer is None or bgp is None or not neighbor.was_established:
            continue
        count[peer.name] = count.get(peer.name, 0) + 1
        rows.append(_session_row(neighbor, peer, bgp, count[peer.name]))
    return rows


def _session_row(neighbor: Neighbor, peer: Peer, bgp: Bgp, number: int) -> dict[str, str]:
    hold_s = peer.hold_s if neighbor.hold_s is None else neighbor.hold_s
    keepalive_s = peer.keepalive_s if neighbor.keepalive_s is None else neighbor.keepalive_s
    row = {
        ".id": f"*{2800000 + _stable(peer.id, number):X}",
        "name": f"{peer.name}-{number}",
        "remote.address": neighbor.address,
        "remote.as": str(neighbor.remote_as or peer.remote_as or 0),
        "local.address": neighbor.local_address or peer.local_address,
        "local.as": str(peer.local_as),
        "local.id": neighbor.local_id or bgp.router_id,
        "local.role": "ibgp-rr" if peer.reflector_client else "ibgp" if peer.internal else "ebgp",
        "output.procid": "20",
        "input.procid": "20",
        "use-bfd": "true" if peer.use_bfd else "false",
        "hold-time": duration(hold_s),
        "keepalive-time": duration(keepalive_s),
        "multihop": "true" if peer.multihop else "false",
    }
    if peer.input_chain:
        row["input.filter"] = peer.input_chain
    if peer.output_chain:
        row["output.filter-chain"] = peer.output_chain
    if neighbor.established:
        row |= {
            "remote.id": neighbor.remote_id,
            "remote.afi": ",".join(_AFI[family] for family in neighbor.families),
            "uptime": duration(neighbor.uptime_s),
            "prefix-count": str(neighbor.prefixes),
            "established": "true",
        }
        row |= _counted({"remote.messages": neighbor.messages_received, "local.messages": neighbor.messages_sent})
    elif neighbor.last_error:
        row[".about"] = neighbor.last_error
    return row


def _counted(counters: dict[str, int | None]) -> dict[str, str]:
    return {name: str(value) for name, value in counters.items() if value is not None}


def _stable(row_id: str, number: int) -> int:
    """A session's id follows its connection's, so it survives a new look at BIRD."""
    try:
        return int(row_id.lstrip("*"), 16) * 256 + number
    except ValueError:
        return number


# --- BFD sessions ------------------------------------------------------------------------------------------------


def bfd_sessions(seen: Look, bgp: Bgp | None) -> list[dict[str, str]]:
    """/routing/bfd/session. A peer that wants BFD but is forbidden to have it is shown as down."""
    rows = []
    for peer in bgp.peers if bgp else ():
        if not peer.use_bfd:
            continue
        known = [each for each in seen.bfd if ip_address(each.address) in ip_network(peer.remote)]
        if peer.bfd is None or not known:
            if not peer.is_range:
                rows.append(_bfd_down(peer))
            continue
        rows += [_bfd_row(peer, number, session) for number, session in enumerate(known)]
    return rows


def _bfd_down(peer: Peer) -> dict[str, str]:
    row = {
        ".id": f"*{_stable(peer.id, 255):X}",
        "multihop": "true" if peer.multihop else "false",
        "vrf": "main",
        "remote-address": peer.remote,
    }
    if peer.bfd is None:
        return row | {"multiplier": "0", ".about": "BFD forbidden for destination address"}
    return row | {"state": "down", "actual-tx-interval": "1s"}


def _bfd_row(peer: Peer, number: int, session: BfdPeer) -> dict[str, str]:
    row = {
        ".id": f"*{_stable(peer.id, 128 + number % 100):X}",
        "multihop": "true" if session.multihop else "false",
        "vrf": "main",
        "remote-address": session.address,
        "local-address": session.local_address,
        "state": session.state,
        "desired-tx-interval": duration(session.tx_ms / 1000),
        "required-min-rx": duration(session.rx_ms / 1000),
        "multiplier": str(session.multiplier),
        **_counted(
            {
                "packets-rx": session.packets_received,
                "packets-tx": session.packets_sent,
                "state-changes": session.changes,
            }
        ),
    }
    if session.state == "up":
        # RFC 5880, 6.8.2 and 6.8.4: who sends faster is slowed to what the other can take.
        hold_ms = session.remote_multiplier * max(session.rx_ms, session.remote_tx_ms)
        row |= {
            "up": "true",
            "uptime": duration(session.uptime_s),
            "actual-tx-interval": duration(max(session.tx_ms, session.remote_rx_ms) / 1000),
            "remote-min-rx": duration(session.remote_rx_ms / 1000),
            "remote-min-tx": duration(session.remote_tx_ms / 1000),
            "hold-time": duration(hold_ms / 1000),
        }
    else:
        row["actual-tx-interval"] = "1s"  # RFC 5880, 6.8.3: no faster while the session is not up
    return row


# --- routes ------------------------------------------------------------------------------------------------------


def routes(seen: Look, bgp: Bgp | None, interfaces: Interfaces) -> list[dict[str, str]]:
    """/routing/route: one row per next hop; standby BGP paths without `active`."""
    rows: list[dict[str, str]] = []
    for prefix, found in seen.routes.items():
        for route in found:
            live = [hop for hop in route.hops if hop.live]
            for hop in route.hops:
                row = _route_row(prefix, route, hop, interfaces)
                if route.protocol == "bgp" and hop.address.startswith("fe80:"):
                    row["gateway"] = _announced_next_hop(seen.paths.get(prefix, ()), hop.address)
                if hop.live and route.active:
                    row["active"] = "true"
                    if len(live) > 1:
                        row["ecmp"] = "true"
                if route.protocol == "bgp":
                    _add_bgp(row, prefix, row["gateway"], seen, bgp)
                rows.append(row)
    rows += _standby(seen, bgp, {(row["dst-address"], row.get("gateway", "")) for row in rows})
    for number, row in enumerate(rows, 1):
        row[".id"] = f"*8{number:07X}"
    return rows


def _announced_next_hop(paths: Sequence[BgpPath], link_local: str) -> str:
    """What the neighbour announced, where the kernel was given the link-local address that came along."""
    return next((path.next_hops[0] for path in paths if link_local in path.next_hops), link_local)


def _family(prefix: str) -> str:
    return "ip6" if ":" in prefix else "ip4"


def _route_row(prefix: str, route: Route, hop: Hop, interfaces: Interfaces) -> dict[str, str]:
    name = interfaces.name(hop.device)
    flag = _FLAG_BY_PROTOCOL[route.protocol]
    row = {
        "afi": _family(prefix),
        "dst-address": prefix,
        "routing-table": "main",
        "gateway": hop.address or name,
        "immediate-gw": f"{hop.address}%{name}" if hop.address else name,
        "distance": str(route.distance),
        "scope": {"connect": "10", "bgp": "40"}.get(flag, "30"),
        "target-scope": "5" if flag == "connect" else "10",
        "belongs-to": {"connect": "connected", "bgp": "bgp", "static": "static"}.get(flag, "DHCP route"),
        flag: "true",
    }
    if hop.blackhole:
        row["blackhole"] = "true"
    return row


def _add_bgp(row: dict[str, str], prefix: str, gateway: str, seen: Look, bgp: Bgp | None) -> None:
    peer = _peer_of(gateway, bgp) if bgp and gateway else None
    row["belongs-to"] = f"bgp-IP{'6' if ':' in prefix else ''}-{gateway}"
    if peer:
        row["bgp.session"] = f"{peer.name}-1"
    for path in seen.paths.get(prefix, ()):
        if gateway in path.next_hops:
            row |= _path_properties(path)


def _path_properties(path: BgpPath) -> dict[str, str]:
    numbers = {"bgp.med": path.med, "bgp.local-pref": path.local_pref}
    return {"bgp.as-path": path.as_path, "bgp.origin": path.origin, **_counted(numbers)}


def _standby(seen: Look, bgp: Bgp | None, shown: set[tuple[str, str]]) -> list[dict[str, str]]:
    """BGP paths the kernel does not have: valid, but another one is better and ECMP is off."""
    rows = []
    for prefix, paths in seen.paths.items():
        for path in paths:
            gateway = next(iter(path.next_hops), "")
            if not path.valid or not gateway or (prefix, gateway) in shown or gateway in ("0.0.0.0", "::"):
                continue
            row = {
                "afi": _family(prefix),
                "dst-address": prefix,
                "routing-table": "main",
                "gateway": gateway,
                "distance": str(EBGP_DISTANCE if path.external else IBGP_DISTANCE),
                "scope": "40",
                "target-scope": "10",
                "bgp": "true",
            }
            _add_bgp(row, prefix, gateway, seen, bgp)
            rows.append(row)
    return rows


def ip_routes(all_routes: list[dict[str, str]], family: str = "ip4") -> list[dict[str, str]]:
    """The runtime rows of /ip/route: what no configured row stands for."""
    return [
        {
            **{key: value for key, value in row.items() if key != "afi" and not key.startswith("bgp.")},
            "dynamic": "true",
        }
        for row in all_routes
        if row["afi"] == family and "static" not in row
    ]


def static_route_is_active(row: Row, seen: Look) -> bool:
    """Whether a configured static route is in the kernel."""
    found = seen.routes.get(row.get("dst-address") or DEFAULT[4], ())
    return any(route.protocol == "static" and route.active for route in found)
