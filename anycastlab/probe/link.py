"""The service link, through rtnetlink (rtnetlink(7)): set it up or down, and hear at once when anybody else does.

One capability is needed, CAP_NET_ADMIN. No subprocess: a busy machine forks late.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable

from anycastlab.probe.loop import Loop

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
NLMSG_ERROR = 2
NLM_F_REQUEST, NLM_F_ACK = 1, 4
RTMGRP_LINK = 1
IFLA_IFNAME = 3
IFF_UP = 1

_MESSAGE = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change mask
_ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, type
_ERROR = struct.Struct("=i")
# A burst of interface changes (a container host) must fit, or the kernel drops events and says ENOBUFS.
_BUFFER = 256 * 1024
_MOST_READS = 64  # datagrams per turn of the loop


class Link:
    """Calls `seen(up)` with True, False, or None when there is no such link; `failed(text)` when an order failed, and
    with an empty text when the next one did not."""

    def __init__(
        self, loop: Loop, name: str, seen: Callable[[bool | None], None], failed: Callable[[str], None]
    ) -> None:
        self._name = name
        self._index = 0
        self._seen = seen
        self._failed = failed
        self._sequence = 0
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.bind((0, RTMGRP_LINK))
        self._orders: dict[int, str] = {}
        loop.on_readable(self._socket, self.read)
        self.refresh()

    def set(self, up: bool) -> None:
        """Order it; the result arrives through `seen` or `failed`."""
        flags = IFF_UP if up else 0
        self._send(RTM_NEWLINK, flags, IFF_UP, NLM_F_ACK, f"set {self._name} {'up' if up else 'down'}")

    def refresh(self) -> None:
        """Ask the kernel for the state (also a safeguard against lost events)."""
        self._send(RTM_GETLINK, 0, 0, 0, f"look at {self._name}")

    def read(self) -> None:
        for _ in range(_MOST_READS):
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:  # ENOBUFS: events were lost
                self.refresh()
                return
            self._take(data)

    def _send(self, kind: int, flags: int, change: int, request: int, text: str) -> None:
        self._sequence += 1
        self._orders[self._sequence] = text
        name = self._name.encode() + b"\0"
        attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(name), IFLA_IFNAME) + name + b"\0" * (-len(name) % 4)
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, flags, change) + attribute
        header = _MESSAGE.pack(_MESSAGE.size + len(body), kind, NLM_F_REQUEST | request, self._sequence, 0)
        try:
            self._socket.send(header + body)
        except OSError as error:
            self._failed(f"{text}: {error.strerror}")

    def _take(self, data: bytes) -> None:
        position = 0
        while position + _MESSAGE.size <= len(data):
            length, kind, _, sequence, _ = _MESSAGE.unpack_from(data, position)
            if length < _MESSAGE.size:
                return
            body = data[position + _MESSAGE.size : position + length]
            if kind == NLMSG_ERROR:
                self._acknowledged(sequence, -_ERROR.unpack_from(body)[0])
            elif kind in (RTM_NEWLINK, RTM_DELLINK):
                self._orders.pop(sequence, None)
                self._link_message(kind, body)
            position += (length + 3) & ~3

    def _acknowledged(self, sequence: int, code: int) -> None:
        text = self._orders.pop(sequence, "")
        if code == errno.ENODEV:
            self._seen(None)
        else:
            self._failed(f"{text}: {os.strerror(code)}" if code else "")

    def _link_message(self, kind: int, body: bytes) -> None:
        if len(body) < _LINK.size:
            return
        _, _, index, flags, _ = _LINK.unpack_from(body)
        if _name_of(body[_LINK.size :]) != self._name:
            if index == self._index and kind == RTM_NEWLINK:
                self._seen(None)  # renamed away
            return
        self._index = index
        self._seen(None if kind == RTM_DELLINK else bool(flags & IFF_UP))


def _name_of(attributes: bytes) -> str:
    position = 0
    while position + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, position)
        if length < _ATTRIBUTE.size:
            break
        if kind == IFLA_IFNAME:
            return attributes[position + _ATTRIBUTE.size : position + length].split(b"\0")[0].decode()
        position += (length + 3) & ~3
    return ""
