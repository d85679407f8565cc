"""Sentences of the API are bounded in every direction before they are read, whoever is at the other end."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from librouteros.protocol import encode_length

from anycastlab.routeros.limits import MAX_SENTENCE_BYTES, MAX_WORD_BYTES
from anycastlab.routeros.wire import GarbageError, Words, read_answer, read_tagged

MIB = 1024 * 1024
ANSWER = 4 * MIB  # instead of the real bound, which would take long to reach


class Endless:
    """A transport that gives one word over and over: `per_sentence` times, then the next sentence begins."""

    def __init__(self, size: int, per_sentence: int) -> None:
        word = b"=x=" + b"y" * (size - 3)
        parts = [(b"!re", 1), (b".tag=0", 1), (word, per_sentence)]
        self._sentence = [(encode_length(len(part)), part, count) for part, count in parts]
        self._gives = self._bytes()
        self.read_bytes = 0
        self.deadline = 0.0

    def _bytes(self) -> Iterator[bytes]:
        while True:
            for length, part, count in self._sentence:
                for _ in range(count):
                    yield length[:1]
                    if length[1:]:
                        yield length[1:]
                    yield part
            yield b"\0"

    def read(self, length: int) -> bytes:
        if length == 0:
            return b""
        piece = next(self._gives)
        assert len(piece) == length
        self.read_bytes += length
        return bytes(piece)

    def write(self, data: bytes) -> None:
        raise AssertionError(data)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("size", "per_sentence", "most"),
    [
        (4 * MIB, 1000, 0),  # what took 4 GB
        (MAX_WORD_BYTES, 1000, MAX_SENTENCE_BYTES),
        (1000, 1, ANSWER),
        (200_000, 4, ANSWER),
    ],
)
@pytest.mark.parametrize("tagged", [False, True])
def test_an_answer_without_end_is_given_up_in_bounded_memory(
    size: int, per_sentence: int, most: int, tagged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anycastlab.routeros.wire.MAX_ANSWER_BYTES", ANSWER)
    transport = Endless(size, per_sentence)
    protocol = Words(transport, "utf-8")
    tracemalloc.start()
    try:
        with pytest.raises(GarbageError):
            read_tagged(protocol, 1) if tagged else read_answer(protocol)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert transport.read_bytes <= most + MIB
    assert peak < 3 * ANSWER
