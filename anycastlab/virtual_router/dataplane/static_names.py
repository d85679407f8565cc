"""/ip/dns/static as something that answers questions. Pure; compiled once per change, then only read.

Order as on the router: `regexp` rows first, then an exact name, then `match-subdomain` rows, each in their order. A row
without type is A or AAAA by its address. Addresses answer reverse questions too. A name that has records, only not of
the asked type, gets an empty answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address

from anycastlab.virtual_router.dataplane import dns_wire as wire
from anycastlab.virtual_router.dataplane import timing
from anycastlab.virtual_router.dataplane.api import Row
from anycastlab.virtual_router.dataplane.rows import items, seconds, truth

HELD_ZONES: tuple[str, ...] = ("lan", "home.arpa", "internal")
"""Zones nobody outside knows: a name under them that is not in a row does not exist, without asking upstream. (RouterOS
would ask its upstream, which knows as little; the answer is the same, and here it does not depend on the WAN.)"""
PRIVATE_REVERSE: tuple[str, ...] = (
    "10.in-addr.arpa",
    "168.192.in-addr.arpa",
    "d.f.ip6.arpa",
    "c.f.ip6.arpa",
    *(f"{n}.172.in-addr.arpa" for n in range(16, 32)),
)
"""Reverse zones of RFC 1918 and RFC 4193 addresses (RFC 6303)."""

A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, ANY = 1, 2, 5, 6, 12, 15, 16, 28, 33, 255
TYPES = {"A": A, "AAAA": AAAA, "CNAME": CNAME, "TXT": TXT, "MX": MX, "NS": NS, "SRV": SRV}
MAX_CNAMES = 8


@dataclass(frozen=True)
class Record:
    """One static record: RR type, TTL in seconds, data in wire form; `target` is a CNAME's name."""

    type: int
    ttl: int
    data: bytes
    target: str = ""


@dataclass(frozen=True)
class Reply:
    """What the rows say: a response code with records (owner, record), or servers to ask instead."""

    rcode: int
    records: tuple[tuple[str, Record], ...] = ()
    forward_to: tuple[str, ...] = ()
    zone: str = ""
    """The zone a denial speaks for; empty: only the name itself."""


@dataclass(frozen=True)
class _Pattern:
    """A row for many names; None as content is NXDOMAIN."""

    suffix: str
    expression: re.Pattern[str] | None
    records: tuple[Record, ...]
    nxdomain: bool
    forward_to: tuple[str, ...]

    def matches(self, name: str) -> bool:
        if self.expression is not None:
            return self.expression.search(name) is not None
        return name == self.suffix or name.endswith("." + self.suffix)

    def reply(self, name: str, kind: int) -> Reply:
        if self.nxdomain:
            return Reply(wire.NXDOMAIN)
        if self.forward_to:
            return Reply(wire.NOERROR, forward_to=self.forward_to)
        return Reply(wire.NOERROR, tuple((name, r) for r in self.records if kind in (r.type, ANY)))


