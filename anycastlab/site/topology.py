"""Where the embedded lab's machines are: its subnets and addresses. Pure data.

upstream ──<lab>-wan── router ──<lab>-lan── client01 …      routed: nodes in a subnet of their own
                         └──────<lab>-dns── node01 …        flat:   nodes on <lab>-lan
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

LAN = IPv4Network("10.1.1.0/24")
DNS = IPv4Network("10.1.2.0/24")
# RFC 5737 documentation prefix as "the internet side"; it exists only on a bridge without a host address.
WAN = IPv4Network("203.0.113.0/24")

ROUTER_LAN = IPv4Address("10.1.1.1")
ROUTER_DNS = IPv4Address("10.1.2.1")
ROUTER_WAN = IPv4Address("203.0.113.2")
UPSTREAM_WAN = IPv4Address("203.0.113.53")

# Unique local prefixes (RFC 4193) beside the IPv4 ones, in use with an IPv6 service address only. A real home draws its
# 40 random bits; these lead nowhere, and are readable. Nothing on the WAN: the lab's internet has no IPv6.
LAN6 = IPv6Network("fd00:10:1:1::/64")
DNS6 = IPv6Network("fd00:10:1:2::/64")
ROUTER_LAN6 = IPv6Address("fd00:10:1:1::1")
ROUTER_DNS6 = IPv6Address("fd00:10:1:2::1")

FIRST_NODE = 11  # last octet of node01
FIRST_CLIENT = 101  # last octet of client01


def twin_address(network: IPv6Network, number: int) -> IPv6Address:
    """The IPv6 address that looks like the IPv4 one: 10.1.2.11 has fd00:10:1:2::11, the number's digits read as hex."""
    return network[int(str(number), 16)]
