"""Which packets a firewall rule matches: RouterOS matchers to nftables expressions. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from anycastlab.virtual_router.dataplane.api import Row, Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.rows import enabled, items

LIST_MENUS = ("/ip/firewall/address-list", "/ipv6/firewall/address-list", "/interface/list/member")
"""Menus that rules refer to."""

_STATES = {"established", "related", "new", "invalid", "untracked"}
_PROTOCOLS = {
    "icmp": "1",
    "igmp": "2",
    "tcp": "6",
    "udp": "17",
    "gre": "47",
    "ipsec-esp": "50",
    "ipsec-ah": "51",
    "icmpv6": "58",
    "ospf": "89",
    "pim": "103",
    "vrrp": "112",
    "l2tp": "115",
    "sctp": "132",
    "udp-lite": "136",
    "ipip": "4",
    "ipencap": "4",
    "egp": "8",
    "ggp": "3",
    "ipv6-encap": "41",
}
_TOP_PROTOCOL = 255
_TOP_PORT = 65535
_PORT = re.compile(r"\d+(-\d+)?")


class RuleNotEmulated(ValueError):  # noqa: N818 - says what it is about
    """Which part of a rule is not emulated, as `name=value`."""


@dataclass(frozen=True)
class Lists:
    """What rules refer to by name: address lists, interface lists, interfaces."""

    addresses: dict[str, list[str]] = field(default_factory=dict)
    interfaces: dict[str, list[str]] = field(default_factory=dict)
    known: Interfaces = field(default_factory=Interfaces)

    @classmethod
    def of(cls, snapshot: Snapshot, interfaces: Interfaces) -> Lists:
        addresses: dict[str, list[str]] = {}
        for menu in LIST_MENUS[:2]:
            for row in enabled(snapshot, menu):
                addresses.setdefault(row.get("list", ""), []).append(row.get("address", ""))
        members: dict[str, list[str]] = {"all": list(interfaces.names()), "none": []}
        for row in enabled(snapshot, LIST_MENUS[2]):
            members.setdefault(row.get("list", ""), []).append(row.get("interface", ""))
        return cls(addresses, members, interfaces)


def _split(value: str) -> tuple[str, str]:
    """`!x` as ("!= ", "x")."""
    return ("!= ", value[1:]) if value.startswith("!") else ("", value)


def address_text(text: str, family: str) -> str:
    first, dash, last = text.partition("-")
    try:
        if dash:
            low, high = ip_address(first), ip_address(last)
            if low.version != high.version:
                raise ValueError(text)
            version, shown = low.version, f"{low}-{high}"
        else:
            net = ip_network(text, strict=False)
            version, shown = net.version, str(net.network_address) if net.prefixlen == net.max_prefixlen else str(net)
    except ValueError as error:
        raise RuleNotEmulated(f"address={text}") from error
    if version != (4 if family == "ip" else 6):
        raise RuleNotEmulated(f"address={text}")
    return shown


def _ports(text: str) -> str:
    spans: list[tuple[int, int]] = []
    for part in items(text):
        if not _PORT.fullmatch(part):
            raise RuleNotEmulated(f"port={text}")
        low, _, high = part.partition("-")
        spans.append((int(low), int(high or low)))
        if not spans[-1][0] <= spans[-1][1] <= _TOP_PORT:
            raise RuleNotEmulated(f"port={text}")
    if not spans:
        raise RuleNotEmulated(f"port={text}")
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in _merged(spans)]
    return parts[0] if len(parts) == 1 else "{ " + ", ".join(parts) + " }"


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without overlaps, which an nft set does not take."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


class Matchers:
    """Property by property: each returns an nft expression; "" matches everything, None nothing at all."""

    def __init__(self, row: Row, family: str, lists: Lists) -> None:
        self.row = row
        self.family = family
        self.lists = lists

    def table(self) -> dict[str, Callable[[str], str | None]]:
        return {
            "protocol": self.protocol,
            "src-address": lambda v: self.address("saddr", v),
            "dst-address": lambda v: self.address("daddr", v),
            "src-address-list": lambda v: self.address_list("saddr", v),
            "dst-address-list": lambda v: self.address_list("daddr", v),
            "src-address-type": lambda v: self.address_type("saddr", v),
            "dst-address-type": lambda v: self.address_type("daddr", v),
            "src-port": lambda v: self.port("sport", v),
            "dst-port": lambda v: self.port("dport", v),
            "in-interface": lambda v: self.interface("iifname", v),
            "out-interface": lambda v: self.interface("oifname", v),
            "in-interface-list": lambda v: self.interface_list("iifname", v),
            "out-interface-list": lambda v: self.interface_list("oifname", v),
            "connection-state": self.connection_state,
            "connection-nat-state": self.connection_nat_state,
            "ipsec-policy": self.ipsec_policy,
            "icmp-options": self.icmp_options,
        }

    def protocol(self, value: str) -> str:
        sign, name = _split(value)
        number = _PROTOCOLS.get(name, name)
        if not number.isdigit() or int(number) > _TOP_PROTOCOL:
            raise RuleNotEmulated(f"protocol={value}")
        # Names where nft derives something from them (ports, reject with a reset); numbers are as good elsewhere.
        return f"meta l4proto {sign}{name if name in ('tcp', 'udp', 'icmp') else number}"

    def address(self, side: str, value: str) -> str:
        sign, text = _split(value)
        return f"{self.family} {side} {sign}{address_text(text, self.family)}"

    def address_list(self, side: str, value: str) -> str | None:
        sign, name = _split(value)
        return self.any_of(f"{self.family} {side}", sign, [address_text(a, self.family) for a in self.listed(name)])

    def listed(self, name: str) -> list[str]:
        wanted = 4 if self.family == "ip" else 6
        return [text for text in self.lists.addresses.get(name, []) if _version(text) in (wanted, None)]

    def any_of(self, what: str, sign: str, values: list[str]) -> str | None:
        if not values:
            return "" if sign else None
        return f"{what} {sign}{{ {', '.join(_without_overlap(values))} }}"

    def address_type(self, side: str, value: str) -> str:
        sign, kind = _split(value)
        if kind not in ("local", "broadcast", "multicast", "unicast"):
            raise RuleNotEmulated(f"address-type={value}")
        return f"fib {side} type {sign}{kind}"

    def port(self, side: str, value: str) -> str:
        protocol = self.row.get("protocol", "")
        if protocol not in ("tcp", "udp", "sctp", "6", "17", "132"):
            raise RuleNotEmulated(f"port without protocol tcp or udp ({side}={value})")
        sign, text = _split(value)
        return f"th {side} {sign}{_ports(text)}"

    def interface(self, side: str, value: str) -> str:
        sign, name = _split(value)
        device = self.lists.known.device(name)
        if device is None:
            raise RuleNotEmulated(f"interface={name}")
        return f'{side} {sign}"{device}"'

    def interface_list(self, side: str, value: str) -> str | None:
        sign, name = _split(value)
        devices = [self.lists.known.device(member) for member in self.lists.interfaces.get(name, [])]
        return self.any_of(side, sign, sorted({f'"{device}"' for device in devices if device}))

    def connection_state(self, value: str) -> str:
        sign, text = _split(value)
        states = items(text)
        if not states or not set(states) <= _STATES:
            raise RuleNotEmulated(f"connection-state={value}")
        return f"ct state {sign}{{ {', '.join(states)} }}"

    def connection_nat_state(self, value: str) -> str:
        sign, text = _split(value)
        bits = {"dstnat": "dnat", "srcnat": "snat"}
        if text not in bits:
            raise RuleNotEmulated(f"connection-nat-state={value}")
        return f"ct status & {bits[text]} {'==' if sign else '!='} 0"

    def ipsec_policy(self, value: str) -> str | None:
        """There is no IPsec here: no packet matches `…,ipsec`, every packet matches `…,none`."""
        direction, _, policy = value.partition(",")
        if direction not in ("in", "out") or policy not in ("ipsec", "none"):
            raise RuleNotEmulated(f"ipsec-policy={value}")
        return None if policy == "ipsec" else ""

    def icmp_options(self, value: str) -> str:
        match = re.fullmatch(r"(!?)(\d+):(\d+)(?:-(\d+))?", value)
        if match is None:
            raise RuleNotEmulated(f"icmp-options={value}")
        word = "icmp" if self.family == "ip" else "icmpv6"
        sign = "!= " if match[1] else ""
        if match[4] and (match[3], match[4]) != ("0", "255"):
            return f"{word} type {match[2]} {word} code {match[3]}-{match[4]}"
        return f"{word} type {sign}{match[2]}"


def _version(text: str) -> int | None:
    try:
        return ip_network(text.partition("-")[0], strict=False).version
    except ValueError:
        return None


def _without_overlap(values: list[str]) -> list[str]:
    """Addresses, prefixes and ranges as a set nft takes: sorted, none inside another. Other values stay as they are."""
    spans: list[tuple[int, int]] = []
    version = 4
    for value in values:
        first, dash, last = value.partition("-")
        try:
            net = ip_network(first)
            low, high = net[0], ip_address(last) if dash else net[-1]
        except ValueError:
            return sorted(set(values))
        version = low.version
        spans.append((int(low), int(high)))
    make = IPv4Address if version == 4 else IPv6Address
    return [_span(make(low), make(high)) for low, high in _merged(spans)]


def _span(low: IPv4Address | IPv6Address, high: IPv4Address | IPv6Address) -> str:
    if low == high:
        return str(low)
    size = int(high) - int(low) + 1
    if size & (size - 1) == 0 and int(low) % size == 0:
        return f"{low}/{low.max_prefixlen - size.bit_length() + 1}"
    return f"{low}-{high}"


def single_port(text: str) -> str:
    """A port or one range."""
    ports = _ports(text)
    if ports.startswith("{"):
        raise RuleNotEmulated(f"to-ports={text}")
    return ports
