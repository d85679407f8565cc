"""FRR's JSON to `routing.Look`. Pure.

FRR's answers to several `show … json` in one vtysh call come one after the other without a mark, so each document is
told by its shape.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from anycastlab.virtual_router.dataplane.routing import BfdPeer, BgpPath, Hop, Look, Neighbor, Route

COMMANDS = (
    "show bgp neighbors json",
    "show bfd peers json",
    "show bfd peers counters json",
    "show bgp ipv4 unicast json",
    "show bgp ipv6 unicast json",
    "show ip route json",
    "show ipv6 route json",
)
_FAMILIES = {"ipv4Unicast": 4, "ipv6Unicast": 6}
_PROTOCOLS = frozenset({"bgp", "connected", "static", "kernel"})


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
    neighbors: list[Neighbor] = []
    bfd: dict[str, dict[str, Any]] = {}
    paths: dict[str, tuple[BgpPath, ...]] = {}
    routes: dict[str, tuple[Route, ...]] = {}
    for document in documents(text):
        if isinstance(document, list):
            for peer in document:
                if isinstance(peer, dict) and "peer" in peer:
                    # Twice: the session's state, then its counters; both belong to one row.
                    bfd.setdefault(str(ip_address(peer["peer"])), {}).update(peer)
        elif isinstance(document, dict):
            if "routes" in document and "tableVersion" in document:
                paths |= {prefix: tuple(map(_path, found)) for prefix, found in document["routes"].items()}
                continue
            for key, value in document.items():
                if isinstance(value, dict) and "bgpState" in value:
                    neighbors.append(_neighbor(key, value))
                elif isinstance(value, list) and "/" in key:
                    known = tuple(_route(entry) for entry in value if entry.get("protocol") in _PROTOCOLS)
                    routes[key] = routes.get(key, ()) + known
    return Look(tuple(neighbors), tuple(_bfd_peer(*peer) for peer in bfd.items()), paths, routes)


def _neighbor(address: str, state: dict[str, Any]) -> Neighbor:
    families = state.get("addressFamilyInfo", {})
    hold, keepalive = state.get("bgpTimerHoldTimeMsecs"), state.get("bgpTimerKeepAliveIntervalMsecs")
    messages = state.get("messageStats", {})
    established = state.get("bgpState") == "Established"
    return Neighbor(
        address=address,
        established=established,
        was_established=established or bool(state.get("connectionsEstablished")),
        remote_as=state.get("remoteAs"),
        remote_id=state.get("remoteRouterId", ""),
        local_address=state.get("hostLocal", ""),
        local_id=state.get("localRouterId", ""),
        families=tuple(_FAMILIES[name] for name in families if name in _FAMILIES),
        hold_s=None if hold is None else hold / 1000,
        keepalive_s=None if keepalive is None else keepalive / 1000,
        prefixes=sum(info.get("acceptedPrefixCounter", 0) for info in families.values()),
        messages_received=messages.get("totalRecv", 0),
        messages_sent=messages.get("totalSent", 0),
        uptime_s=state.get("bgpTimerUpMsec", 0) // 1000,
        last_error=str(state.get("lastNotificationReason") or state.get("lastResetDueTo") or ""),
    )


def _bfd_peer(address: str, state: dict[str, Any]) -> BfdPeer:
    return BfdPeer(
        address=address,
        state=str(state.get("status", "down")),
        local_address=str(state.get("local", "")),
        multihop=bool(state.get("multihop")),
        tx_ms=int(state.get("transmit-interval", 0)),
        rx_ms=int(state.get("receive-interval", 0)),
        multiplier=int(state.get("detect-multiplier", 0)),
        remote_tx_ms=int(state.get("remote-transmit-interval", 0)),
        remote_rx_ms=int(state.get("remote-receive-interval", 0)),
        remote_multiplier=int(state.get("remote-detect-multiplier", 0)),
        uptime_s=int(state.get("uptime", 0)),
        packets_received=int(state.get("control-packet-input", 0)),
        packets_sent=int(state.get("control-packet-output", 0)),
        changes=int(state.get("session-up", 0)) + int(state.get("session-down", 0)),
    )


def _path(state: dict[str, Any]) -> BgpPath:
    hops = state.get("nexthops", [])
    announced = sorted(hops, key=lambda hop: hop.get("scope") == "link-local")
    return BgpPath(
        next_hops=tuple(str(hop["ip"]) for hop in announced if hop.get("ip")),
        valid=bool(state.get("valid")),
        external=state.get("pathFrom") == "external",
        as_path=str(state.get("path", "")),
        origin=str(state.get("origin", "")).lower(),
        med=state.get("metric"),
        local_pref=state.get("locPrf"),
    )


def _route(entry: dict[str, Any]) -> Route:
    selected = bool(entry.get("selected"))
    hops = [hop for hop in entry.get("nexthops", []) if not hop.get("duplicate")]
    return Route(
        protocol=entry["protocol"],
        hops=tuple(
            Hop(
                address=hop.get("ip", ""),
                device=hop.get("interfaceName", ""),
                live=selected and bool(hop.get("fib")),
                blackhole=bool(hop.get("blackhole")),
            )
            for hop in hops
        ),
        distance=entry.get("distance", 0),
        active=bool(entry.get("installed")),
    )
