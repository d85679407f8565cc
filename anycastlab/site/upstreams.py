"""The servers a resolver asks, written once and said in each resolver's own words.

203.0.113.53            plain DNS on port 53; `203.0.113.53:5353` for another port, `[2001:db8::1]:5353` for IPv6
tls://9.9.9.9#dns.quad9.net     DNS over TLS (RFC 7858) to an address, with the name its certificate must carry
tls://dns.quad9.net     the same, the address looked up at `bootstrap` (AdGuard Home only)
https://…, quic://…, sdns://…   AdGuard Home only
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from anycastlab.errors import AnycastlabError

PLAIN_PORT: Final = 53
TLS_PORT: Final = 853  # RFC 7858, 3.1
_ADGUARDS_OWN: Final = re.compile(r"\s*\[/(?P<domains>.*)/\](?P<servers>.*)", re.DOTALL)  # `[/corp.example/]10.8.0.1`
_ADGUARD_ONLY: Final = ("https", "h3", "quic", "sdns")


class UpstreamError(AnycastlabError):
    """A server that no resolver, or not this one, can ask."""


@dataclass(frozen=True)
class Upstream:
    """One server. `address` is None where only a name, or a whole URL, is given."""

    written: str
    scheme: str
    address: IPv4Address | IPv6Address | None
    port: int
    tls_name: str | None = None

    @property
    def adguard(self) -> str:
        """As AdGuard Home's `upstream_dns` wants it."""
        if self.scheme == "tls" and self.tls_name:
            port = "" if self.port == TLS_PORT else f":{self.port}"
            return f"tls://{self.tls_name}{port}"
        return self.written

    @property
    def name(self) -> str | None:
        """The name that AdGuard Home must look up before it can ask; None where it has the address, or a stamp."""
        if self.scheme == "tls":
            return self.tls_name or (None if self.address else self.written.removeprefix("tls://"))
        host = urlsplit(self.written).hostname if self.scheme in ("https", "h3", "quic") else None
        return None if host is None or _is_address(host) else host

    @property
    def unbound(self) -> str:
        """As unbound's `forward-addr` wants it; raises UpstreamError for what unbound cannot do."""
        if self.address is None or self.scheme in _ADGUARD_ONLY or (self.scheme == "tls" and not self.tls_name):
            raise UpstreamError(
                f"unbound cannot ask the upstream {self.written!r}.",
                "Write it as an address, or as tls://ADDRESS#NAME.",
            )
        if self.scheme == "tls":
            return f"{self.address}@{self.port}#{self.tls_name}"
        return str(self.address) if self.port == PLAIN_PORT else f"{self.address}@{self.port}"


def for_unbound(what: str, written: Iterable[str]) -> tuple[list[str], bool]:
    """Servers as unbound's `forward-addr` wants them, and whether they are asked over TLS; one zone has one way.

    `what` names them in a sentence. Raises UpstreamError.
    """
    asked = [parse(server) for server in written]
    tls = [server for server in asked if server.scheme == "tls"]
    if tls and len(tls) < len(asked):
        raise UpstreamError(
            f"The {what} mix plain DNS and DNS over TLS, which unbound cannot.", "Make all of them tls:// or none."
        )
    return [server.unbound for server in asked], bool(tls)


def require_usable(servers: Iterable[tuple[str, Iterable[str]]], resolvers: Collection[str], bootstrap: bool) -> None:
    """That every one of `resolvers` can ask all servers; raises UpstreamError naming the first that it cannot.

    + servers: what they are called in a sentence, and how they are written
    + resolvers: adguardhome, unbound
    + bootstrap: whether there are addresses at which AdGuard Home looks names up
    """
    for what, written in servers:
        parsed = [parse(server) for server in written]
        if "unbound" in resolvers:
            for_unbound(what, written)
        names = [server for server in parsed if server.name]
        if "adguardhome" in resolvers and names and not bootstrap:
            raise UpstreamError(
                f"AdGuard Home has to look up {names[0].name} before it can ask {names[0].written}, "
                "and bootstrap says nowhere.",
                'Set bootstrap to addresses of resolvers, such as ["9.9.9.9", "1.1.1.1"].',
            )


def parse(written: str) -> Upstream:
    """Read one upstream; raises UpstreamError naming it."""
    if own := _ADGUARDS_OWN.match(written):
        domains = [domain for domain in own["domains"].split("/") if domain]
        servers = own["servers"].split()
        raise UpstreamError(
            f"The upstream {written!r} is for some domains only, in AdGuard Home's own words.",
            f"Take it out of upstreams and write forward_zones = {json.dumps(dict.fromkeys(domains, servers))}."
            if domains and servers and "#" not in servers
            else "Take it out; domains with servers of their own stand in forward_zones.",
        )
    scheme, separator, rest = written.partition("://")
    if not separator:
        scheme, rest = "udp", written
    if scheme in _ADGUARD_ONLY and rest:
        return Upstream(written, scheme, None, 443)
    if scheme not in ("udp", "tcp", "tls"):
        raise UpstreamError(f"The upstream {written!r} has an unknown scheme.", "Use an address, tls:// or https://.")
    rest, _, tls_name = rest.partition("#")
    host, port = _split(written, rest, TLS_PORT if scheme == "tls" else PLAIN_PORT)
    address: IPv4Address | IPv6Address | None
    try:
        address = ip_address(host)
    except ValueError:
        if scheme != "tls" or tls_name or not host:
            raise UpstreamError(f"The upstream {written!r} is not an address.", "Write it as an address.") from None
        address = None
    if tls_name and scheme != "tls":
        raise UpstreamError(f"The upstream {written!r} has a certificate name but no tls://.", "Add tls:// to it.")
    return Upstream(written, scheme, address, port, tls_name or None)


def _split(written: str, text: str, default: int) -> tuple[str, int]:
    if text.startswith("["):
        host, _, tail = text[1:].partition("]")
        port = tail.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not port:
        return host, default
    if not port.isdigit() or not 1 <= int(port) <= 65535:
        raise UpstreamError(f"The upstream {written!r} has no valid port.", "Use a number from 1 to 65535.")
    return host, int(port)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
