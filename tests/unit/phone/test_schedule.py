"""The schedule is fixed before the first query: same parameters, same questions, at even times, mix exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.phone import limits, mix, schedule
from anycastlab.phone.errors import PhoneError
from anycastlab.phone.schedule import Parameters, make

LAB = Parameters(rate=20, duration_s=10, seed=7, nonce="n", mix=mix.load("lab"))


def test_the_same_parameters_give_the_same_schedule() -> None:
    assert make(LAB) == make(replace(LAB))


def test_another_seed_gives_other_names_in_another_order() -> None:
    assert [q.name for q in make(LAB)] != [q.name for q in make(replace(LAB, seed=8))]


def test_another_nonce_keeps_the_order_and_renews_what_must_not_be_cached() -> None:
    first, second = make(LAB), make(replace(LAB, nonce="m"))

    assert [q.entry for q in first] == [q.entry for q in second]
    uncached = [{q.name for q in run if q.entry.kind == "uncached"} for run in (first, second)]
    assert not uncached[0] & uncached[1]
    assert len(uncached[0]) == 40  # every one of them new


@given(st.floats(0.5, 5000), st.floats(0.01, 0.3), st.integers())
def test_times_are_even_and_fill_the_duration(rate: float, duration_s: float, seed: int) -> None:
    questions = make(replace(LAB, rate=rate, duration_s=duration_s, seed=seed))

    assert len(questions) == max(1, round(rate * duration_s))
    assert [q.index for q in questions] == list(range(len(questions)))
    for question in questions:
        assert abs(question.at_ns - question.index * limits.NS / rate) <= 1


@given(st.integers())
def test_every_ten_questions_hold_the_mix_exactly(seed: int) -> None:
    questions = make(replace(LAB, seed=seed))

    for start in range(0, 200, 10):
        assert Counter(q.entry for q in questions[start : start + 10]) == Counter(LAB.mix.deck)


def test_clients_take_turns_and_twins_are_numbered() -> None:
    questions = make(replace(LAB, clients=("musl", "glibc", "musl")))

    assert [q.client for q in questions[:4]] == ["musl-1", "glibc", "musl-2", "musl-1"]
    assert [q.stub.name for q in questions[:3]] == ["musl", "glibc", "musl"]


def test_ids_do_not_come_back_while_they_may_still_be_answered() -> None:
    questions = make(replace(LAB, rate=2000, duration_s=12, identity_rate=2000))

    ids = [i for q in questions for i in (q.id, q.identity_id)]
    assert len(set(ids)) == len(ids) == 48_000


@pytest.mark.parametrize(("rate", "expected"), [(20, 200), (100, 1000), (200, 1000), (2000, 1000), (150, 1000)])
def test_identity_queries_ride_along_up_to_their_rate(rate: float, expected: int) -> None:
    questions = make(replace(LAB, rate=rate, duration_s=10))

    asking = [q.index for q in questions if q.identity_id is not None]
    assert abs(len(asking) - expected) <= 1
    assert asking[0] == 0


def test_no_identity_queries_when_their_rate_is_zero() -> None:
    assert all(q.identity_id is None for q in make(replace(LAB, identity_rate=0)))


@pytest.mark.parametrize(
    "change",
    [
        {"rate": 0}, {"rate": -1}, {"rate": float("nan")}, {"rate": 1e9}, {"duration_s": 0}, {"duration_s": 1e9},
        {"rate": 20_000, "duration_s": 3600}, {"clients": ("beos",)},
    ],
)  # fmt: skip
def test_impossible_parameters_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(PhoneError):
        make(replace(LAB, **change))  # type: ignore[arg-type]


def test_client_names_are_unique() -> None:
    names = schedule.client_names(("a", "b", "a", "a"))

    assert names == ("a-1", "b", "a-2", "a-3")
