"""Desired rows of the input chains. Pure.

BGP and BFD from the nodes, DNS from those who may ask: before the first rule that could drop them. DNS from the WAN:
dropped by the very first rule of the chain, because the router's resolver is open to remote requests (`/ip/dns`) and
would otherwise serve the internet.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from anycastlab.routeros.row import Place, Row
from anycastlab.site.model import Site

INPUT = "/ip/firewall/filter"
INPUT6 = "/ipv6/firewall/filter"

BGP_PORT = "179"
BFD_PORT = "3784"  # RFC 5881: single hop
DNS_PORT = "53"


def firewall_rows(site: Site, ipv6: bool) -> list[Row]:
    """`ipv6`: the router has an IPv6 firewall, and the site a service address for it."""
    rows = [
        _guard(INPUT, "udp", site.router.wan_interface),
        _guard(INPUT, "tcp", site.router.wan_interface),
    ]
    for node in site.nodes:
        rows.append(_accept(INPUT, f"bgp:{node.name}", "tcp", BGP_PORT, str(node.address)))
        rows.append(_accept(INPUT, f"bfd:{node.name}", "udp", BFD_PORT, str(node.address)))
    for network in _askers(site):
        rows.append(_accept(INPUT, f"dns-udp:{network}", "udp", DNS_PORT, str(network)))
        rows.append(_accept(INPUT, f"dns-tcp:{network}", "tcp", DNS_PORT, str(network)))
    if ipv6:
        rows += [
            _guard(INPUT6, "udp", site.router.wan_interface),
            _guard(INPUT6, "tcp", site.router.wan_interface),
        ]
        for node in site.nodes:
            rows.append(_accept(INPUT6, f"bgp:{node.name}", "tcp", BGP_PORT, f"{node.address6}"))
            rows.append(_accept(INPUT6, f"bfd:{node.name}", "udp", BFD_PORT, f"{node.address6}"))
        if site.layout == "flat":
            rows.append(_no_redirects6())
    return rows


def _askers(site: Site) -> Iterator[IPv4Network]:
    """Subnets whose hosts may ask the router: the LAN, and the nodes, which ask it for local names. Each once."""
    yield from dict.fromkeys([*site.router.lan_networks, *(node.network for node in site.nodes)])


def _accept(menu: str, which: str, protocol: str, port: str, source: str) -> Row:
    properties: dict[str, str | None] = {
        "chain": "input",
        "action": "accept",
        "protocol": protocol,
        "dst-port": port,
        "src-address": source,
        "disabled": "no",
    }
    return Row(menu, f"anycastlab:accept:{which}", properties, Place.BEFORE_BLOCKING)


def _no_redirects6() -> Row:
    """IPv6 has no `send-redirects`: what the router sends of them is dropped on its way out (RFC 4443, type 137)."""
    properties: dict[str, str | None] = {
        "chain": "output",
        "action": "drop",
        "protocol": "icmpv6",
        "icmp-options": "137:0",
        "disabled": "no",
    }
    reason = "no ICMPv6 redirects, or clients in the nodes' subnet stay with a node that died"
    return Row(INPUT6, "anycastlab:no-redirects", properties, Place.FIRST, reason=reason)


def _guard(menu: str, protocol: str, interface: str) -> Row:
    properties: dict[str, str | None] = {
        "chain": "input",
        "action": "drop",
        "protocol": protocol,
        "dst-port": DNS_PORT,
        "in-interface": interface,
        "disabled": "no",
    }
    reason = "the router's resolver answers remote requests; not those from the WAN"
    return Row(menu, f"anycastlab:wan-guard:{protocol}", properties, Place.FIRST, reason=reason)
