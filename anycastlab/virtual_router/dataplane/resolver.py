"""The router's own DNS: static names, a cache, everything else asked upstream; UDP and TCP.

It is our own and not unbound with a generated file, because a changed static row must count at once and without a
restart's lost questions: `configure` swaps one reference. It runs on an event loop in a thread of its own, so a long
print over the API does not delay an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, cast

from anycastlab.virtual_router.dataplane import dns_wire as wire
from anycastlab.virtual_router.dataplane import timing
from anycastlab.virtual_router.dataplane.api import Row, Snapshot
from anycastlab.virtual_router.dataplane.dns_cache import Cache
from anycastlab.virtual_router.dataplane.dns_sockets import ANCILLARY_BYTES, Ancillary, reply_source, udp_socket
from anycastlab.virtual_router.dataplane.rows import items, seconds, singleton, truth
from anycastlab.virtual_router.dataplane.static_names import Reply, StaticNames, soa_for_denial

PORT = 53
_BATCH = 64
"""Questions read from a socket before other work gets its turn."""


@dataclass(frozen=True)
class Settings:
    """/ip/dns and /ip/dns/static, understood."""

    names: StaticNames = field(default_factory=StaticNames)
    servers: tuple[str, ...] = ()
    remote: bool = False
    """`allow-remote-requests`: without it nobody but the router itself is answered."""
    server_timeout_s: float = timing.QUERY_SERVER_TIMEOUT_S
    total_timeout_s: float = timing.QUERY_TOTAL_TIMEOUT_S
    max_ttl_s: int = timing.CACHE_MAX_TTL_S
    max_udp: int = wire.OUR_UDP

    @classmethod
    def of(cls, snapshot: Snapshot, default_servers: tuple[str, ...] = ()) -> Settings:
        row: Row = singleton(snapshot, "/ip/dns")
        own = tuple(items(row.get("servers"))) + tuple(items(row.get("dynamic-servers")))
        if row.get("use-doh-server"):
            own = default_servers = ()  # DoH replaces the servers; none answers here, so only static names do
        return cls(
            names=StaticNames.compile(snapshot.get("/ip/dns/static", ())),
            servers=own or default_servers,
            remote=truth(row, "allow-remote-requests"),
            server_timeout_s=seconds(row.get("query-server-timeout"), timing.QUERY_SERVER_TIMEOUT_S),
            total_timeout_s=seconds(row.get("query-total-timeout"), timing.QUERY_TOTAL_TIMEOUT_S),
            max_ttl_s=int(seconds(row.get("cache-max-ttl"), timing.CACHE_MAX_TTL_S)),
            max_udp=int(row.get("max-udp-packet-size") or 4096),
        )


@dataclass
class Counts:
    """Since the start."""

    static: int = 0
    cached: int = 0
    forwarded: int = 0
    failed: int = 0


class _Upstream(asyncio.DatagramProtocol):
    """One question to one server from one fresh port."""

    def __init__(self, query: bytes, accept: Callable[[bytes], bool]) -> None:
        self.query = query
        self.accept = accept
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.DatagramTransport, transport).sendto(self.query)

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002
        if not self.done.done() and data[:2] == self.query[:2] and self.accept(data):
            self.done.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(exc)


@lru_cache(maxsize=4096)
def _soa(zone: str) -> bytes:
    return soa_for_denial(zone)


class Resolver:
    """Answers on UDP and TCP. Use `start`, `configure`, `stop`; all of them may be called from another thread."""

    def __init__(self, port: int = PORT, listen4: str = "0.0.0.0", listen6: str | None = "::") -> None:
        self.port = port
        self.listen4, self.listen6 = listen4, listen6
        self.settings = Settings()
        self.counts = Counts()
        self.cache = Cache(time.monotonic)
        self.upstream_port = PORT
        self._good: str = ""
        self._waiting: dict[tuple[object, ...], asyncio.Task[wire.Answer | None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._bound: tuple[str, ...] = ()

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread; nothing listens before `configure`."""
        ready = threading.Event()

        def main() -> None:
            loop = asyncio.new_event_loop()
            self._loop = loop
            loop.call_soon(ready.set)
            loop.run_forever()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

        self._thread = threading.Thread(target=main, name="resolver", daemon=True)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._rebind(()), self._loop).result(timing.COMMAND_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timing.COMMAND_TIMEOUT_S)
        self._loop = self._thread = None

    async def configure(self, settings: Settings) -> None:
        """Takes effect for the next question. Raises OSError when the port is taken."""
        assert self._loop is not None
        if settings.servers != self.settings.servers:
            self.cache.clear()
        self.settings = settings
        local = ("127.0.0.1", "::1" if self.listen6 else "")
        everywhere = (self.listen4, self.listen6 or "")
        wanted = tuple(address for address in (everywhere if settings.remote else local) if address)
        if wanted != self._bound:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._rebind(wanted), self._loop))

    def flush(self) -> None:
        """`/ip/dns/cache/flush`"""
        self.cache.clear()

    async def _rebind(self, addresses: tuple[str, ...]) -> None:
        loop = asyncio.get_running_loop()
        for old in self._sockets:
            loop.remove_reader(old.fileno())
            old.close()
        for server in self._servers:
            server.close()
        self._sockets, self._servers, self._bound = [], [], ()
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            udp = udp_socket(family, address, self.port)
            if self.port == 0:
                self.port = udp.getsockname()[1]
            self._sockets.append(udp)
            loop.add_reader(udp.fileno(), self._readable, udp)
            tcp = socket.socket(family, socket.SOCK_STREAM)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                tcp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            tcp.bind((address, self.port))
            self._servers.append(await asyncio.start_server(self._serve_tcp, sock=tcp))
        self._bound = addresses

    # --- UDP ----------------------------------------------------------------------------------------------------

    def _readable(self, udp: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                data, ancillary, _, client = udp.recvmsg(65535, ANCILLARY_BYTES)
            except (BlockingIOError, OSError):
                return
            source = reply_source(ancillary)
            try:
                question = wire.parse(data)
                ready = self._immediate(question)
            except wire.Malformed:
                self._send(udp, wire.malformed_response(data), source, client, None)
                continue
            if ready is not None:
                self._send(udp, ready, source, client, question)
            elif len(self._tasks) < timing.MAX_CONCURRENT_QUERIES:
                self._spawn(self._later(udp, data, question, source, client))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(
        self,
        udp: socket.socket,
        data: bytes,
        question: wire.Question,
        source: Ancillary,
        client: Any,
    ) -> None:
        self._send(udp, await self._upstream_answer(question, data, tcp=False), source, client, question)

    def _send(
        self,
        udp: socket.socket,
        data: bytes | None,
        source: Ancillary,
        client: Any,
        question: wire.Question | None,
    ) -> None:
        if data is None:
            return
        if question is not None and len(data) > min(question.udp_size, self.settings.max_udp):
            data = wire.truncate(question, data)
        with contextlib.suppress(OSError):  # as on any wire: what cannot be sent is lost
            udp.sendmsg([data], source, 0, client)

    # --- TCP ----------------------------------------------------------------------------------------------------

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                async with asyncio.timeout(timing.TCP_IDLE_S):
                    length = struct.unpack("!H", await reader.readexactly(2))[0]
                    data = await reader.readexactly(length)
                try:
                    question = wire.parse(data)
                except wire.Malformed:
                    answer = wire.malformed_response(data)
                else:
                    answer = self._immediate(question) or await self._upstream_answer(question, data, tcp=True)
                if answer is None:
                    return
                writer.write(struct.pack("!H", len(answer)) + answer)
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            return
        finally:
            writer.close()

    # --- answers ------------------------------------------------------------------------------------------------

    def _immediate(self, question: wire.Question) -> bytes | None:
        """An answer from rows or cache; None when an upstream must be asked."""
        if question.flags & 0x7800:
            return wire.respond(question, wire.NOTIMP)
        if question.klass != 1:
            return wire.respond(question, wire.REFUSED)
        reply = self.settings.names.lookup(question.name, question.type)
        if reply is not None and not reply.forward_to:
            self.counts.static += 1
            return _static_response(question, reply)
        cached = self.cache.get(question)
        if cached is not None:
            self.counts.cached += 1
        return cached

    async def _upstream_answer(self, question: wire.Question, data: bytes, tcp: bool) -> bytes:
        """Asks once for everybody who waits for the same."""
        key = (*question.key, tcp)
        task = self._waiting.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(question, data, tcp))
            self._waiting[key] = task
            task.add_done_callback(lambda _: self._waiting.pop(key, None))
        answer = await asyncio.shield(task)
        if answer is None:
            self.counts.failed += 1
            return wire.respond(question, wire.SERVFAIL)
        return wire.reuse(answer, question, 0)

    async def _ask(self, question: wire.Question, data: bytes, tcp: bool) -> wire.Answer | None:
        settings = self.settings
        reply = settings.names.lookup(question.name, question.type)
        servers = list(reply.forward_to if reply and reply.forward_to else settings.servers)
        # The server that answered last is asked first.
        servers.sort(key=lambda server: server != self._good)
        self.counts.forwarded += 1
        query = random.randbytes(2) + data[2:]
        deadline = time.monotonic() + settings.total_timeout_s
        for server in servers:
            left = min(settings.server_timeout_s, deadline - time.monotonic())
            if left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    received = await (self._ask_tcp if tcp else self._ask_udp)(server, query, question)
                answer = wire.read_answer(
                    received, question, timing.NEGATIVE_TTL_S, timing.SERVFAIL_TTL_S, settings.max_ttl_s
                )
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
                continue
            self._good = server
            self.cache.put(question, answer)
            return answer
        return None

    async def _ask_udp(self, server: str, query: bytes, question: wire.Question) -> bytes:
        host = str(ip_address(server))

        def accept(data: bytes) -> bool:
            return data[wire.HEADER : wire.HEADER + len(question.section)].lower() == question.section.lower()

        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Upstream(query, accept), remote_addr=(host, self.upstream_port)
        )
        try:
            return await protocol.done
        finally:
            transport.close()

    async def _ask_tcp(self, server: str, query: bytes, question: wire.Question) -> bytes:  # noqa: ARG002
        reader, writer = await asyncio.open_connection(str(ip_address(server)), self.upstream_port)
        try:
            writer.write(struct.pack("!H", len(query)) + query)
            return await reader.readexactly(struct.unpack("!H", await reader.readexactly(2))[0])
        finally:
            writer.close()


def _static_response(question: wire.Question, reply: Reply) -> bytes:
    answers = tuple(
        wire.record(record.type, record.ttl, record.data)
        if owner == question.name
        else wire.record(record.type, record.ttl, record.data, wire.encode_name(owner))
        for owner, record in reply.records
    )
    return wire.respond(question, reply.rcode, answers, () if answers else (_soa(reply.zone),))
