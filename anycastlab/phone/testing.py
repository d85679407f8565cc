"""Doubles for tests: a network that exists in memory with a clock that jumps, and a small real DNS server.

Both answer with a function of the test, so that every loss is known and every count can be demanded exactly.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from anycastlab.phone.network import Conversation, Event
from anycastlab.phone.servers import Server, Transport

MS = 1_000_000


@dataclass(frozen=True)
class Answer:
    """What a server sends back after `delay_ms`: bytes, or an error of the system in their place."""

    message: bytes = b""
    delay_ms: float = 1.0
    error: int = 0


@dataclass(frozen=True)
class Request:
    """A query as the server sees it."""

    wire: bytes
    transport: str
    server: str = ""
    at_ns: int = 0
    flow: int = 0

    @cached_property
    def message(self) -> dns.message.Message:
        return dns.message.from_wire(self.wire)

    @property
    def name(self) -> str:
        return self.message.question[0].name.to_text(omit_final_dot=True)

    def reply(self, data: str | None = "192.0.2.1", rcode: int = 0, truncated: bool = False) -> bytes:
        """A reply in wire form; `data` None leaves the answer section empty."""
        message = dns.message.make_response(self.message, recursion_available=True)
        message.set_rcode(dns.rcode.Rcode(rcode))
        question = self.message.question[0]
        if data is not None:
            message.answer.append(dns.rrset.from_text(question.name, 60, question.rdclass, question.rdtype, data))
        if truncated:
            message.flags |= dns.flags.TC
        return message.to_wire()


Handler = Callable[[Request], Iterable[Answer]]


@dataclass(eq=False)
class MemoryFlow:
    """A flow of the network in memory."""

    server: Server
    transport: Transport
    number: int
    pending: dict[int, Any] = field(default_factory=dict)
    owner: Any = None
    open: bool = True


class MemoryNetwork:
    """Time passes only in `wait`, `oversleep_ns` longer than asked for. `refuse` makes sends or opens fail."""

    def __init__(self, handler: Handler, oversleep_ns: int = 0) -> None:
        self.time_ns = 1_000_000_000
        self.oversleep_ns = oversleep_ns
        self.still_open = 0
        self.most_open = 0
        self.opened: list[MemoryFlow] = []
        self.requests: list[Request] = []
        self.at: list[tuple[int, Callable[[], None]]] = []  # things a test wants done at a time
        self.refuse: Callable[[int], int] = lambda _number: 0  # errno for the flow with that number
        self._handler = handler
        self._queue: list[tuple[int, int, MemoryFlow, Answer]] = []
        self._sequence = 0

    def now(self) -> int:
        return self.time_ns

    def open(self, server: Server, transport: Transport) -> MemoryFlow:
        number = len(self.opened)
        if code := self.refuse(number):
            self.opened.append(MemoryFlow(server, transport, number, open=False))
            raise OSError(code, errno.errorcode[code])
        flow = MemoryFlow(server, transport, number)
        self.opened.append(flow)
        self.still_open += 1
        self.most_open = max(self.most_open, self.still_open)
        return flow

    def send(self, flow: Conversation, message: bytes) -> None:
        assert isinstance(flow, MemoryFlow)
        assert flow.open, "sent on a closed flow"
        request = Request(message, flow.transport.value, str(flow.server), self.time_ns, flow.number)
        self.requests.append(request)
        for answer in self._handler(request):
            self._sequence += 1
            at_ns = self.time_ns + round(answer.delay_ms * MS)
            heapq.heappush(self._queue, (at_ns, self._sequence, flow, answer))

    def close(self, flow: Conversation) -> None:
        assert isinstance(flow, MemoryFlow)
        self.still_open -= flow.open
        flow.open = False

    def wait(self, until_ns: int) -> list[Event]:
        target = max(self.time_ns, until_ns + self.oversleep_ns if until_ns > self.time_ns else until_ns)
        if self._queue and self._queue[0][0] <= target:
            target = max(self.time_ns, self._queue[0][0])
        if self.at and self.at[0][0] <= target:
            at_ns, action = self.at.pop(0)
            self.time_ns = max(self.time_ns, at_ns)
            action()
            return []
        self.time_ns = target
        events = []
        while self._queue and self._queue[0][0] <= self.time_ns:
            _, _, flow, answer = heapq.heappop(self._queue)
            if flow.open:
                error = OSError(answer.error, errno.errorcode[answer.error]) if answer.error else None
                events.append(Event(flow, self.time_ns, () if error else (answer.message,), error))
        return events


class DnsServer:
    """A real DNS server on a free port of 127.0.0.1: UDP and TCP, or TLS. Override `handle`, or pass a function."""

    def __init__(self, handler: Handler | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.port = 0
        self._handler = handler
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, request: Request) -> Iterable[Answer]:
        """Answers to one query."""
        return self._handler(request) if self._handler else [Answer(request.reply())]

    def __enter__(self) -> DnsServer:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the DNS server of the test did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def address(self) -> str:
        """As the phone's `--server` wants it."""
        return f"127.0.0.1@{self.port}"

    def answers(self, wire: bytes, transport: str) -> list[Answer]:
        request = Request(wire, transport, at_ns=time.monotonic_ns())
        self.requests.append(request)
        return list(self.handle(request))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        closing = self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        for close in closing:
            close()
        for task in self._tasks:
            task.cancel()
        # Sockets close in callbacks; each of them needs a turn of the loop.
        self._loop.run_until_complete(asyncio.gather(*self._tasks, asyncio.sleep(0.05), return_exceptions=True))
        self._loop.close()

    async def _listen(self) -> list[Callable[[], None]]:
        stream = await asyncio.start_server(self._connection, "127.0.0.1", 0, ssl=self._tls)
        self.port = stream.sockets[0].getsockname()[1]
        udp, _ = await self._loop.create_datagram_endpoint(lambda: _Udp(self), local_addr=("127.0.0.1", self.port))
        return [stream.close, udp.close]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(2), "big")
                for answer in self.answers(await reader.readexactly(length), "tls" if self._tls else "tcp"):
                    if answer.error:
                        return
                    framed = len(answer.message).to_bytes(2, "big") + answer.message
                    self._loop.call_later(answer.delay_ms / 1000, _write, writer, framed)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # asyncio's own class does not derive from it

    def datagram_received(self, data: bytes, peer: tuple[str, int]) -> None:
        assert self._transport is not None
        for answer in self._server.answers(data, "udp"):
            asyncio.get_running_loop().call_later(answer.delay_ms / 1000, self._transport.sendto, answer.message, peer)
