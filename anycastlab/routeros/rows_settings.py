"""Desired settings, and the DHCP network that hands out the service address. Pure.

Settings menus have no comments, so nothing in them is ours: single properties are set, what was there before is kept
on the control machine, and removal gives it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.row import Row
from anycastlab.routeros.values import same
from anycastlab.site.model import Site

#: Every value that we ever set.
OURS: Mapping[str, Mapping[str, str]] = {
    "/ip/settings": {"ipv4-multipath-hash-policy": "l4", "send-redirects": "no"},
    "/ipv6/settings": {"multipath-hash-policy": "l4"},
    "/ip/dns": {"allow-remote-requests": "yes"},
}


def settings_rows(site: Site, ipv6: bool = True) -> list[Row]:
    """`ipv6`: the router can be told how to spread IPv6 flows."""
    ip: dict[str, str | None] = {"ipv4-multipath-hash-policy": "l4"}
    reason = "spread by port too, or one client would always ask one node"
    if site.layout == "flat":
        ip["send-redirects"] = "no"
        reason += (
            "; no ICMP redirects, or clients in the nodes' subnet learn a node's address for minutes and stay there "
            "when it dies"
        )
    rows = [Row("/ip/settings", "", ip, reason=reason)]
    if site.service.address6 and ipv6:
        rows.append(Row("/ipv6/settings", "", {"multipath-hash-policy": "l4"}, reason="the same for IPv6"))
    dns: dict[str, str | None] = {"allow-remote-requests": "yes"}
    return [*rows, Row("/ip/dns", "", dns, reason="local names for the nodes, and the last resort")]


def given_back(
    menus: Mapping[str, Sequence[Mapping[str, str]]], originals: Mapping[str, Mapping[str, str]], wanted: Sequence[Row]
) -> list[Row]:
    """Settings we changed and no longer want (`wanted` lacks them): what they were, unless a person changed them since.

    `originals`: menu → property → value before our first change.
    """
    kept = {(row.menu, name) for row in wanted for name in row.properties}
    rows = []
    for menu, ours in OURS.items():
        actual = next(iter(menus.get(menu, ())), {})
        back: dict[str, str | None] = {
            name: originals[menu][name]
            for name, value in ours.items()
            if name in originals.get(menu, {}) and (menu, name) not in kept and same(name, actual.get(name), value)
        }
        if back:
            rows.append(Row(menu, "", back, reason="as it was before"))
    return rows


def probe_zone_row(site: Site) -> Row:
    """The zone of the probes' random names does not exist, and the router knows it.

    Without it the router would ask the provider for them, and "can the nodes reach the router's names" would be a
    question about the internet.
    """
    properties: dict[str, str | None] = {
        "name": site.probe_zone,
        "type": "NXDOMAIN",
        "match-subdomain": "yes",
        "disabled": "no",
    }
    return Row("/ip/dns/static", "anycastlab:probe-zone", properties, reason="the probes' names: answered here")


def dhcp_rows(site: Site, addresses: Sequence[IPv4Interface]) -> list[Row]:
    """The DHCP network row, if the site wants one. With exactly one DNS server: clients use a second one at random."""
    network = site.router.dhcp_network
    if network is None:
        return []
    properties: dict[str, str | None] = {
        "address": str(network),
        "gateway": _gateway(site, network, addresses),
        "dns-server": str(site.service.address),
    }
    return [Row("/ip/dhcp-server/network", f"anycastlab:dhcp:{network}", properties)]


def _gateway(site: Site, network: IPv4Network, addresses: Sequence[IPv4Interface]) -> str:
    """The router's own address in that network."""
    for interface in addresses:
        if interface.ip in network:
            return str(interface.ip)
    for address in (*(node.gateway for node in site.nodes), site.resolver.router_dns):
        if address in network:
            return str(address)
    raise PlanError(
        f"dhcp_network {network} is no subnet of router {site.router.api_host}: it has no address there.",
        "Correct dhcp_network, or leave it out.",
        site.router.api_host,
    )
