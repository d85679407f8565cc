"""The websocket's frames, against a server written out byte by byte."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from anycastlab.incus.websocket import WebSocket

ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


@contextmanager
def server(path: Path, talk: Callable[[socket.socket], None], greeting: bytes = ACCEPTED) -> Iterator[str]:
    """Accepts one connection, greets, then talks."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(4096)
            assert request.startswith(b"GET /1.0/operations/1/websocket?secret=s HTTP/1.1\r\n")
            connection.sendall(greeting)
            talk(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield str(path)
    finally:
        thread.join()
        listener.close()


def opened(path: str) -> closing[WebSocket]:
    return closing(WebSocket(path, "/1.0/operations/1/websocket?secret=s"))


def frame(operation: int, payload: bytes, final: bool = True) -> bytes:
    """A server's frame: not masked."""
    first = bytes([(0x80 if final else 0) | operation])
    size = len(payload)
    if size < 126:
        return first + bytes([size]) + payload
    if size < 65536:
        return first + b"\x7e" + struct.pack("!H", size) + payload
    return first + b"\x7f" + struct.pack("!Q", size) + payload


@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536, 300_000])
def test_a_frame_of_any_length_arrives_whole(tmp_path: Path, size: int) -> None:
    payload = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    with (
        server(tmp_path / "s", lambda connection: connection.sendall(frame(2, payload) * 2)) as path,
        opened(path) as websocket,
    ):
        assert [websocket.receive(), websocket.receive(), websocket.receive()] == [payload, payload, b""]


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
def test_what_is_sent_is_a_masked_frame_of_the_right_length(tmp_path: Path, size: int) -> None:
    received = bytearray()

    def listen(connection: socket.socket) -> None:
        while piece := connection.recv(65536):
            received.extend(piece)

    with server(tmp_path / "s", listen) as path, opened(path) as websocket:
        websocket.send(b"x" * size)
    unmasked = frame(2, b"x" * size)
    header, payload = unmasked[: len(unmasked) - size], unmasked[len(unmasked) - size :]
    assert received == bytes([header[0], header[1] | 0x80]) + header[2:] + b"\0\0\0\0" + payload


def test_frames_that_come_with_the_greeting_are_not_lost(tmp_path: Path) -> None:
    with server(tmp_path / "s", lambda _: None, ACCEPTED + frame(2, b"early")) as path, opened(path) as websocket:
        assert websocket.wait_readable(0)
        assert websocket.receive() == b"early"


def test_pings_are_answered_and_are_no_data(tmp_path: Path) -> None:
    answers = []

    def ping(connection: socket.socket) -> None:
        connection.sendall(frame(9, b"are you there"))
        answers.append(connection.recv(100))

    with server(tmp_path / "s", ping) as path, opened(path) as websocket:
        assert websocket.receive() is None
        assert websocket.receive() == b""
    assert answers == [b"\x8a\x8d\0\0\0\0are you there"]


def test_pieces_of_a_message_are_a_stream(tmp_path: Path) -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(frame(2, b"one", final=False) + frame(0, b"two"))

    with server(tmp_path / "s", talk) as path, opened(path) as websocket:
        assert (websocket.receive() or b"") + (websocket.receive() or b"") == b"onetwo"


@pytest.mark.parametrize("end", [frame(8, b""), b"\x82", b"\x82\x7e\x00", frame(2, b"cut short")[:-3]])
def test_a_close_and_a_broken_frame_are_the_end(tmp_path: Path, end: bytes) -> None:
    with server(tmp_path / "s", lambda connection: connection.sendall(end)) as path, opened(path) as websocket:
        assert websocket.receive() == b""


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 404 Not Found\r\n\r\n", b""])
def test_a_server_that_does_not_switch_is_an_error(tmp_path: Path, greeting: bytes) -> None:
    with server(tmp_path / "s", lambda _: None, greeting) as path, pytest.raises(ConnectionError):
        opened(path)
