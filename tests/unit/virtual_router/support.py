"""A client that sends exactly the words it is told, and the certificate for TLS tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from anycastlab.virtual_router.testing import PASSWORD, RunningRouter
from anycastlab.virtual_router.wire import Decoder, encode_sentence

TIMEOUT = 5.0


class Client:
    """One connection; `talk` collects replies until `!done` or `!fatal`."""

    def __init__(self, router: RunningRouter) -> None:
        self.socket = socket.create_connection((router.host, router.port), TIMEOUT)
        self._decoder = Decoder(1 << 24, 1 << 26, 1 << 16)
        self._waiting: list[list[str]] = []

    def send(self, *words: str) -> None:
        self.socket.sendall(encode_sentence(words))

    def read(self) -> list[str]:
        """The next sentence. Raises ConnectionError when the router closed."""
        while not self._waiting:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self._waiting.extend(self._decoder.feed(data))
        return self._waiting.pop(0)

    def until_closed(self) -> list[list[str]]:
        """Everything that still comes before the router closes the connection."""
        replies = []
        with suppress(OSError):
            while True:
                replies.append(self.read())
        return replies

    def talk(self, *words: str) -> list[list[str]]:
        self.send(*words)
        replies = []
        while True:
            sentence = self.read()
            replies.append(sentence)
            if sentence[0] in ("!done", "!fatal"):
                return replies

    def login(self, user: str = "admin", password: str = PASSWORD) -> Client:
        assert self.talk("/login", f"=name={user}", f"=password={password}") == [["!done"]]
        return self

    def rows(self, *words: str) -> list[dict[str, str]]:
        return [attributes(sentence) for sentence in self.talk(*words) if sentence[0] == "!re"]

    def ret(self, *words: str) -> str:
        """The value that `!done` carries."""
        replies = self.talk(*words)
        assert replies[0][0] == "!done", replies
        return attributes(replies[0])["ret"]

    def refusal(self, *words: str) -> str:
        """The text of the trap; a trap must be followed by `!done`."""
        replies = self.talk(*words)
        assert [sentence[0] for sentence in replies] == ["!trap", "!done"], replies
        return attributes(replies[0])["message"]

    def ok(self, *words: str) -> None:
        assert self.talk(*words) == [["!done"]]

    def close(self) -> None:
        self.socket.close()


def attributes(sentence: list[str]) -> dict[str, str]:
    pairs = (word[1:].partition("=") for word in sentence[1:] if word.startswith("="))
    return {name: value for name, _, value in pairs}


@contextmanager
def opened(router: RunningRouter) -> Iterator[Client]:
    """A connection that nobody has logged in on."""
    client = Client(router)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def connected(router: RunningRouter, user: str = "admin") -> Iterator[Client]:
    with opened(router) as client:
        yield client.login(user)
