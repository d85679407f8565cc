"""Just enough of the DNS wire format (RFC 1035) to ask one question and to believe, or not, what comes back.

Written by hand because importing a DNS library doubles the probe's memory; the tests hold it against dnspython.
Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

TXT = 16
A = 1
CLASS_IN = 1

NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
RCODE_NAMES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}

_HEADER = struct.Struct("!HHHHHH")
_RESPONSE, _RECURSION_DESIRED = 0x8000, 0x0100
_POINTER = 0xC0
# Labels in one name, RFC 1035: 255 octets hold at most 127; more means a loop of compression pointers.
_MAX_LABELS = 128


@dataclass(frozen=True)
class Reply:
    """A reply that belongs to its query: same id, same question. `texts` are the TXT strings of that very name."""

    rcode: int
    answers: int
    texts: tuple[str, ...]

    @property
    def rcode_name(self) -> str:
        return RCODE_NAMES.get(self.rcode, f"RCODE{self.rcode}")


def query(name: str, qtype: int, query_id: int) -> bytes:
    """One recursive question. `name` without final dot."""
    labels = b"".join(bytes((len(label),)) + label for label in name.encode("ascii").split(b"."))
    return _HEADER.pack(query_id, _RECURSION_DESIRED, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", qtype, CLASS_IN)


def parse_reply(data: bytes, name: str, qtype: int, query_id: int) -> Reply | None:
    """The reply to exactly that query, or None for anything else (another id, another question, no reply, garbage)."""
    try:
        return _parse(data, name.lower(), qtype, query_id)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _parse(data: bytes, name: str, qtype: int, query_id: int) -> Reply | None:
    received_id, flags, questions, answers, _, _ = _HEADER.unpack_from(data)
    if received_id != query_id or not flags & _RESPONSE or questions != 1:
        return None
    asked, position = _name(data, _HEADER.size)
    if asked != name or struct.unpack_from("!HH", data, position) != (qtype, CLASS_IN):
        return None
    position += 4
    texts: list[str] = []
    for _ in range(answers):
        owner, position = _name(data, position)
        kind, klass, _, length = struct.unpack_from("!HHIH", data, position)
        position += 10
        if position + length > len(data):
            return None
        if (kind, klass, owner) == (TXT, CLASS_IN, name):
            texts.append(_text(data[position : position + length]))
        position += length
    return Reply(flags & 0xF, answers, tuple(texts))


def _name(data: bytes, position: int) -> tuple[str, int]:
    """The name at `position` in lower case, and where what follows it begins. IndexError on nonsense."""
    labels: list[str] = []
    after = -1
    for _ in range(_MAX_LABELS):
        length = data[position]
        if length & _POINTER == _POINTER:
            after = position + 2 if after < 0 else after
            position = (length & ~_POINTER) << 8 | data[position + 1]
        elif length:
            label = data[position + 1 : position + 1 + length]
            if len(label) != length:
                raise IndexError
            labels.append(label.decode("latin-1").lower())
            position += 1 + length
        else:
            return ".".join(labels), position + 1 if after < 0 else after
    raise IndexError


def _text(rdata: bytes) -> str:
    """The character-strings of one TXT record, joined."""
    parts = []
    position = 0
    while position < len(rdata):
        length = rdata[position]
        parts.append(rdata[position + 1 : position + 1 + length])
        position += 1 + length
    return b"".join(parts).decode("latin-1")
