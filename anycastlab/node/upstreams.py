"""The servers a resolver asks, written once and said in each resolver's own words.

203.0.113.53            plain DNS on port 53; `203.0.113.53:5353` for another port, `[2001:db8::1]:5353` for IPv6
tls://9.9.9.9#dns.quad9.net     DNS over TLS (RFC 7858) to an address, with the name its certificate must carry
tls://dns.quad9.net     the same, the address looked up at `bootstrap` (AdGuard Home only)
https://…, quic://…, sdns://…   AdGuard Home only
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from anycastlab.node.errors import ResolverError

PLAIN_PORT: Final = 53
TLS_PORT: Final = 853  # RFC 7858, 3.1
_ADGUARDS_OWN: Final = re.compile(r"\s*\[/(?P<domains>.*)/\](?P<servers>.*)", re.DOTALL)  # `[/corp.example/]10.8.0.1`
_ADGUARD_ONLY: Final = ("https", "h3", "quic", "sdns")


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
    def unbound(self) -> str:
        """As unbound's `forward-addr` wants it; raises ResolverError for what unbound cannot do."""
        if self.address is None or self.scheme in _ADGUARD_ONLY or (self.scheme == "tls" and not self.tls_name):
            raise ResolverError(
                f"unbound cannot ask the upstream {self.written!r}.",
                "Write it as an address, or as tls://ADDRESS#NAME.",
            )
        if self.scheme == "tls":
            return f"{self.address}@{self.port}#{self.tls_name}"
        return str(self.address) if self.port == PLAIN_PORT else f"{self.address}@{self.port}"


def parse(written: str) -> Upstream:
    """Read one upstream; raises ResolverError naming it."""
    if own := _ADGUARDS_OWN.match(written):
        domains = [domain for domain in own["domains"].split("/") if domain]
        servers = own["servers"].split()
        raise ResolverError(
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
        raise ResolverError(f"The upstream {written!r} has an unknown scheme.", "Use an address, tls:// or https://.")
    rest, _, tls_name = rest.partition("#")
    host, port = _split(written, rest, TLS_PORT if scheme == "tls" else PLAIN_PORT)
    address: IPv4Address | IPv6Address | None
    try:
        address = ip_address(host)
    except ValueError:
        if scheme != "tls" or tls_name or not host:
            raise ResolverError(f"The upstream {written!r} is not an address.", "Write it as an address.") from None
        address = None
    if tls_name and scheme != "tls":
        raise ResolverError(f"The upstream {written!r} has a certificate name but no tls://.", "Add tls:// to it.")
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
        raise ResolverError(f"The upstream {written!r} has no valid port.", "Use a number from 1 to 65535.")
    return host, int(port)
