"""Tracked connections, over ctnetlink: list them as `/ip/firewall/connection` rows, remove single ones.

Netlink and not the `conntrack` program, because a flush of the service address removes thousands of entries while the
household waits: one socket does that in milliseconds, one process per entry takes seconds.
Message layout: linux/netfilter/nfnetlink_conntrack.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from anycastlab.virtual_router.dataplane.rows import duration

NETLINK_NETFILTER = 12
_SUBSYSTEM = 1 << 8  # NFNL_SUBSYS_CTNETLINK
_NEW, _GET, _DELETE = _SUBSYSTEM | 0, _SUBSYSTEM | 1, _SUBSYSTEM | 2
_ERROR, _DONE = 2, 3
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_NESTED, _TYPE_MASK = 0x8000, 0x3FFF
_ORIGIN, _REPLY, _STATUS, _PROTOINFO, _TIMEOUT, _ID = 1, 2, 3, 4, 7, 12
_BUFFER = 1 << 18

_SEEN_REPLY, _ASSURED, _CONFIRMED, _SRC_NAT, _DST_NAT, _DYING = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 9
_FLAGS = {
    "seen-reply": _SEEN_REPLY,
    "assured": _ASSURED,
    "confirmed": _CONFIRMED,
    "srcnat": _SRC_NAT,
    "dstnat": _DST_NAT,
    "dying": _DYING,
}
_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 47: "gre", 58: "ipv6-icmp", 132: "sctp"}
_TCP_STATES: tuple[str, ...] = (
    *("none", "syn-sent", "syn-received", "established", "fin-wait", "close-wait", "last-ack", "time-wait", "close"),
    "syn-sent2",
)


@dataclass(frozen=True)
class Tracked:
    """One entry. `tuple_bytes` is the original direction as the kernel wrote it; a removal names the entry by it."""

    id: int
    family: int
    tuple_bytes: bytes
    row: dict[str, str]

    @property
    def key(self) -> str:
        """The row's `.id`."""
        return f"*{self.id:X}"


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & _TYPE_MASK, data[at + 4 : at + length]
        at += (length + 3) & ~3


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def _address(packed: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


@lru_cache(maxsize=1024)
def _timeout(seconds: int) -> str:
    return duration(seconds)


@dataclass(frozen=True)
class _Side:
    source: str
    target: str
    protocol: int
    source_port: int | None
    target_port: int | None

    @classmethod
    def parse(cls, data: bytes) -> _Side:
        source = target = ""
        protocol, ports = 0, {}
        for kind, value in _attributes(data):
            for inner, content in _attributes(value):
                if kind == 1 and inner in (1, 3):
                    source = _address(content)
                elif kind == 1 and inner in (2, 4):
                    target = _address(content)
                elif kind == 2 and inner == 1:
                    protocol = content[0]
                elif kind == 2 and inner in (2, 3):
                    ports[inner] = struct.unpack("!H", content[:2])[0]
        return cls(source, target, protocol, ports.get(2), ports.get(3))

    def rows(self, prefix: str = "") -> dict[str, str]:
        """Addresses and ports, as recent versions print them."""
        return {
            f"{prefix}{name}": str(value)
            for name, value in (
                ("src-address", self.source),
                ("src-port", self.source_port),
                ("dst-address", self.target),
                ("dst-port", self.target_port),
            )
            if value is not None
        }


def joined(row: Mapping[str, str]) -> dict[str, str]:
    """A row as older versions print it: `dst-address=10.1.9.53:53`."""
    out = {}
    for name, value in row.items():
        port = row.get(name.removesuffix("address") + "port") if name.endswith("-address") else None
        if port is not None:
            out[name] = f"[{value}]:{port}" if ":" in value else f"{value}:{port}"
        elif not name.endswith("-port"):
            out[name] = value
    return out


def parse(payload: bytes) -> Tracked | None:
    """One entry from a message's payload (nfgenmsg and attributes); None when it lacks an id or a tuple."""
    family = payload[0]
    fields = dict(_attributes(payload[4:]))
    if _ORIGIN not in fields or _REPLY not in fields or _ID not in fields:
        return None
    origin, reply = _Side.parse(fields[_ORIGIN]), _Side.parse(fields[_REPLY])
    status = struct.unpack("!I", fields.get(_STATUS, bytes(4)))[0]
    row = {
        "protocol": _PROTOCOLS.get(origin.protocol, str(origin.protocol)),
        **origin.rows(),
        **reply.rows("reply-"),
        "timeout": _timeout(struct.unpack("!I", fields.get(_TIMEOUT, bytes(4)))[0]),
        **{name: "true" if status & bit else "false" for name, bit in _FLAGS.items()},
    }
    if origin.protocol == socket.IPPROTO_TCP:
        state = _tcp_state(fields.get(_PROTOINFO, b""))
        if state:
            row["tcp-state"] = state
    return Tracked(struct.unpack("!I", fields[_ID])[0], family, fields[_ORIGIN], row)


def _tcp_state(protoinfo: bytes) -> str:
    for _, tcp in _attributes(protoinfo):
        for kind, value in _attributes(tcp):
            if kind == 1 and value and value[0] < len(_TCP_STATES):
                return _TCP_STATES[value[0]]
    return ""


class Conntrack:
    """The tracking table of the network namespace we are in. Needs CAP_NET_ADMIN; raises OSError without it."""

    def __init__(self) -> None:
        self._sequence = 0

    def _open(self) -> socket.socket:
        link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
        link.bind((0, 0))
        return link

    def _message(self, kind: int, flags: int, family: int, body: bytes = b"") -> bytes:
        self._sequence += 1
        payload = struct.pack("=BBH", family, 0, 0) + body
        return struct.pack("=IHHII", 16 + len(payload), kind, flags, self._sequence, 0) + payload

    def entries(self, family: int = socket.AF_INET) -> list[Tracked]:
        """All entries of one address family."""
        found: list[Tracked] = []
        with self._open() as link:
            link.send(self._message(_GET, _REQUEST | _DUMP, family))
            while True:
                for kind, payload in _messages(link.recv(_BUFFER)):
                    if kind == _DONE:
                        return found
                    if kind == _ERROR:
                        _raise(payload)
                    elif kind == _NEW and (entry := parse(payload)) is not None:
                        found.append(entry)

    def remove(self, entries: Iterable[Tracked]) -> list[bool]:
        """Removes each; False for one that was gone already. The id is checked by the kernel, so a successor of the
        same addresses and ports is safe."""
        results: list[bool] = []
        with self._open() as link:
            for entry in entries:
                body = _attribute(_ORIGIN | _NESTED, entry.tuple_bytes) + _attribute(_ID, struct.pack("!I", entry.id))
                link.send(self._message(_DELETE, _REQUEST | _ACK, entry.family, body))
                results.append(_acknowledged(link))
        return results


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if length < 16:
            return
        yield kind, data[at + 16 : at + length]
        at += (length + 3) & ~3


def _acknowledged(link: socket.socket) -> bool:
    for kind, payload in _messages(link.recv(_BUFFER)):
        if kind == _ERROR:
            code = -struct.unpack_from("=i", payload)[0]
            if code == errno.ENOENT:
                return False
            if code:
                raise OSError(code, os.strerror(code))
    return True


def _raise(payload: bytes) -> None:
    code = -struct.unpack_from("=i", payload)[0]
    if code:
        raise OSError(code, os.strerror(code))
