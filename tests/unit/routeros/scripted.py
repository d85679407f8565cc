"""A server that plays a script over real sockets: for everything a router should not do, and sometimes does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from librouteros.protocol import encode_length

Play = Callable[[socket.socket], None]


def sentence(*words: str | bytes) -> bytes:
    parts = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"".join(encode_length(len(part)) + part for part in parts) + b"\0"


DONE = sentence("!done")


def read_sentence(peer: socket.socket) -> list[str]:
    """The client's next sentence (short words only); [] when it closed."""
    words = []
    while True:
        head = peer.recv(1)
        if not head:
            return []
        length = head[0]
        if length >= 0x80:
            length = ((length & 0x3F) << 8) | peer.recv(1)[0]
        if length == 0:
            return words
        data = b""
        while len(data) < length:
            data += peer.recv(length - len(data))
        words.append(data.decode())


def after_login(*answers: bytes) -> Play:
    """Lets anybody in, then answers each command with the next bytes and closes."""

    def play(peer: socket.socket) -> None:
        read_sentence(peer)
        peer.sendall(DONE)
        for answer in answers:
            if not read_sentence(peer):
                return
            peer.sendall(answer)

    return play


@contextmanager
def playing(*plays: Play) -> Iterator[int]:
    """A port where the n-th connection gets the n-th play (the last one for all further)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        stop = threading.Event()

        def perform(peer: socket.socket, play: Play) -> None:
            # The client giving up first is what many tests are about.
            with peer, suppress(OSError):
                peer.settimeout(5)
                play(peer)

        def serve() -> None:
            threads = []
            while not stop.is_set():
                with suppress(TimeoutError):
                    peer, _ = server.accept()
                    play = plays[min(len(threads), len(plays) - 1)]
                    threads.append(threading.Thread(target=perform, args=(peer, play)))
                    threads[-1].start()
            for thread in threads:
                thread.join()

        accepting = threading.Thread(target=serve)
        accepting.start()
        try:
            yield server.getsockname()[1]
        finally:
            stop.set()
            accepting.join()
