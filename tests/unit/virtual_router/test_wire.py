"""Framing: what is encoded comes back however it is cut, and no bytes at all make it do anything but refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router.wire import Decoder, WireError, encode_length, encode_sentence

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


def decoder(max_word: int = 1 << 22, max_sentence: int = 1 << 23, max_words: int = 1000) -> Decoder:
    return Decoder(max_word, max_sentence, max_words)


@pytest.mark.parametrize(
    ("length", "prefix"),
    [
        (0, "00"),
        (0x7F, "7f"),
        (0x80, "8080"),
        (0x3FFF, "bfff"),
        (0x4000, "c04000"),
        (0x1FFFFF, "dfffff"),
        (0x200000, "e0200000"),
        (0xFFFFFFF, "efffffff"),
        (0x10000000, "f010000000"),
        (0xFFFFFFFF, "f0ffffffff"),
    ],
)
def test_the_five_prefix_sizes_are_as_documented(length: int, prefix: str) -> None:
    assert encode_length(length).hex() == prefix


def test_a_word_beyond_four_gigabytes_cannot_be_framed() -> None:
    with pytest.raises(WireError):
        encode_length(1 << 32)


@given(st.lists(st.lists(words, min_size=1, max_size=5), max_size=5), st.integers(1, 7))
def test_sentences_survive_any_cutting(sentences: list[list[str]], step: int) -> None:
    stream = b"".join(encode_sentence(sentence) for sentence in sentences)
    reading, received = decoder(), []
    for at in range(0, len(stream), step):
        received += list(reading.feed(stream[at : at + step]))
    assert received == sentences
    assert reading.pending == 0


@pytest.mark.parametrize("size", [1, 0x7F, 0x80, 0x3FFF, 0x4000, 0x1FFFFF, 0x200000])
def test_words_of_every_prefix_size_come_back(size: int) -> None:
    assert list(decoder().feed(encode_sentence(["x" * size, "y"]))) == [["x" * size, "y"]]


@given(st.binary(max_size=200))
def test_any_bytes_either_decode_or_are_refused_and_stay_bounded(data: bytes) -> None:
    reading = decoder(max_word=64, max_sentence=128, max_words=8)
    try:
        for sentence in reading.feed(data):
            assert 0 < len(sentence) <= 8
    except WireError:
        pass
    assert reading.pending <= len(data)


@given(st.binary(min_size=1, max_size=40))
def test_bytes_that_are_no_text_go_through_unchanged(raw: bytes) -> None:
    stream = encode_length(len(raw)) + raw + b"\0"
    ((word,),) = list(decoder().feed(stream))
    assert encode_sentence([word]) == stream


def test_empty_sentences_are_skipped() -> None:
    assert list(decoder().feed(b"\0\0" + encode_sentence(["/login"]) + b"\0")) == [["/login"]]


@pytest.mark.parametrize("first", [0xF1, 0xF7, 0xF8, 0xFF])
def test_control_bytes_are_refused(first: int) -> None:
    with pytest.raises(WireError, match="control byte"):
        list(decoder().feed(bytes([first, 0, 0, 0, 0])))


def test_a_forged_length_is_refused_before_its_bytes_arrive() -> None:
    with pytest.raises(WireError, match="longer than 64"):
        list(decoder(max_word=64).feed(encode_length(1 << 30)))


def test_a_sentence_is_bounded_in_words_and_bytes() -> None:
    with pytest.raises(WireError, match="more than 3 words"):
        list(decoder(max_words=3).feed(encode_sentence(["a", "b", "c", "d"])))
    with pytest.raises(WireError, match="longer than 10 bytes"):
        list(decoder(max_sentence=10).feed(encode_sentence(["abcdef", "abcdef"])))


def test_whole_sentences_before_garbage_are_delivered() -> None:
    sentences = decoder().feed(encode_sentence(["/quit"]) + b"\xff")
    assert next(sentences) == ["/quit"]
    with pytest.raises(WireError):
        next(sentences)
