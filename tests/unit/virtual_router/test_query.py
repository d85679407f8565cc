"""Query words, checked against the examples and rules of the API documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router.query import Query, QueryError

ETHER = {"name": "ether1", "type": "ether", "mtu": "1500", "running": "true", "uptime": "1h2m", "comment": "wan"}
VLAN = {"name": "vlan7", "type": "vlan", "mtu": "1496", "running": "false", "uptime": "59m"}


def names(*words: str) -> list[str]:
    query = Query(words)
    return [row["name"] for row in (ETHER, VLAN) if query.matches(row)]


BOTH, NONE = ["ether1", "vlan7"], []


@pytest.mark.parametrize(
    ("words", "matching"),
    [
        ([], BOTH),
        (["?comment"], ["ether1"]),
        (["?-comment"], ["vlan7"]),
        (["?type=vlan"], ["vlan7"]),
        (["?=type=vlan"], ["vlan7"]),
        (["?type=ether", "?type=vlan"], NONE),
        (["?type=ether", "?type=vlan", "?#|"], BOTH),
        (["?type=ether", "?#!"], ["vlan7"]),
        (["?type=ether", "?type=vlan", "?#|!"], NONE),
        (["?type=ether", "?running=true", "?#&"], ["ether1"]),
        (["?>mtu=1496"], ["ether1"]),
        (["?<mtu=1500"], ["vlan7"]),
        (["?>comment="], ["ether1"]),
        (["?running=yes"], ["ether1"]),
        (["?running=no"], ["vlan7"]),
        (["?uptime=01:02:00"], ["ether1"]),
        (["?<uptime=1h"], ["vlan7"]),
        (["?type=ether", "?type=vlan", "?#1"], ["ether1"]),
        (["?type=ether", "?type=vlan", "?#0"], ["vlan7"]),
        (["?type=ether", "?type=vlan", "?#!0.|"], ["ether1"]),
        (["?type=nonsense", "?#!."], BOTH),
        (["?#&"], BOTH),
        (["?nosuch=1", "?#|"], BOTH),
        (["?name=ether1", "?name=vlan7", "?name=x", "?#||"], BOTH),
    ],
)
def test_words_select_rows(words: list[str], matching: list[str]) -> None:
    assert names(*words) == matching


@pytest.mark.parametrize("word", ["?", "?=x", "?>mtu", "?#x", "?-"])
def test_what_cannot_be_understood_is_refused(word: str) -> None:
    with pytest.raises(QueryError):
        Query([word])


def test_a_regular_expression_is_just_a_strange_name() -> None:
    assert names("?name~ether") == NONE


operations = st.lists(st.sampled_from(["!", "&", "|", ".", "0", "1.", "2"]), max_size=8).map(
    lambda ops: "?#" + "".join(ops)
)
tests = st.sampled_from(["?name", "?nosuch", "?type=ether", "?-comment", "?>mtu=1"])


@given(st.lists(st.one_of(tests, operations), max_size=8))
def test_no_combination_breaks_it(words: list[str]) -> None:
    assert Query(words).matches(ETHER) in (True, False)


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_the_row_matches_exactly_when_no_false_is_left(values: list[bool]) -> None:
    words = ["?name" if value else "?nosuch" for value in values]
    assert Query(words).matches(ETHER) == all(values)
    either = [*words, "?#" + "|" * (len(values) - 1)] if len(values) > 1 else words
    assert Query(either).matches(ETHER) == any(values)
