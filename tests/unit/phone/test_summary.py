"""Counts and lateness of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.phone import summary
from anycastlab.phone.records import Outcome, Record

MS = 1_000_000
RIGHT = Record(0, "wire", "s", "n", "A", "popular", 0, 0, 3.0, Outcome.ANSWERED, "NOERROR", "node01", False, 0, 0, 1,
               Outcome.ANSWERED, 3.0)  # fmt: skip


@given(st.lists(st.floats(0, 1e6).map(lambda x: round(x, 3)), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_that_occurred_and_splits_the_list(values: list[float], percent: int) -> None:
    ordered = sorted(values)

    value = summary.percentile(ordered, percent)

    assert value in ordered
    assert sum(v <= value for v in ordered) * 100 >= percent * len(ordered)
    assert sum(v < value for v in ordered) * 100 < percent * len(ordered)


@pytest.mark.parametrize(("late", "punctual"), [(1, True), (2, False)])
def test_one_in_a_hundred_may_be_late_and_not_more(late: int, punctual: bool) -> None:
    records = [replace(RIGHT, sent_ns=50 * MS if i < late else 0) for i in range(100)]

    assert summary.lateness(records).punctual is punctual


def test_a_run_in_which_nothing_was_sent_is_not_punctual() -> None:
    nothing = replace(RIGHT, sent_ns=None, outcome=Outcome.SKIPPED)

    assert summary.lateness([]).punctual is False
    assert summary.lateness([nothing]).skipped == 1


@given(st.lists(st.sampled_from(Outcome)))
def test_every_query_is_in_exactly_one_count(outcomes: list[Outcome]) -> None:
    counts = summary.wire_counts([replace(RIGHT, outcome=outcome) for outcome in outcomes])

    parts = sum(counts[name] for name in ("answered", "stalled", "lost", "servfail", "wrong"))
    assert counts["sent"] == parts
    assert counts["sent"] + counts["open"] + outcomes.count(Outcome.SKIPPED) == len(outcomes)


def test_unidentified_queries_do_not_dilute_the_shares() -> None:
    records = [replace(RIGHT, node=node) for node in ("node01", "node01", "node02", "", "")]

    assert summary.shares(records) == {"node01": 0.6667, "node02": 0.3333}


def test_the_words_for_a_late_run_are_plain() -> None:
    result = summary.document([replace(RIGHT, sent_ns=9 * MS)], {}, interrupted=False, stray=2)

    assert result["counts"]["discarded"] == 2
    assert summary.lines(result)[-1].endswith("NOT PUNCTUAL, this is no measurement")
