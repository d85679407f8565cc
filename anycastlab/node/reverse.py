"""Reverse zones (RFC 1035, 3.5; RFC 3596, 2.5) as the networks they stand for. Pure."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

# Networks that resolvers answer for themselves (RFC 6303): what AdGuard Home asks its private resolvers about.
_PRIVATE: Final = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10"))
)
_HEX_DIGITS: Final = 32  # labels of a whole IPv6 address


def network(zone: str) -> IPv4Network | IPv6Network | None:
    """The network of `8.10.in-addr.arpa` (10.8.0.0/16) or of an ip6.arpa zone; None for what is no reverse zone."""
    head, _, suffix = zone.removesuffix(".arpa").rpartition(".")
    labels = head.split(".")[::-1] if head else []
    try:
        if zone.endswith(".in-addr.arpa") and suffix == "in-addr":
            octets = [*labels, *["0"] * (4 - len(labels))]
            return IPv4Network(f"{'.'.join(octets)}/{8 * len(labels)}")
        if zone.endswith(".ip6.arpa") and suffix == "ip6" and all(len(label) == 1 for label in labels):
            digits = "".join(labels).ljust(_HEX_DIGITS, "0")
            groups = ":".join(digits[at : at + 4] for at in range(0, _HEX_DIGITS, 4))
            return IPv6Network(f"{groups}/{4 * len(labels)}")
    except ValueError:
        return None
    return None


def is_private(zone: str) -> bool:
    """Whether it is the reverse zone of (a part of) a private network."""
    found = network(zone)
    if isinstance(found, IPv4Network):
        return any(isinstance(whole, IPv4Network) and found.subnet_of(whole) for whole in _PRIVATE)
    return found is not None and any(isinstance(whole, IPv6Network) and found.subnet_of(whole) for whole in _PRIVATE)
