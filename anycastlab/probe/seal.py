"""The probes' shared key: every message between them bears a code that only who knows the key can make. Pure.

The key file has one key per line, 64 hexadecimal digits; the first one is the home's. Others are earlier keys that are
accepted, and used, until the Unix time that stands beside them:

    5f0c…
    91ab… until 1799999999

So while a new key goes from node to node, those that have it and those that do not hear each other: a message bears one
code per key of its sender, and is good if any of them is of a key of its reader.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field

KEY_BYTES = 32
# Keys in one file at most: the present one and those of deploys that were stopped half-way.
MOST_KEYS = 4
# Octets of a key file that are read; what is longer is none.
MOST_FILE = 1024
_CODE = 32  # hexadecimal digits of a code: 128 bits (RFC 2104 allows half of the hash)
_LINE = re.compile(r"([0-9a-f]{64})(?: until ([0-9]{1,12}))?")


class BadKeyFile(ValueError):  # noqa: N818  (a file that is bad, not an error of ours)
    """The text is no key file; the message says why, without any of its content."""


@dataclass(frozen=True)
class Key:
    """`until`: Unix time in seconds; None: without end."""

    secret: bytes = field(repr=False)
    until: int | None = None

    def line(self) -> str:
        return self.secret.hex() + ("" if self.until is None else f" until {self.until}")


def parse(text: str) -> tuple[Key, ...]:
    """The keys of a file, the home's first; raises BadKeyFile."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise BadKeyFile("it is empty")
    if len(lines) > MOST_KEYS:
        raise BadKeyFile(f"it has more than {MOST_KEYS} lines")
    keys = []
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise BadKeyFile(f"line {number} is no key")
        keys.append(Key(bytes.fromhex(found[1]), None if found[2] is None else int(found[2])))
    if keys[0].until is not None:
        raise BadKeyFile("its first key has an end")
    return tuple(keys)


def dump(keys: tuple[Key, ...]) -> str:
    """The file's text."""
    return "".join(f"{key.line()}\n" for key in keys)


def close(keys: tuple[Key, ...], payload: bytes, now: float) -> bytes:
    """The datagram: the codes of all keys that hold at Unix time `now`, a line break, the payload."""
    codes = b" ".join(_code(key, payload) for key in _holding(keys, now))
    return codes + b"\n" + payload


def open_(keys: tuple[Key, ...], datagram: bytes, now: float) -> bytes | None:
    """The payload of a datagram that bears the code of one of the keys, else None."""
    codes, separator, payload = datagram.partition(b"\n")
    if not separator or len(codes) > MOST_KEYS * (_CODE + 1):
        return None
    said = codes.split(b" ")
    good = False
    for key in _holding(keys, now):
        code = _code(key, payload)
        for other in said:
            good |= hmac.compare_digest(code, other)
    return payload if good else None


def _holding(keys: tuple[Key, ...], now: float) -> list[Key]:
    return [key for key in keys if key.until is None or now < key.until]


def _code(key: Key, payload: bytes) -> bytes:
    return hmac.new(key.secret, payload, hashlib.sha256).hexdigest()[:_CODE].encode()
