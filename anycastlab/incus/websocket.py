"""The little of RFC 6455 that a stream of bytes over a local socket needs.

pylxd's client is built on callbacks and a polling manager thread; that costs a tenth of a second per command.
"""

from __future__ import annotations

import base64
import secrets
import select
import socket
import struct

from . import limits

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FIN = 0x80
_MASKED = 0x80
# Masking protects proxies on the way from scripts in browsers. There is neither here, and XOR with zero costs nothing.
_NO_MASK = b"\0\0\0\0"
_CHUNK_BYTES = 1 << 16


class WebSocket:
    """One connection. `receive` gives the payload of data frames as they come; b"" is the end."""

    def __init__(self, path: str, resource: str) -> None:
        self._buffer = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(limits.CONNECT_TIMEOUT_S)
            self._socket.connect(path)
            self._handshake(resource)
            self._socket.settimeout(None)
        except BaseException:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        self._send_frame(_BINARY, data)

    def wait_readable(self, timeout_s: float) -> bool:
        """Whether something is there to `receive` within this time."""
        if self._buffer:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def receive(self) -> bytes | None:
        """The next frame's payload; b"" at the end of the conversation, None for a frame that only keeps it alive."""
        try:
            first, second = self._read_exactly(2)
            operation, length = first & 0x0F, second & 0x7F
            if length >= 126:
                length = int.from_bytes(self._read_exactly(2 if length == 126 else 8), "big")
            payload = self._read_exactly(length)
        except EOFError:
            return b""
        if operation == _CLOSE:
            return b""
        if operation == _PING:
            self._send_frame(_PONG, payload)
            return None
        return payload if operation in (_CONTINUATION, _TEXT, _BINARY) and payload else None

    def close(self) -> None:
        self._socket.close()

    def _handshake(self, resource: str) -> None:
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        lines = [
            f"GET {resource} HTTP/1.1",
            "Host: incus",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"\r\n\r\n" not in self._buffer:
            received = self._socket.recv(4096)
            if not received:
                break
            self._buffer += received
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise ConnectionError(f"no websocket: {head[:80]!r}")

    def _send_frame(self, operation: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            length = struct.pack("!B", _MASKED | size)
        elif size < 1 << 16:
            length = struct.pack("!BH", _MASKED | 126, size)
        else:
            length = struct.pack("!BQ", _MASKED | 127, size)
        self._socket.sendall(bytes([_FIN | operation]) + length + _NO_MASK + payload)

    def _read_exactly(self, size: int) -> bytes:
        pieces, missing = [self._buffer[:size]], size - len(self._buffer[:size])
        self._buffer = self._buffer[size:]
        while missing > 0:
            received = self._socket.recv(max(missing, _CHUNK_BYTES))
            if not received:
                raise EOFError
            pieces.append(received[:missing])
            self._buffer = received[missing:]
            missing -= len(pieces[-1])
        return b"".join(pieces)
