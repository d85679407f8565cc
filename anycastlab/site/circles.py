"""Settings that would have the nodes ask themselves, or block what they need: refused, each with its reason. Pure.

A resolver that asks itself answers nothing, however well it runs; and a blocklist is no place for the names by which
probes, router and household see whether all is well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from anycastlab.errors import AnycastlabError
from anycastlab.site import upstreams

Address = IPv4Address | IPv6Address

# Where a node's own resolver listens: DNS, DNS over TLS, and DNS over HTTPS.
_OUR_PORTS = frozenset({upstreams.PLAIN_PORT, upstreams.TLS_PORT, 443})


def leading_back(
    asked: Mapping[str, Iterable[str]], service: Iterable[Address], nodes: Mapping[Address, str]
) -> Iterator[str]:
    """Sentences (without full stop) for servers that are the nodes themselves.

    + asked: setting → servers as written there
    + nodes: address → name
    """
    ours = {address: f"the service address {address}" for address in service}
    ours |= {address: f"{name} ({address})" for address, name in nodes.items()}
    for setting, servers in asked.items():
        for written in servers:
            server = _server(written)
            if server is None:
                continue
            address, port = server
            if address in ours:
                yield f"{setting} has {written}, which is {ours[address]}: the nodes would ask themselves"
            elif address.is_unspecified or (address.is_loopback and port in _OUR_PORTS):
                yield f"{setting} has {written}, which is each node itself: the nodes would ask themselves"


def blocked(blocklist: Iterable[str], needed: Mapping[str, str]) -> Iterator[str]:
    """Sentences for entries that block a name in `needed` (name → what it is for), whole or with its parent."""
    for entry in blocklist:
        for name, purpose in needed.items():
            if name == entry.lower() or name.endswith(f".{entry.lower()}"):
                yield f"blocklist has {entry}, which would block {name}, {purpose}"


def led_away(zones: Iterable[str], needed: Mapping[str, str], routers: Mapping[str, str]) -> Iterator[str]:
    """Sentences for forward zones that would take a name in `needed`, or are the router's own (zone → what it is)."""
    for zone in zones:
        if zone in routers:
            yield f"forward_zones has {zone}, which is {routers[zone]}, too; name it in one of them"
        for name, purpose in needed.items():
            if name == zone or name.endswith(f".{zone}"):
                yield f"forward_zones has {zone}, whose servers would be asked for {name}, {purpose}"


def _server(written: str) -> tuple[Address, int] | None:
    """Address and port, where an address is written at all; what cannot be read is somebody else's complaint."""
    try:
        server = upstreams.parse(written)
    except AnycastlabError:
        return None
    if server.address is not None:
        return server.address, server.port
    try:
        url = urlsplit(written)
        return ip_address(url.hostname or ""), url.port or server.port
    except ValueError:
        return None
