"""The list of names is data: what is accepted, what is refused with a sentence, and what counts as right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anycastlab.lab import upstream
from anycastlab.phone import mix, wire
from anycastlab.phone.errors import MixError


@pytest.mark.parametrize("name", mix.BUILT_IN)
def test_the_household_is_six_popular_two_uncached_two_local(name: str) -> None:
    deck = mix.load(name).deck

    kinds = [entry.kind for entry in deck]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"popular": 6, "uncached": 2, "local": 2}
    assert all((mix.RANDOM in entry.name) == (entry.kind == "uncached") for entry in deck)


def test_the_lab_mix_asks_for_what_the_labs_upstream_has() -> None:
    entries = mix.load("lab").entries

    assert {e.name for e in entries if e.kind == "popular"} == set(upstream.POPULAR_NAMES)
    assert {e.name for e in entries if e.kind == "uncached"} == {f"{mix.RANDOM}.{upstream.RANDOM_ZONE}"}
    zone = upstream.zone()
    for entry in entries:
        if entry.kind == "popular":
            (data,) = entry.data or ()
            assert f"{entry.name}. A {'.'.join(str(octet) for octet in data)}\n" in zone


def test_a_plain_list_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "names"
    file.write_text("# mine\nwww.example.org\nexample.org AAAA  # six\n\n{random}.example.org\n")

    entries = mix.load(str(file)).entries

    assert [(e.name, e.type, e.kind) for e in entries] == [
        ("www.example.org", "A", "other"),
        ("example.org", "AAAA", "other"),
        ("{random}.example.org", "A", "uncached"),
    ]
    assert entries[2].accepts_nxdomain


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({}, 'x.json, entry 1: no "name".'),
        ({"name": "a", "color": 1}, "x.json, entry 1: unknown key 'color'."),
        ({"name": "a", "type": "ALL"}, 'x.json, entry 1: unknown type "ALL".'),
        ({"name": "a", "type": ["A"]}, 'x.json, entry 1: unknown type ["A"].'),
        ({"name": "a", "kind": "rare"}, 'x.json, entry 1: unknown kind "rare".'),
        ({"name": "a", "count": 0}, "x.json, entry 1: count is 0."),
        ({"name": "a", "count": True}, "x.json, entry 1: count is true."),
        ({"name": "a", "expect": []}, "x.json, entry 1: expect is []."),
        ({"name": "a", "expect": ["10.0.0.256"]}, "x.json, entry 1: Octet 256 (> 255) not permitted in '10.0.0.256'."),
        ({"name": "a", "type": "MX", "expect": ["b"]}, "x.json, entry 1: expected data can be given for A, AAAA"),
        ({"name": "a..b"}, "x.json, entry 1: 'a..b' has a label of 0 characters"),
    ],
)
def test_a_mistake_is_named_with_its_place(entry: dict[str, object], sentence: str) -> None:
    with pytest.raises(MixError) as caught:
        mix.parse_json("x.json", json.dumps({"names": [entry]}))

    assert caught.value.problem.startswith(sentence)


@pytest.mark.parametrize("text", ["{", "[]", '{"names": 1}', '{"names": []}'])
def test_a_file_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(MixError):
        mix.parse_json("x.json", text)


def test_a_missing_file_is_refused_with_the_built_in_names() -> None:
    with pytest.raises(MixError, match="lab, home"):
        mix.load("/nonexistent/names")


A = bytes([192, 0, 2, 1])
CNAME = (wire.TYPES["CNAME"], b"\x00")


@pytest.mark.parametrize(
    ("expect", "rcode", "answers", "right"),
    [
        ("answer", 0, [(1, A)], True),
        ("answer", 0, [CNAME, (1, A)], True),
        ("answer", 0, [CNAME], False),
        ("answer", 0, [], False),
        ("answer", 3, [], False),
        ("answer", 5, [(1, A)], False),
        ("any", 3, [], True),
        ("any", 0, [(1, A)], True),
        ("any", 0, [], False),
        ("nxdomain", 3, [], True),
        ("nxdomain", 0, [(1, A)], False),
        (["192.0.2.1"], 0, [(1, A)], True),
        (["192.0.2.1", "192.0.2.2"], 0, [(1, A)], True),
        (["192.0.2.9"], 0, [(1, A)], False),
        (["192.0.2.1"], 0, [(1, A), (1, b"\x00\x00\x00\x00")], False),
    ],
)
def test_what_a_right_answer_is(expect: object, rcode: int, answers: list[tuple[int, bytes]], right: bool) -> None:
    entry = mix.parse_json("x", json.dumps({"names": [{"name": "a", "expect": expect}]})).entries[0]

    assert entry.is_right(wire.Reply(1, rcode, False, b"", tuple(answers))) is right