@dataclass
class StaticNames:
    """All rows. `problems` says which rows were left out and why, by row id."""

    exact: dict[str, list[Record]] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    forwarded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    patterns: list[_Pattern] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def compile(cls, rows: Iterable[Row]) -> StaticNames:
        """From the rows of the menu; disabled ones do not count."""
        names = cls()
        for row in rows:
            if truth(row, "disabled"):
                continue
            try:
                names._add(row)
            except (ValueError, re.error) as error:
                names.problems[row.get(".id", "")] = str(error)
        return names

    def _add(self, row: Row) -> None:
        kind = row.get("type") or "A"
        name = row.get("name", "").rstrip(".").lower()
        servers = tuple(items(row.get("forward-to")))
        records: tuple[Record, ...] = () if kind in ("NXDOMAIN", "FWD") else (record_of(row, kind),)
        if kind == "FWD" and not servers:
            raise ValueError("forward-to is not set")
        if row.get("regexp"):
            self.patterns.append(_Pattern("", re.compile(row["regexp"]), records, kind == "NXDOMAIN", servers))
        elif not name:
            raise ValueError("neither name nor regexp is set")
        elif truth(row, "match-subdomain"):
            wire.encode_name(name)
            self.patterns.append(_Pattern(name, None, records, kind == "NXDOMAIN", servers))
        elif kind == "NXDOMAIN":
            self.denied.add(name)
        elif kind == "FWD":
            self.forwarded[name] = servers
        else:
            wire.encode_name(name)
            self.exact.setdefault(name, []).append(records[0])
            if kind in ("A", "AAAA"):
                reverse = ip_address(row["address"]).reverse_pointer
                pointer = Record(PTR, records[0].ttl, wire.encode_name(name))
                self.exact.setdefault(reverse, []).append(pointer)

    def lookup(self, name: str, kind: int) -> Reply | None:
        """None: not ours, ask upstream. `name` is lower case without final dot."""
        regexps = [pattern for pattern in self.patterns if pattern.expression is not None]
        for pattern in regexps:
            if pattern.matches(name):
                return pattern.reply(name, kind)
        if name in self.exact:
            return self._answer(name, kind)
        if name in self.denied:
            return Reply(wire.NXDOMAIN)
        if name in self.forwarded:
            return Reply(wire.NOERROR, forward_to=self.forwarded[name])
        for pattern in self.patterns:
            if pattern.expression is None and pattern.matches(name):
                return pattern.reply(name, kind)
        for zone in HELD_ZONES + PRIVATE_REVERSE:
            if name == zone or name.endswith("." + zone):
                # A name above existing ones exists (RFC 8020): an empty answer, not a denial.
                known = name == zone or any(other.endswith("." + name) for other in self.exact)
                return Reply(wire.NOERROR if known else wire.NXDOMAIN, zone=zone)
        return None

    def _answer(self, name: str, kind: int) -> Reply:
        found: list[tuple[str, Record]] = []
        for _ in range(MAX_CNAMES):
            records = self.exact.get(name, [])
            matching = [(name, r) for r in records if kind in (r.type, ANY)]
            alias = next((r for r in records if r.type == CNAME), None)
            if matching or alias is None:
                return Reply(wire.NOERROR, (*found, *matching))
            found.append((name, alias))
            name = alias.target
        return Reply(wire.SERVFAIL)


def record_of(row: Row, kind: str) -> Record:
    """One row's record. Raises ValueError naming what is wrong."""
    if kind not in TYPES:
        raise ValueError(f"type={kind}")
    ttl = round(seconds(row.get("ttl"), timing.STATIC_TTL_S))
    target = ""
    match kind:
        case "A" | "AAAA":
            address = ip_address(row.get("address", ""))
            if not isinstance(address, IPv4Address if kind == "A" else IPv6Address):
                kind = "AAAA" if kind == "A" else "A"
            data = address.packed
        case "CNAME":
            target = row.get("cname", "").rstrip(".").lower()
            if not target:
                raise ValueError("cname is not set")
            data = wire.encode_name(target)
        case "NS":
            data = wire.encode_name(row.get("ns", ""))
        case "TXT":
            text = row.get("text", "").encode()
            chunks = [text[at : at + 255] for at in range(0, len(text), 255)] or [b""]
            data = b"".join(bytes([len(chunk)]) + chunk for chunk in chunks)
        case "MX":
            data = int(row.get("mx-preference") or 0).to_bytes(2, "big") + wire.encode_name(row.get("mx-exchange", ""))
        case _:
            numbers = [int(row.get(key) or 0) for key in ("srv-priority", "srv-weight", "srv-port")]
            data = b"".join(n.to_bytes(2, "big") for n in numbers) + wire.encode_name(row.get("srv-target", ""))
    return Record(TYPES[kind], ttl, data, target)


def soa_for_denial(zone: str) -> bytes:
    """An SOA that lets clients remember a denial for NEGATIVE_TTL_S (RFC 2308)."""
    ttl = timing.NEGATIVE_TTL_S
    numbers = b"".join(n.to_bytes(4, "big") for n in (1, 3600, 600, 86400, ttl))
    data = wire.encode_name("router.lan") + wire.encode_name("hostmaster.router.lan") + numbers
    return wire.record(SOA, ttl, data, wire.encode_name(zone)) if zone else wire.record(SOA, ttl, data)
