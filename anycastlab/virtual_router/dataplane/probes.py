"""The tests netwatch and ping make, as real packets from the router through its own forwarding table."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import cast

from anycastlab.virtual_router.dataplane import dns_wire as wire
from anycastlab.virtual_router.dataplane.netwatch import Entry
from anycastlab.virtual_router.dataplane.static_names import TYPES

DNS_PORT = 53
_ECHO = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
_PING_DATA = b"anycastlab" * 5

Tester = Callable[[Entry], Awaitable[bool]]
"""Runs one test of an entry; True is up."""


async def test(entry: Entry) -> bool:
    """The real `Tester`. What cannot be sent (no route, no such interface) is down."""
    try:
        match entry.kind:
            case "dns":
                return await dns(entry)
            case "tcp-conn":
                return await tcp(entry)
            case "icmp":
                answered = 0
                for _ in range(entry.packet_count):
                    answered += (await ping(entry.host, entry.timeout_s, entry.src_address)) is not None
                    await asyncio.sleep(entry.packet_interval_s)
                return answered > 0
            case _:
                return await ping(entry.host, entry.timeout_s, entry.src_address) is not None
    except (OSError, ValueError):
        return False


# --- DNS ----------------------------------------------------------------------------------------------------------


def dns_query(name: str, kind: int, query_id: bytes) -> bytes:
    """One question with recursion desired."""
    section = wire.encode_name(name) + struct.pack("!HH", kind, 1)
    return query_id + struct.pack("!HHHHH", 0x0100, 1, 0, 0, 0) + section


def dns_is_good(response: bytes, query: bytes) -> bool:
    """NOERROR with at least one answer record, for this question (names compare without case)."""
    section = query[wire.HEADER :]
    if len(response) < wire.HEADER or response[:2] != query[:2] or not response[2] & 0x80:
        return False
    if response[wire.HEADER : wire.HEADER + len(section)].lower() != section.lower():
        return False
    answers = struct.unpack_from("!H", response, 6)[0]
    return response[3] & 0xF == wire.NOERROR and answers > 0


class _Once(asyncio.DatagramProtocol):
    def __init__(self, query: bytes) -> None:
        self.query = query
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.DatagramTransport, transport).sendto(self.query)

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002
        if not self.done.done() and data[:2] == self.query[:2]:
            self.done.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(exc)


async def dns(entry: Entry, port: int = DNS_PORT) -> bool:
    """`type=dns`: asks `dns-server` for `host` (a name), over UDP from a fresh port. Raises OSError, ValueError."""
    server = str(ip_address(entry.dns_server or "127.0.0.1"))
    query = dns_query(entry.host, TYPES.get(entry.record_type, 1), random.randbytes(2))
    local = (entry.src_address, 0) if entry.src_address else None
    transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Once(query), remote_addr=(server, port), local_addr=local
    )
    try:
        async with asyncio.timeout(entry.timeout_s):
            return dns_is_good(await protocol.done, query)
    except TimeoutError:
        return False
    finally:
        transport.close()


# --- TCP ----------------------------------------------------------------------------------------------------------


async def tcp(entry: Entry) -> bool:
    """`type=tcp-conn`: the connection is accepted in time. Raises OSError."""
    try:
        async with asyncio.timeout(entry.timeout_s):
            _, writer = await asyncio.open_connection(entry.host, entry.port)
    except TimeoutError:
        return False
    writer.close()
    return True


# --- ICMP ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Echo:
    """One answered echo request."""

    seconds: float
    ttl: int | None


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


async def ping(host: str, timeout_s: float, source: str = "", data: bytes = _PING_DATA) -> Echo | None:
    """One echo request; None when nothing came back in time. Needs CAP_NET_RAW. Raises OSError, ValueError."""
    address = ip_address(host)
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    request, reply = _ECHO[family]
    identity = struct.pack("!HH", os.getpid() & 0xFFFF, random.getrandbits(16))
    data += bytes(len(data) % 2)
    header = struct.pack("!BBH", request, 0, 0)
    packet = header + identity + data
    if family == socket.AF_INET:
        packet = struct.pack("!BBH", request, 0, _checksum(packet)) + identity + data
    loop = asyncio.get_running_loop()
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        raw.setblocking(False)
        if source:
            raw.bind((source, 0))
        raw.connect((str(address), 0))
        started = time.monotonic()
        await loop.sock_sendall(raw, packet)
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    received = await loop.sock_recv(raw, 65535)
                    ttl = received[8] if family == socket.AF_INET else None
                    body = received[(received[0] & 0xF) * 4 :] if family == socket.AF_INET else received
                    if len(body) >= 8 and body[0] == reply and body[4:8] == identity:
                        return Echo(time.monotonic() - started, ttl)
        except TimeoutError:
            return None
