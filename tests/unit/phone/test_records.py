"""Records survive both file forms, and a file that is not one of ours is refused with its line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.phone import records
from anycastlab.phone.errors import PhoneError
from anycastlab.phone.records import COLUMNS, Outcome, Record

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), max_size=12)
WORD = st.text("abc.-", max_size=8)
MS = st.none() | st.floats(0, 1e6).map(lambda value: round(value, 3))
COUNT = st.integers(0, 2**63 - 1)
RECORDS = st.builds(
    Record, query=COUNT, client=WORD, server=WORD, name=WORD, type=WORD, kind=WORD, intended_ns=COUNT,
    sent_ns=st.none() | COUNT, latency_ms=MS, outcome=st.sampled_from(Outcome), rcode=WORD, node=TEXT,
    truncated=st.booleans(), duplicates=COUNT, discarded=COUNT, tries=COUNT,
    felt=st.sampled_from(Outcome), felt_ms=MS, note=TEXT,
)  # fmt: skip

Writer = Callable[[Iterable[Record], TextIO], None]
Reader = Callable[[Iterable[str]], Iterator[Record]]
FORMS = [(records.write_csv, records.read_csv), (records.write_jsonl, records.read_jsonl)]


@pytest.mark.parametrize(("write", "read"), FORMS)
@given(st.lists(RECORDS, max_size=5))
def test_what_is_written_is_read_again(write: Writer, read: Reader, some: list[Record]) -> None:
    out = io.StringIO(newline="")
    write(some, out)
    out.seek(0)

    assert list(read(out)) == some


def test_every_column_is_documented() -> None:
    assert all(column in (records.__doc__ or "") for column in COLUMNS)
    assert all(outcome in (records.__doc__ or "") for outcome in Outcome)


@pytest.mark.parametrize(
    ("read", "lines"),
    [
        (records.read_csv, ["a,b\n", "1,2\n"]),
        (records.read_jsonl, ["{}\n"]),
        (records.read_jsonl, ["{\n"]),
        (records.read_jsonl, ["[]\n"]),
        (records.read_csv, ["query\n", '"a\x00"\n', '"' + "a" * 200_000 + '"\n']),
    ],
)
def test_a_foreign_file_is_refused(read: Reader, lines: list[str]) -> None:
    with pytest.raises(PhoneError, match="Line"):
        list(read(lines))


EXAMPLE = Record(0, "wire", "s", "n", "A", "popular", 1, 2, 3.0, Outcome.ANSWERED, "NOERROR", "", False, 0, 0, 1,
                 Outcome.ANSWERED, 3.0)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("query", 1.5), ("query", True), ("intended_ns", "1"), ("sent_ns", "soon"), ("latency_ms", "3"),
        ("latency_ms", float("nan")), ("felt_ms", [3]), ("node", None), ("name", 7), ("truncated", "maybe"),
        ("outcome", ["answered"]), ("felt", None),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused_by_name(name: str, value: object) -> None:
    line = json.dumps({**records.as_dict(EXAMPLE), name: value})

    with pytest.raises(PhoneError, match=f"Line 1 of the records: {name} cannot be"):
        list(records.read_jsonl([line]))


@pytest.mark.parametrize(
    ("name", "cell"), [("query", ""), ("sent_ns", "soon"), ("latency_ms", "x"), ("felt_ms", "inf"), ("truncated", "0")]
)
def test_a_cell_that_is_no_such_value_is_refused_by_name(name: str, cell: str) -> None:
    out = io.StringIO(newline="")
    records.write_csv([EXAMPLE], out)
    header, line = out.getvalue().splitlines()
    cells = {**dict(zip(header.split(","), line.split(","), strict=True)), name: cell}

    with pytest.raises(PhoneError, match=f"Line 2 of the records: {name} cannot be"):
        list(records.read_csv([f"{header}\n", f"{','.join(cells.values())}\n"]))


def test_an_unknown_outcome_is_refused() -> None:
    out = io.StringIO(newline="")
    records.write_csv([EXAMPLE], out)

    with pytest.raises(PhoneError, match="Line 2"):
        list(records.read_csv(out.getvalue().replace("answered", "fine").splitlines(keepends=True)))


VALUES = (0, "wire", "s", "n", "A", "k", 5, 6, 0.4, "answered", "NOERROR", "", False, 0, 0, 1, "answered", 0.4, "")
GOOD = dict(zip(COLUMNS, VALUES, strict=True))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("query", "-5", "-5"),
        ("tries", "-1", "-1"),
        ("intended_ns", "-5", "-5"),
        ("sent_ns", "-5", "-5"),
        ("latency_ms", "-5", "-5"),
        ("latency_ms", "Infinity", "Infinity"),
        ("latency_ms", "NaN", "NaN"),
        ("felt_ms", "-0.1", "-0.1"),
        ("duplicates", "1.5", "1.5"),
        ("query", "true", "true"),
        ("query", "9223372036854775808", "9223372036854775808"),
        ("note", "null", "null"),
        ("outcome", '"fine"', '"fine"'),
        ("felt", "{}", "{}"),
    ],
)
def test_a_number_that_cannot_be_is_refused_with_its_line_and_as_it_stands_there(
    column: str, value: str, said: str
) -> None:
    line = json.dumps({**GOOD, column: "@"}).replace('"@"', value)
    with pytest.raises(PhoneError) as caught:
        list(records.read_jsonl([json.dumps(GOOD), line]))
    assert caught.value.problem == f"Line 2 of the records: {column} cannot be {said}."


@pytest.mark.parametrize("line", ["[" * 100_000, '{"query": ' + "1" * 5000 + "}", "\x00"])
def test_a_line_that_no_parser_takes_is_one_sentence(line: str) -> None:
    with pytest.raises(PhoneError, match=r"Line 1 of the records is not JSON: .*\."):
        list(records.read_jsonl([line]))
