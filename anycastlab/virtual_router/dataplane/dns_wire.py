"""Just enough of DNS messages (RFC 1035, 6891) to answer or pass on a question without building objects for it. Pure.

A question is kept as the bytes it came in, so the answer repeats the client's own spelling of the name (0x20 mixing).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = 12
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = 0, 1, 2, 3, 4, 5
OPT = 41
MIN_UDP = 512
OUR_UDP = 1232  # the size that needs no fragments (DNS flag day 2020)
_NAME_POINTER = b"\xc0\x0c"  # "the name in the question"
_SOA, _CNAME = 6, 5


class Malformed(ValueError):  # noqa: N818 - what it is, not who failed
    """Not a question we can read; `id_bytes` when at least that much came."""


@dataclass(frozen=True)
class Question:
    """One parsed query. `name` is lower case with a final dot missing (`nas.lan`); the root is empty."""

    id_bytes: bytes
    flags: int
    name: str
    type: int
    klass: int
    section: bytes
    """The question section as received."""
    udp_size: int
    edns: bool
    dnssec: bool

    @property
    def key(self) -> tuple[str, int, int, bool, bool, bool]:
        """What answers may be shared for: also the bits that change what a server sends."""
        return self.name, self.type, self.klass, self.edns, self.dnssec, bool(self.flags & 0x10)


def parse(wire: bytes) -> Question:
    """Raises Malformed."""
    if len(wire) < HEADER + 5:
        raise Malformed("short")
    flags, questions, answers, authorities, additional = struct.unpack_from("!HHHHH", wire, 2)
    if flags & 0x8000 or questions != 1 or answers or authorities:
        raise Malformed("not a question")
    name, end = _read_name(wire, HEADER)
    if end + 4 > len(wire):
        raise Malformed("short")
    kind, klass = struct.unpack_from("!HH", wire, end)
    end += 4
    udp_size, edns, dnssec = MIN_UDP, False, False
    if additional and len(wire) >= end + 11 and wire[end] == 0:
        opt_type, size, ttl = struct.unpack_from("!HHI", wire, end + 1)
        if opt_type == OPT:
            udp_size, edns, dnssec = max(MIN_UDP, size), True, bool(ttl & 0x8000)
    return Question(wire[:2], flags, name, kind, klass, wire[HEADER:end], udp_size, edns, dnssec)


def _read_name(wire: bytes, at: int) -> tuple[str, int]:
    labels: list[str] = []
    total = 0
    while True:
        if at >= len(wire):
            raise Malformed("short name")
        length = wire[at]
        if length == 0:
            return ".".join(labels), at + 1
        total += length + 1
        if length > 63 or total > 254 or at + 1 + length > len(wire):
            raise Malformed("bad name")
        # latin-1 keeps every byte; a dot inside a label would be ambiguous and is escaped.
        label = wire[at + 1 : at + 1 + length].decode("latin-1").lower().replace(".", "\\046")
        labels.append(label)
        at += length + 1


def encode_name(name: str) -> bytes:
    """A name in wire form. Raises ValueError for labels DNS cannot carry."""
    out = b""
    for label in name.rstrip(".").split(".") if name.rstrip(".") else []:
        data = label.replace("\\046", ".").encode("latin-1")
        if not 0 < len(data) < 64:
            raise ValueError(f"label {label!r} is empty or longer than 63 bytes")
        out += bytes([len(data)]) + data
    if len(out) > 254:
        raise ValueError(f"name {name!r} is longer than 255 bytes")
    return out + b"\0"


def record(kind: int, ttl: int, data: bytes, owner: bytes = _NAME_POINTER) -> bytes:
    """One resource record of class IN; the owner is the question's name unless given in wire form."""
    return owner + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def respond(
    question: Question, rcode: int, answers: tuple[bytes, ...] = (), authority: tuple[bytes, ...] = ()
) -> bytes:
    """A whole response of our own: recursion available, the client's flags RD and CD kept."""
    flags = 0x8000 | (question.flags & 0x7910) | 0x0080 | rcode
    extra = b"\0" + struct.pack("!HHIH", OPT, OUR_UDP, 0x8000 if question.dnssec else 0, 0) if question.edns else b""
    counts = struct.pack("!HHHHH", flags, 1, len(answers), len(authority), 1 if extra else 0)
    return question.id_bytes + counts + question.section + b"".join(answers) + b"".join(authority) + extra


