"""The few parts of the DNS wire format that a client on a tight schedule needs (RFC 1035, 6891, 5001).

Questions are encoded before the run starts; replies are read in one pass without building objects per record. A full
DNS library would take longer for one reply than there is time between two queries at 2,000 per second.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "HTTPS": 65}
TYPE_NAMES = {number: name for name, number in TYPES.items()}
_OPT = 41
_CLASS_IN = 1
_NSID = 3

NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
RCODE_NAMES = {
    0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN", 7: "YXRRSET",
    8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE",
}  # fmt: skip

_HEADER = struct.Struct("!HHHHHH")
_RECORD = struct.Struct("!HHIH")
_QR, _TC, _RD = 0x8000, 0x0200, 0x0100
# RFC 9715: what fits through every path without fragments.
EDNS_PAYLOAD = 1232


class WireError(ValueError):
    """Bytes that are not a DNS message we could have asked for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply says, as far as it matters here."""

    id: int
    rcode: int
    truncated: bool
    question: bytes  # name in lower case, type, class: compare with `question()`
    answers: tuple[tuple[int, bytes], ...]  # (type, data) of the answer section
    nsid: str = ""


def rcode_name(rcode: int) -> str:
    return RCODE_NAMES.get(rcode, f"RCODE{rcode}")


def encode_name(name: str) -> bytes:
    """Wire form of a host name; raises WireError when it cannot be one."""
    out = bytearray()
    stripped = name.rstrip(".")
    for label in stripped.split(".") if stripped else ():
        try:
            raw = label.encode("ascii")
        except UnicodeEncodeError:
            raise WireError(f"{name!r} is not ASCII; write international names in their xn-- form") from None
        if not 1 <= len(raw) <= 63:
            raise WireError(f"{name!r} has a label of {len(raw)} characters; 1 to 63 are possible")
        out.append(len(raw))
        out += raw
    out.append(0)
    if len(out) > 255:
        raise WireError(f"{name!r} is longer than a DNS name can be")
    return bytes(out)


def question(name: str, rtype: int) -> bytes:
    """The question section as it comes back in a reply, name in lower case (case is not significant)."""
    return encode_name(name.lower()) + struct.pack("!HH", rtype, _CLASS_IN)


def encode_query(query_id: int, name: str, rtype: int, nsid: bool = False) -> bytes:
    """A recursive query; with `nsid` it carries EDNS and asks the server for its name (RFC 5001)."""
    body = encode_name(name) + struct.pack("!HH", rtype, _CLASS_IN)
    opt = b"\x00" + _RECORD.pack(_OPT, EDNS_PAYLOAD, 0, 4) + struct.pack("!HH", _NSID, 0) if nsid else b""
    return _HEADER.pack(query_id, _RD, 1, 0, 0, 1 if nsid else 0) + body + opt


def with_id(query: bytes, query_id: int) -> bytes:
    """The same query under another id."""
    return query_id.to_bytes(2, "big") + query[2:]


def read_reply(data: bytes) -> Reply:
    """Parse a reply; raises WireError on anything malformed and on messages that are no replies."""
    if len(data) < 12:
        raise WireError("shorter than a DNS header")
    query_id, flags, questions, answers, authorities, additionals = _HEADER.unpack_from(data)
    if not flags & _QR:
        raise WireError("a query, not a reply")
    if questions != 1:
        # Some servers leave the question out of an error; it cannot be matched, so it is not ours to believe.
        raise WireError(f"{questions} questions instead of 1")
    end = _skip_name(data, 12)
    if end + 4 > len(data):
        raise WireError("question cut short")
    asked = data[12:end].lower() + data[end : end + 4]
    position = end + 4
    truncated = bool(flags & _TC)
    found: list[tuple[int, bytes]] = []
    nsid = ""
    if not truncated:  # the records of a truncated reply are not used, and may be cut anywhere
        for number in range(answers + authorities + additionals):
            position = _skip_name(data, position)
            if position + 10 > len(data):
                raise WireError("record cut short")
            rtype, _, _, length = _RECORD.unpack_from(data, position)
            position += 10
            if position + length > len(data):
                raise WireError("record data cut short")
            if number < answers:
                found.append((rtype, data[position : position + length]))
            elif rtype == _OPT:
                nsid = _nsid(data[position : position + length])
            position += length
    return Reply(query_id, flags & 0x0F, truncated, asked, tuple(found), nsid)


def text(data: bytes) -> str:
    """The character-strings of TXT data joined; undecodable bytes show as such."""
    out = bytearray()
    position = 0
    while position < len(data):
        length = data[position]
        out += data[position + 1 : position + 1 + length]
        position += 1 + length
    return out.decode("utf-8", "backslashreplace")


def encode_data(rtype: int, value: str) -> bytes:
    """Wire form of an expected answer: an address, or a TXT text of up to 255 bytes."""
    if rtype == TYPES["A"]:
        return ipaddress.IPv4Address(value).packed
    if rtype == TYPES["AAAA"]:
        return ipaddress.IPv6Address(value).packed
    if rtype == TYPES["TXT"] and len(value.encode()) <= 255:
        return bytes([len(value.encode())]) + value.encode()
    raise WireError(f"expected data can be given for A, AAAA and short TXT, not for {TYPE_NAMES.get(rtype, rtype)}")


def _nsid(options: bytes) -> str:
    position = 0
    while position + 4 <= len(options):
        code, length = struct.unpack_from("!HH", options, position)
        if code == _NSID:
            return options[position + 4 : position + 4 + length].decode("utf-8", "backslashreplace")
        position += 4 + length
    return ""


def _skip_name(data: bytes, position: int) -> int:
    """Offset behind the name at `position`. A compression pointer ends a name, so nothing can loop."""
    size = len(data)
    while position < size:
        length = data[position]
        if length == 0:
            return position + 1
        if length >= 0xC0:
            return position + 2
        if length > 63:
            raise WireError("unknown label type")
        position += 1 + length
    raise WireError("name cut short")
