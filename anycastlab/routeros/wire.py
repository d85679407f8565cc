"""Sentences of the RouterOS API, on librouteros's framing: bounded, lossless, silent. Reads answers whole.

Reply words: `!re` a row, `!empty` none (7.18 and later), `!trap` a refusal, `!done` the end of an answer, `!fatal` that
of the session.
"""

from __future__ import annotations

from collections.abc import Sequence

from librouteros.exceptions import FatalError, LibRouterosError
from librouteros.protocol import ApiProtocol, decode_length, determine_length, encode_length

from anycastlab.routeros.limits import (
    MAX_ANSWER_BYTES,
    MAX_ROWS,
    MAX_SENTENCE_BYTES,
    MAX_SENTENCE_WORDS,
    MAX_WORD_BYTES,
)

Reply = dict[str, str]


class GarbageError(LibRouterosError):  # type: ignore[misc]  # librouteros is untyped for mypy here
    """What came is not the API's protocol."""


class Words(ApiProtocol):  # type: ignore[misc]
    """librouteros's framing, bounded, silent (its own logs every word, the password too) and lossless.

    Bounds hold before anything is read: an announced length is refused, never waited for.
    """

    _left = MAX_SENTENCE_BYTES
    _answer_left = MAX_ANSWER_BYTES

    def begin_answer(self) -> None:
        """What is read from here on is one answer, and counts against its bound."""
        self._answer_left = MAX_ANSWER_BYTES

    def writeSentence(self, cmd: str, *words: str) -> None:  # noqa: N802  the library's name
        self.transport.write(_encode((cmd, *words)))

    def writeSentences(self, sentences: Sequence[Sequence[str]]) -> None:  # noqa: N802
        self.transport.write(b"".join(_encode(words) for words in sentences))

    def readWord(self) -> str:  # noqa: N802
        first = self.transport.read(1)
        if first == b"\x00":
            return ""
        length = decode_length(first + self.transport.read(determine_length(first)))
        if length > MAX_WORD_BYTES:
            raise GarbageError(f"a word of {length} bytes is announced")
        self._left -= length
        if self._left < 0:
            raise GarbageError(f"a sentence of more than {MAX_SENTENCE_BYTES} bytes")
        return bytes(self.transport.read(length)).decode("utf-8", "surrogateescape")

    def readSentence(self) -> tuple[str, tuple[str, ...]]:  # noqa: N802
        if self._answer_left < 0:
            raise GarbageError(f"more than {MAX_ANSWER_BYTES} bytes")
        words: list[str] = []
        self._left = MAX_SENTENCE_BYTES
        while word := self.readWord():
            words.append(word)
            if len(words) > MAX_SENTENCE_WORDS:
                raise GarbageError(f"a sentence of more than {MAX_SENTENCE_WORDS} words")
        self._answer_left -= MAX_SENTENCE_BYTES - self._left
        if not words:
            return "", ()  # an empty sentence means nothing; routers send it as a keep-alive
        if words[0] == "!fatal":
            raise FatalError(" ".join(words[1:]) or "no reason given")
        return words[0], tuple(words[1:])


def _encode(words: Sequence[str]) -> bytes:
    parts = []
    for word in words:
        data = word.encode("utf-8", "surrogateescape")
        parts += [encode_length(len(data)), data]
    return b"".join([*parts, b"\x00"])


def read_answer(protocol: Words) -> tuple[list[Reply], list[Reply]]:
    rows: list[Reply] = []
    traps: list[Reply] = []
    protocol.begin_answer()
    while True:
        kind, words = protocol.readSentence()
        if kind == "!re":
            rows.append(_attributes(words))
            if len(rows) > MAX_ROWS:
                raise GarbageError(f"more than {MAX_ROWS} rows")
        elif kind == "!trap":
            traps.append(_attributes(words))
        elif kind == "!done":
            last = _attributes(words)
            return ([*rows, last] if last else rows), traps
        elif kind not in ("", "!empty"):
            raise GarbageError(f"{kind[:40]!r} is no reply word")


def read_tagged(protocol: Words, count: int) -> list[tuple[list[Reply], list[Reply]]]:
    """Rows and traps of each of `count` commands; their sentences may come mixed."""
    answers: list[tuple[list[Reply], list[Reply]]] = [([], []) for _ in range(count)]
    open_tags = {f".tag={number}": number for number in range(count)}
    total = 0
    protocol.begin_answer()
    while open_tags:
        kind, words = protocol.readSentence()
        tag = next((word for word in words if word.startswith(".tag=")), "")
        if kind == "":
            continue
        if tag not in open_tags:
            raise GarbageError(f"an answer to nothing asked ({tag[:40] or kind[:40]})")
        rows, traps = answers[open_tags[tag]]
        if kind == "!re":
            rows.append(_attributes(words))
            total += 1
            if total > MAX_ROWS:
                raise GarbageError(f"more than {MAX_ROWS} rows")
        elif kind == "!trap":
            traps.append(_attributes(words))
        elif kind == "!done":
            del open_tags[tag]
        elif kind != "!empty":
            raise GarbageError(f"{kind[:40]!r} is no reply word")
    return answers


def _attributes(words: Sequence[str]) -> Reply:
    """`=key=value` words as text; `.tag=` and words nobody knows are left out."""
    result: Reply = {}
    for word in words:
        if word.startswith("="):
            key, _, value = word[1:].partition("=")
            result[key] = value
    return result
