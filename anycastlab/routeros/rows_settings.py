"""Desired settings, and the DHCP network that hands out the service address. Pure.

Settings menus have no comments, so nothing in them is ours: single properties are set, what was there before is kept
on the control machine, and removal gives it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Interface, IPv4Network

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.row import Row
from anycastlab.site.model import Site


def settings_rows(site: Site) -> list[Row]:
    ip: dict[str, str | None] = {"ipv4-multipath-hash-policy": "l4"}
    reason = "spread by port too, or one client would always ask one node"
    if site.layout == "flat":
        ip["send-redirects"] = "no"
        reason += (
            "; no ICMP redirects, or clients in the nodes' subnet learn a node's address for minutes and stay there "
            "when it dies"
        )
    return [
        Row("/ip/settings", "", ip, reason=reason),
        Row("/ip/dns", "", {"allow-remote-requests": "yes"}, reason="local names for the nodes, and the last resort"),
    ]


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
