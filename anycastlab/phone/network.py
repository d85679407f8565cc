"""The phone's only contact with time and sockets: open and close flows, send, and wait until something happens.

The sender knows the `Network` protocol alone, so tests run whole hours against a network that exists in memory, with
a clock that jumps.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any, Protocol

from anycastlab.phone.errors import PhoneError
from anycastlab.phone.flows import Flow, TcpFlow, TlsFlow, UdpFlow, tls_context
from anycastlab.phone.servers import Server, Transport
from anycastlab.phone.timer import Timer

_EVENTS_PER_TURN = 64


class Conversation(Protocol):
    """What the sender needs to know of a flow."""

    pending: dict[int, Any]
    owner: Any
    server: Server
    transport: Transport


@dataclass(frozen=True, slots=True)
class Event:
    """Something arrived on a flow: messages, or the error that ended it."""

    flow: Conversation
    at_ns: int
    messages: tuple[bytes, ...] = ()
    error: OSError | None = None


class Network(Protocol):
    """Time and sockets."""

    def now(self) -> int:
        """Nanoseconds on the run's one clock."""
        ...

    def open(self, server: Server, transport: Transport) -> Conversation:
        """A new flow from a fresh port; raises OSError."""
        ...

    def send(self, flow: Conversation, message: bytes) -> None:
        """Raises OSError when the message cannot leave."""
        ...

    def close(self, flow: Conversation) -> None: ...

    def wait(self, until_ns: int) -> list[Event]:
        """Sleep until that time, an event, or `interrupt`; whichever is first."""
        ...


class SocketNetwork:
    """The real one: epoll and a timerfd on CLOCK_MONOTONIC."""

    def __init__(self, tls_name: str | None = None) -> None:
        self._epoll = select.epoll()
        self._timer = Timer()
        self._armed_ns = 0
        self._flows: dict[int, Flow] = {}
        self._tls_name = tls_name
        self._tls: ssl.SSLContext | None = None
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._epoll.register(self._timer.fd, select.EPOLLIN)
        self._epoll.register(self._wake_read.fileno(), select.EPOLLIN)
        self.now = time.monotonic_ns

    def prepare(self, transport: Transport) -> None:
        """Do what is slow (loading certificates) before the first query; raises PhoneError for an impossible name."""
        if transport is Transport.DOT:
            self._tls = tls_context(self._tls_name)
            try:
                self._tls.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=self._tls_name)
            except ValueError as error:
                raise PhoneError(f"--tls-name {self._tls_name!r} is not a name: {error}.") from None

    def interrupt(self) -> None:
        """Make `wait` return now; safe in a signal handler."""
        with contextlib.suppress(BlockingIOError):
            self._wake_write.send(b"!")

    def open(self, server: Server, transport: Transport) -> Flow:
        flow: Flow
        if transport is Transport.UDP:
            flow = UdpFlow(server)
        elif transport is Transport.TCP:
            flow = TcpFlow(server)
        else:
            if self._tls is None:
                self._tls = tls_context(self._tls_name)
            flow = TlsFlow(server, self._tls, self._tls_name)
        self._epoll.register(flow.fd, flow.events)
        self._flows[flow.fd] = flow
        return flow

    def send(self, flow: Conversation, message: bytes) -> None:
        assert isinstance(flow, Flow)
        watched = flow.events
        flow.send(message)
        if flow.events != watched:
            self._epoll.modify(flow.fd, flow.events)

    def close(self, flow: Conversation) -> None:
        assert isinstance(flow, Flow)
        # Not by number alone: a closed flow's descriptor may belong to another one by now.
        if self._flows.get(flow.fd) is flow:
            del self._flows[flow.fd]
            flow.close()  # which also takes it out of epoll

    def wait(self, until_ns: int) -> list[Event]:
        timeout = 0
        if until_ns > self.now():
            timeout = -1
            if until_ns != self._armed_ns:
                self._timer.set(until_ns)
                self._armed_ns = until_ns
        events = []
        for fd, _ in self._epoll.poll(timeout, _EVENTS_PER_TURN):
            if flow := self._flows.get(fd):
                events.append(self._read(flow))
            elif fd == self._timer.fd:
                self._timer.clear()
                self._armed_ns = 0
            else:
                self._wake_read.recv(4096)
        return events

    def shut(self) -> None:
        """Close everything."""
        for flow in list(self._flows.values()):
            self.close(flow)
        self._epoll.close()
        self._timer.close()
        self._wake_read.close()
        self._wake_write.close()

    def _read(self, flow: Flow) -> Event:
        watched = flow.events
        try:
            messages = flow.receive()
        except OSError as error:  # ssl.SSLError is one
            return Event(flow, self.now(), error=error)
        if flow.events != watched:
            self._epoll.modify(flow.fd, flow.events)
        return Event(flow, self.now(), tuple(messages))


def raise_fd_limit(needed: int) -> int:
    """Lift this process's soft limit of open files to what is needed and allowed; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return needed if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def ephemeral_ports() -> int:
    """How many local ports the kernel hands out by itself."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            low, high = (int(word) for word in file.read().split())
    except (OSError, ValueError):
        return 28232  # Linux' default
    return high - low + 1


def read_wall_clock(tries: int = 5) -> tuple[int, int]:
    """(monotonic, epoch) nanoseconds of one moment: of a few pairs, the one read in the shortest time."""
    best: tuple[int, int, int] | None = None
    for _ in range(tries):
        before = time.monotonic_ns()
        epoch = time.time_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2, epoch)
    assert best is not None
    return best[1], best[2]


def machine() -> dict[str, str]:
    """Where a run was made."""
    system = os.uname()
    return {"host": system.nodename, "kernel": system.release, "machine": system.machine, "cpus": str(os.cpu_count())}
