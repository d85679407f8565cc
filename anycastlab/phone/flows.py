"""Non-blocking conversations with one server: a connected UDP socket, a TCP connection, a TLS connection.

A flow is one local port. It carries whole DNS messages; framing and the TLS handshake happen inside. `pending` belongs
to the sender: what it waits for on this flow, by query id.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import struct
from typing import Any

from anycastlab.phone import limits
from anycastlab.phone.servers import Server, Transport

_IN, _INOUT = select.EPOLLIN, select.EPOLLIN | select.EPOLLOUT
_TCP_READ = 65536


class ConnectionClosedError(OSError):
    """The other side closed the connection in good order."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "connection closed by the server")


class Flow:
    """Common part; `events` is what epoll should watch for."""

    transport: Transport
    events: int = _IN

    def __init__(self, server: Server, kind: socket.SocketKind) -> None:
        self.server = server
        family = socket.AF_INET6 if server.is_ipv6 else socket.AF_INET
        self.socket = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self.fd = self.socket.fileno()
        self.pending: dict[int, Any] = {}
        self.owner: Any = None

    def send(self, message: bytes) -> None:
        """Send or queue one message; raises OSError."""
        raise NotImplementedError

    def receive(self) -> list[bytes]:
        """Every whole message there is now; raises OSError when no more will come (UDP: for one ICMP error)."""
        raise NotImplementedError

    def close(self) -> None:
        self.socket.close()


class UdpFlow(Flow):
    """Connected, so that only the server's packets arrive and ICMP errors are reported."""

    transport = Transport.UDP

    def __init__(self, server: Server) -> None:
        super().__init__(server, socket.SOCK_DGRAM)
        try:
            self.socket.connect((server.address, server.port))
        except OSError:
            self.socket.close()
            raise

    def send(self, message: bytes) -> None:
        try:
            self.socket.send(message)
        except ConnectionRefusedError:
            # The report of an earlier packet, delivered now; this one has not been sent yet.
            self.socket.send(message)

    def receive(self) -> list[bytes]:
        messages: list[bytes] = []
        try:
            while len(messages) < limits.READS_PER_TURN:
                messages.append(self.socket.recv(limits.MAX_MESSAGE))
        except BlockingIOError:
            pass
        except OSError:
            if not messages:
                raise
        return messages


class TcpFlow(Flow):
    """Messages with a length in front (RFC 1035 4.2.2), pipelined (RFC 7766)."""

    transport = Transport.TCP

    def __init__(self, server: Server) -> None:
        super().__init__(server, socket.SOCK_STREAM)
        self.events = _INOUT
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        result = self.socket.connect_ex((server.address, server.port))
        if result not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise OSError(result, "connect failed")

    def send(self, message: bytes) -> None:
        self._write(struct.pack("!H", len(message)) + message)

    def receive(self) -> list[bytes]:
        self._flush()
        closed: OSError | None = None
        try:
            while chunk := self.socket.recv(_TCP_READ):
                self._take(chunk)
            closed = ConnectionClosedError()
        except BlockingIOError:
            pass
        except OSError as error:
            closed = error
        messages = self._messages()
        if closed and not messages:
            raise closed
        return messages

    def _write(self, data: bytes) -> None:
        self._outgoing += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                sent = self.socket.send(self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # still connecting
                raise
        self.events = _INOUT if self._outgoing else _IN

    def _take(self, chunk: bytes) -> None:
        self._incoming += chunk

    def _messages(self) -> list[bytes]:
        messages = []
        while len(self._incoming) >= 2:
            end = 2 + int.from_bytes(self._incoming[:2], "big")
            if len(self._incoming) < end:
                break
            messages.append(bytes(self._incoming[2:end]))
            del self._incoming[:end]
        return messages


class TlsFlow(TcpFlow):
    """TLS over the TCP flow. Queries wait until the handshake is done."""

    transport = Transport.DOT

    def __init__(self, server: Server, context: ssl.SSLContext, name: str | None) -> None:
        super().__init__(server)
        self._from_net, self._to_net = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_net, self._to_net, server_hostname=name)
        self._ready = False
        self._waiting = bytearray()
        self._advance()

    def send(self, message: bytes) -> None:
        self._waiting += struct.pack("!H", len(message)) + message
        self._advance()

    def _take(self, chunk: bytes) -> None:
        self._from_net.write(chunk)
        self._advance()
        while self._ready:
            try:
                plain = self._tls.read(_TCP_READ)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                break
            if not plain:
                break
            self._incoming += plain

    def _advance(self) -> None:
        try:
            if not self._ready:
                self._tls.do_handshake()
                self._ready = True
            if self._waiting:
                self._tls.write(self._waiting)
                self._waiting.clear()
        except ssl.SSLWantReadError:
            pass
        finally:
            if self._to_net.pending:
                self._write(self._to_net.read())


def tls_context(name: str | None) -> ssl.SSLContext:
    """With a name, the certificate must be valid for it; without, any is taken (RFC 7858's opportunistic profile)."""
    context = ssl.create_default_context()
    if name is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
