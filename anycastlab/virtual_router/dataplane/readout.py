"""What FRR is doing, as the rows RouterOS shows. Pure: FRR's JSON in, rows out.

FRR's answers to several `show … json` in one vtysh call come one after the other without a mark, so each document is
told by its shape. A false flag is left out, as RouterOS leaves it out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from anycastlab.virtual_router.dataplane.api import Row
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.peers import Bgp, Peer
from anycastlab.virtual_router.dataplane.rows import duration

COMMANDS = (
    "show bgp neighbors json",
    "show bfd peers json",
    "show bfd peers counters json",
    "show bgp ipv4 unicast json",
    "show bgp ipv6 unicast json",
    "show ip route json",
    "show ipv6 route json",
)
_FLAG_BY_PROTOCOL = {"bgp": "bgp", "connected": "connect", "static": "static", "kernel": "dhcp"}
_EBGP_DISTANCE, _IBGP_DISTANCE = 20, 200


@dataclass(frozen=True)
class Look:
    """One look at FRR, sorted by kind. Empty where a daemon did not answer."""

    neighbors: dict[str, dict[str, Any]] = field(default_factory=dict)
    bfd: dict[str, dict[str, Any]] = field(default_factory=dict)
    paths: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    routes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def documents(text: str) -> Iterator[Any]:
    """All JSON documents in a text that may have other lines between them."""
    decoder = json.JSONDecoder()
    at = 0
    while True:
        starts = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        yield document


def look(text: str) -> Look:
    """From vtysh's output of `COMMANDS`."""
    found = Look()
    for document in documents(text):
        if isinstance(document, list):
            for peer in document:
                if isinstance(peer, dict) and "peer" in peer:
                    # Twice: the session's state, then its counters; both belong to one row.
                    found.bfd.setdefault(str(ip_address(peer["peer"])), {}).update(peer)
        elif isinstance(document, dict):
            if "routes" in document and "tableVersion" in document:
                found.paths.update(document["routes"])
                continue
            for key, value in document.items():
                if isinstance(value, dict) and "bgpState" in value:
                    found.neighbors[key] = value
                elif isinstance(value, list) and "/" in key:
                    found.routes.setdefault(key, []).extend(value)
    return found


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
    for address, state in seen.neighbors.items():
        peer = _peer_of(address, bgp) if bgp else None
        if peer is None or bgp is None:
            continue
        established = state.get("bgpState") == "Established"
        if not established and not state.get("connectionsEstablished"):
            continue
        count[peer.name] = count.get(peer.name, 0) + 1
        number = count[peer.name]
        row = {
            ".id": f"*{2800000 + _stable(peer.id, number):X}",
            "name": f"{peer.name}-{number}",
            "remote.address": address,
            "remote.as": str(state.get("remoteAs", peer.remote_as or 0)),
            "local.address": state.get("hostLocal", peer.local_address),
            "local.as": str(peer.local_as),
            "local.id": state.get("localRouterId", bgp.router_id),
            "local.role": "ibgp-rr" if peer.reflector_client else "ibgp" if peer.internal else "ebgp",
            "output.procid": "20",
            "input.procid": "20",
            "use-bfd": "true" if peer.use_bfd else "false",
            "hold-time": duration(state.get("bgpTimerHoldTimeMsecs", 1000 * peer.hold_s) / 1000),
            "keepalive-time": duration(state.get("bgpTimerKeepAliveIntervalMsecs", 1000 * peer.keepalive_s) / 1000),
            "multihop": "true" if peer.multihop else "false",
        }
        if peer.input_chain:
            row["input.filter"] = peer.input_chain
        if peer.output_chain:
            row["output.filter-chain"] = peer.output_chain
        families = state.get("addressFamilyInfo", {})
        if established:
            prefixes = sum(info.get("acceptedPrefixCounter", 0) for info in families.values())
            row |= {
                "remote.id": state.get("remoteRouterId", ""),
                "remote.afi": ",".join({"ipv4Unicast": "ip", "ipv6Unicast": "ipv6"}.get(f, f) for f in families),
                "remote.messages": str(state.get("messageStats", {}).get("totalRecv", 0)),
                "local.messages": str(state.get("messageStats", {}).get("totalSent", 0)),
                "uptime": duration(state.get("bgpTimerUpMsec", 0) // 1000),
                "prefix-count": str(prefixes),
                "established": "true",
            }
        elif reason := state.get("lastNotificationReason") or state.get("lastResetDueTo"):
            row[".about"] = str(reason)
        rows.append(row)
    return rows


def _stable(row_id: str, number: int) -> int:
    """A session's id follows its connection's, so it survives a look at FRR."""
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
        known = {a: s for a, s in seen.bfd.items() if ip_address(a) in ip_network(peer.remote)}
        if peer.bfd is None or not known:
            if not peer.is_range:
                rows.append(_bfd_down(peer))
            continue
        rows += [_bfd_row(peer, n, address, state) for n, (address, state) in enumerate(known.items())]
    return rows


def _bfd_down(peer: Peer) -> dict[str, str]:
    row = {
        ".id": f"*{_stable(peer.id, 255):X}",
        "multihop": "true" if peer.multihop else "false",
        "vrf": "main",
        "remote-address": peer.remote,
        "state": "down",
    }
    if peer.bfd is None:
        row[".about"] = "BFD is forbidden for this peer: /routing/bfd/configuration does not list it"
    return row


def _bfd_row(peer: Peer, number: int, address: str, state: dict[str, Any]) -> dict[str, str]:
    rx, tx = int(state.get("receive-interval", 0)), int(state.get("transmit-interval", 0))
    remote_rx, remote_tx = int(state.get("remote-receive-interval", 0)), int(state.get("remote-transmit-interval", 0))
    up = state.get("status") == "up"
    row = {
        ".id": f"*{_stable(peer.id, 128 + number % 100):X}",
        "multihop": "true" if state.get("multihop") else "false",
        "vrf": "main",
        "remote-address": address,
        "local-address": str(state.get("local", "")),
        "state": str(state.get("status", "down")),
        "desired-tx-interval": duration(tx / 1000),
        "required-min-rx": duration(rx / 1000),
        "multiplier": str(state.get("detect-multiplier", 0)),
        "packets-rx": str(state.get("control-packet-input", 0)),
        "packets-tx": str(state.get("control-packet-output", 0)),
        "state-changes": str(int(state.get("session-up", 0)) + int(state.get("session-down", 0))),
    }
    if up:
        # RFC 5880, 6.8.2 and 6.8.4: who sends faster is slowed to what the other can take.
        row |= {
            "up": "true",
            "uptime": duration(int(state.get("uptime", 0))),
            "actual-tx-interval": duration(max(tx, remote_rx) / 1000),
            "remote-min-rx": duration(remote_rx / 1000),
            "remote-min-tx": duration(remote_tx / 1000),
            "hold-time": duration(int(state.get("remote-detect-multiplier", 0)) * max(rx, remote_tx) / 1000),
        }
    return row


# --- routes ------------------------------------------------------------------------------------------------------


def routes(seen: Look, bgp: Bgp | None, interfaces: Interfaces) -> list[dict[str, str]]:
    """/routing/route: one row per next hop; standby BGP paths without `active`."""
    rows: list[dict[str, str]] = []
    for prefix, entries in seen.routes.items():
        for entry in entries:
            protocol = entry.get("protocol", "")
            if protocol not in _FLAG_BY_PROTOCOL:
                continue
            hops = [hop for hop in entry.get("nexthops", []) if not hop.get("duplicate")]
            live = [hop for hop in hops if hop.get("fib")] if entry.get("selected") else []
            for hop in hops:
                row = _route_row(prefix, entry, hop, interfaces)
                if protocol == "bgp" and hop.get("ip", "").startswith("fe80:"):
                    row["gateway"] = _global_next_hop(seen.paths.get(prefix, []), hop["ip"])
                if hop in live and entry.get("installed"):
                    row["active"] = "true"
                    if len(live) > 1:
                        row["ecmp"] = "true"
                if protocol == "bgp":
                    _add_bgp(row, prefix, row["gateway"], seen, bgp)
                rows.append(row)
    rows += _standby(seen, bgp, {(row["dst-address"], row.get("gateway", "")) for row in rows})
    for number, row in enumerate(rows, 1):
        row[".id"] = f"*8{number:07X}"
    return rows


def _global_next_hop(paths: list[dict[str, Any]], link_local: str) -> str:
    """What the neighbour announced, where the kernel was given the link-local address that came along."""
    for path in paths:
        hops = path.get("nexthops", [])
        if any(hop.get("ip") == link_local for hop in hops):
            return next((str(hop["ip"]) for hop in hops if hop.get("scope") == "global"), link_local)
    return link_local


def _family(prefix: str) -> str:
    return "ip6" if ":" in prefix else "ip4"


def _route_row(prefix: str, entry: dict[str, Any], hop: dict[str, Any], interfaces: Interfaces) -> dict[str, str]:
    name = interfaces.name(hop.get("interfaceName", ""))
    address = hop.get("ip", "")
    flag = _FLAG_BY_PROTOCOL[entry["protocol"]]
    row = {
        "afi": _family(prefix),
        "dst-address": prefix,
        "routing-table": "main",
        "gateway": address or name,
        "immediate-gw": f"{address}%{name}" if address else name,
        "distance": str(entry.get("distance", 0)),
        "scope": {"connect": "10", "bgp": "40"}.get(flag, "30"),
        "target-scope": "5" if flag == "connect" else "10",
        "belongs-to": {"connect": "connected", "bgp": "bgp", "static": "static"}.get(flag, "DHCP route"),
        flag: "true",
    }
    if entry.get("nexthops") and hop.get("blackhole"):
        row["blackhole"] = "true"
    return row


def _add_bgp(row: dict[str, str], prefix: str, gateway: str, seen: Look, bgp: Bgp | None) -> None:
    peer = _peer_of(gateway, bgp) if bgp and gateway else None
    row["belongs-to"] = f"bgp-IP{'6' if ':' in prefix else ''}-{gateway}"
    if peer:
        row["bgp.session"] = f"{peer.name}-1"
    for path in seen.paths.get(prefix, []):
        if any(hop.get("ip") == gateway for hop in path.get("nexthops", [])):
            row |= _path_properties(path)


def _path_properties(path: dict[str, Any]) -> dict[str, str]:
    found = {"bgp.as-path": str(path.get("path", "")), "bgp.origin": str(path.get("origin", "")).lower()}
    if "metric" in path:
        found["bgp.med"] = str(path["metric"])
    if "locPrf" in path:
        found["bgp.local-pref"] = str(path["locPrf"])
    return found


def _standby(seen: Look, bgp: Bgp | None, shown: set[tuple[str, str]]) -> list[dict[str, str]]:
    """BGP paths the kernel does not have: valid, but another one is better and ECMP is off."""
    rows = []
    for prefix, paths in seen.paths.items():
        for path in paths:
            gateway = next((hop.get("ip", "") for hop in path.get("nexthops", [])), "")
            if not path.get("valid") or not gateway or (prefix, gateway) in shown or gateway in ("0.0.0.0", "::"):
                continue
            external = path.get("pathFrom") == "external"
            row = {
                "afi": _family(prefix),
                "dst-address": prefix,
                "routing-table": "main",
                "gateway": gateway,
                "distance": str(_EBGP_DISTANCE if external else _IBGP_DISTANCE),
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
    default = "0.0.0.0/0"
    entries = seen.routes.get(row.get("dst-address") or default, [])
    return any(entry.get("protocol") == "static" and entry.get("installed") for entry in entries)
