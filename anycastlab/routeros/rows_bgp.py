"""Desired rows of BGP, its filters and BFD. Pure.

One connection per node, not a listening one for a subnet: the router then knows who is missing, BFD is per neighbour,
and a stranger in the subnet cannot peer. `input.filter` must exist before the connection, because a connection without
one accepts everything; a chain's own last word is reject (MikroTik manual, "Route Selection and Filters").
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Final

from anycastlab.routeros.row import Place, Row
from anycastlab.routeros.version import Capabilities
from anycastlab.site.model import Site
from anycastlab.site.parts import Node

INSTANCE_NAME: Final = "anycastlab"
CHAIN_IN: Final = "anycastlab-in"
CHAIN_OUT: Final = "anycastlab-out"
CHAIN_IN6: Final = "anycastlab-in6"

#: Paths BGP may use at once. More than any home has nodes, so that adding one does not change the instance, which
#: would restart every session.
MULTIPATH: Final = 8

#: The most RouterOS takes as keepalive, seconds; it takes a third of the hold time if less.
KEEPALIVE_MAX_S: Final = 1800


def bgp_rows(site: Site, caps: Capabilities) -> list[Row]:
    rows = [*_filters(site), *_bfd(site)]
    if caps.instance and site.router.bgp_instance is None:
        rows.append(_instance(site, caps))
    for node in site.nodes:
        rows.append(_connection(site, caps, node))
        if site.service.address6:
            rows.append(_connection(site, caps, node, ipv6=True))
    return rows


def instance_name(site: Site) -> str:
    return site.router.bgp_instance or INSTANCE_NAME


def connection_name(node: Node, ipv6: bool = False) -> str:
    return f"anycastlab-{node.name}" + ("-v6" if ipv6 else "")


def _instance(site: Site, caps: Capabilities) -> Row:
    properties: dict[str, str | None] = {
        "name": INSTANCE_NAME,
        "as": str(site.bgp.router_asn),
        "router-id": str(site.router.router_id),
        "disabled": "no",
    }
    if caps.multipath:
        properties["multipath"] = str(max(MULTIPATH, len(site.nodes)))
    return Row("/routing/bgp/instance", "anycastlab:instance", properties)


def _connection(site: Site, caps: Capabilities, node: Node, ipv6: bool = False) -> Row:
    properties: dict[str, str | None] = {
        "name": connection_name(node, ipv6),
        "remote.address": str(node.address6 if ipv6 else node.address),
        "remote.as": str(site.bgp.node_asn),
        "local.address": str(node.gateway6 if ipv6 else node.gateway),
        "local.role": "ebgp",
        "connect": "yes",
        "listen": "yes",
        "hold-time": f"{site.bgp.hold_s}s",
        "keepalive-time": f"{min(site.bgp.keepalive_s, KEEPALIVE_MAX_S)}s",
        "use-bfd": "yes",
        "input.filter": CHAIN_IN6 if ipv6 else CHAIN_IN,
        "output.filter-chain": CHAIN_OUT,
        "tcp-md5-key": site.bgp.password,
        caps.afi: "ipv6" if ipv6 else "ip",
        "disabled": "no",
    }
    if caps.instance:
        properties["instance"] = instance_name(site)
    else:
        properties["as"] = str(site.bgp.router_asn)
        properties["router-id"] = str(site.router.router_id)
    suffix = ":v6" if ipv6 else ""
    return Row("/routing/bgp/connection", f"anycastlab:connection:{node.name}{suffix}", properties)


def _filters(site: Site) -> list[Row]:
    rows = [_rule("in", CHAIN_IN, f"if (dst == {site.service.prefix}) {{ accept }} else {{ reject }}")]
    if site.service.prefix6:
        rows.append(_rule("in6", CHAIN_IN6, f"if (dst == {site.service.prefix6}) {{ accept }} else {{ reject }}"))
    rows.append(_rule("out", CHAIN_OUT, "reject", "nodes need no routes from the router"))
    return rows


def _rule(which: str, chain: str, rule: str, reason: str = "") -> Row:
    properties: dict[str, str | None] = {"chain": chain, "rule": rule, "disabled": "no"}
    return Row("/routing/filter/rule", f"anycastlab:filter:{which}", properties, reason=reason)


def _addresses(site: Site, node: Node) -> list[IPv4Address | IPv6Address]:
    six = [node.address6] if site.service.address6 and node.address6 else []
    return [node.address, *six]


def _bfd(site: Site) -> list[Row]:
    """BFD refuses every peer that no row allows; the first row that fits counts, so ours come first."""
    interval = f"{site.bfd.interval_ms}ms"
    return [
        Row(
            "/routing/bfd/configuration",
            f"anycastlab:bfd:{node.name}",
            {
                "addresses": ",".join(str(address) for address in _addresses(site, node)),
                "forbid-bfd": "no",
                "min-tx": interval,
                "min-rx": interval,
                "multiplier": str(site.bfd.multiplier),
                "disabled": "no",
            },
            Place.FIRST,
        )
        for node in site.nodes
    ]