def malformed_response(wire: bytes, rcode: int = FORMERR) -> bytes | None:
    """An answer to something that could not be read; None when it is better not to answer at all."""
    if len(wire) < HEADER or wire[2] & 0x80:
        return None
    flags = 0x8000 | (struct.unpack_from("!H", wire, 2)[0] & 0x7900) | 0x0080 | rcode
    return wire[:2] + struct.pack("!HHHHH", flags, 0, 0, 0, 0)


def truncate(question: Question, wire: bytes) -> bytes:
    """Only header and question, with TC set: the client comes again over TCP."""
    flags = struct.unpack_from("!H", wire, 2)[0] | 0x0200
    return question.id_bytes + struct.pack("!HHHHH", flags, 1, 0, 0, 0) + question.section


@dataclass(frozen=True)
class Answer:
    """An upstream's response, ready to be given to others with the same key."""

    wire: bytes
    ttl_offsets: tuple[int, ...]
    ttl: int
    """Seconds it may be kept; 0 for what must not be."""
    rcode: int
    truncated: bool


def read_answer(wire: bytes, question: Question, negative_ttl: int, failure_ttl: int, max_ttl: int) -> Answer:
    """Checks that `wire` answers `question` and finds its TTLs. Raises Malformed."""
    if len(wire) < HEADER + len(question.section):
        raise Malformed("short")
    flags, questions, answers, authorities, additional = struct.unpack_from("!HHHHH", wire, 2)
    name, end = _read_name(wire, HEADER)
    if not flags & 0x8000 or questions != 1 or name != question.name or wire[end : end + 4] != question.section[-4:]:
        raise Malformed("answers something else")
    rcode, truncated = flags & 0xF, bool(flags & 0x0200)
    at = HEADER + len(question.section)
    offsets: list[int] = []
    lowest = max_ttl
    soa_ttl: int | None = None
    useful = 0
    for index in range(answers + authorities + additional):
        at = _skip_name(wire, at)
        if at + 10 > len(wire):
            raise Malformed("short record")
        kind, _, ttl, length = struct.unpack_from("!HHIH", wire, at)
        data = at + 10
        if data + length > len(wire):
            raise Malformed("short record")
        if kind != OPT:
            offsets.append(at + 4)
            lowest = min(lowest, ttl)
            if kind == _SOA and answers <= index < answers + authorities and length >= 4:
                soa_ttl = min(ttl, struct.unpack_from("!I", wire, data + length - 4)[0])
        useful += index < answers and kind == question.type
        at = data + length
    if truncated:
        keep = 0
    elif rcode == SERVFAIL:
        keep = failure_ttl
    elif rcode == NXDOMAIN or (rcode == NOERROR and not useful):
        keep = min(soa_ttl if soa_ttl is not None else 0, negative_ttl, lowest)
    elif rcode == NOERROR:
        keep = lowest
    else:
        keep = 0
    return Answer(wire, tuple(offsets), keep, rcode, truncated)


def _skip_name(wire: bytes, at: int) -> int:
    while at < len(wire):
        length = wire[at]
        if length & 0xC0 == 0xC0:
            return at + 2
        at += length + 1
        if length == 0:
            return at
    raise Malformed("short name")


def reuse(answer: Answer, question: Question, age_s: int) -> bytes:
    """The answer for another client: its id, its spelling of the name, its RD bit, TTLs lowered by the age."""
    wire = bytearray(answer.wire)
    wire[0:2] = question.id_bytes
    wire[2] = (wire[2] & 0xFE) | (question.flags >> 8 & 1)
    wire[HEADER : HEADER + len(question.section)] = question.section
    if age_s > 0:
        for offset in answer.ttl_offsets:
            ttl = struct.unpack_from("!I", wire, offset)[0]
            struct.pack_into("!I", wire, offset, max(0, ttl - age_s))
    return bytes(wire)
