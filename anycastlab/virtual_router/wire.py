"""RouterOS API framing: words with a length prefix of one to five bytes, sentences that end with an empty word.

    0xxxxxxx                        < 0x80            1110xxxx + 3 bytes   < 0x10000000
    10xxxxxx + 1 byte               < 0x4000          11110000 + 4 bytes   < 0x100000000
    110xxxxx + 2 bytes              < 0x200000        11111xxx             reserved control bytes

Lengths are big-endian. Pure: bytes in, words out (MikroTik documentation, API).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class WireError(Exception):
    """The bytes are no API traffic, or larger than allowed; nothing after them can be trusted."""


def encode_length(length: int) -> bytes:
    """The prefix for a word of `length` bytes, in its shortest form."""
    if length < 0x80:
        return bytes([length])
    if length < 0x4000:
        return (length | 0x8000).to_bytes(2, "big")
    if length < 0x200000:
        return (length | 0xC00000).to_bytes(3, "big")
    if length < 0x10000000:
        return (length | 0xE0000000).to_bytes(4, "big")
    if length < 0x100000000:
        return b"\xf0" + length.to_bytes(4, "big")
    raise WireError(f"a word of {length} bytes cannot be framed")


def encode_sentence(words: Iterable[str]) -> bytes:
    """A whole sentence. Bytes that were not UTF-8 when they came in go out unchanged."""
    out = bytearray()
    for word in words:
        raw = word.encode("utf-8", "surrogateescape")
        out += encode_length(len(raw))
        out += raw
    out.append(0)
    return bytes(out)


def _prefix(buffer: bytearray, at: int) -> tuple[int, int] | None:
    """(length, size of the prefix) of the word at `at`; None when more bytes are needed."""
    first = buffer[at]
    if first < 0x80:
        return first, 1
    if first > 0xF0:
        raise WireError(f"control byte 0x{first:02x} where a word length belongs")
    size, mask = (2, 0x3FFF) if first < 0xC0 else (3, 0x1FFFFF) if first < 0xE0 else (4, 0x0FFFFFFF)
    if first == 0xF0:
        size, mask = 5, 0xFFFFFFFF
    if len(buffer) - at < size:
        return None
    return int.from_bytes(buffer[at : at + size], "big") & mask, size


class Decoder:
    """Turns received bytes into sentences, however they are cut.

    `max_word`, `max_sentence` (bytes) and `max_words` may be changed between calls. A word is refused by its announced
    length, before its bytes arrive, so memory stays bounded by `max_sentence`.
    """

    def __init__(self, max_word: int, max_sentence: int, max_words: int) -> None:
        self.max_word = max_word
        self.max_sentence = max_sentence
        self.max_words = max_words
        self._buffer = bytearray()
        self._words: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[list[str]]:
        """Yields every sentence that is complete; empty ones are skipped. Raises WireError."""
        self._buffer += data
        at = 0
        try:
            while at < len(self._buffer):
                prefix = _prefix(self._buffer, at)
                if prefix is None:
                    break
                length, skip = prefix
                self._check(length)
                if len(self._buffer) - at < skip + length:
                    break
                raw = bytes(self._buffer[at + skip : at + skip + length])
                at += skip + length
                if raw:
                    self._words.append(raw.decode("utf-8", "surrogateescape"))
                    self._size += length
                elif self._words:
                    sentence, self._words, self._size = self._words, [], 0
                    yield sentence
        finally:
            del self._buffer[:at]

    def _check(self, length: int) -> None:
        if length > self.max_word:
            raise WireError(f"a word of {length} bytes is longer than {self.max_word}")
        if self._size + length > self.max_sentence:
            raise WireError(f"a sentence is longer than {self.max_sentence} bytes")
        if length and len(self._words) >= self.max_words:
            raise WireError(f"a sentence has more than {self.max_words} words")

    @property
    def pending(self) -> int:
        """Bytes received that do not make a whole sentence yet."""
        return len(self._buffer) + self._size
