"""Streaks, the p95 window and the hold-down clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.probe.config import HoldDown, Latency, Question
from anycastlab.probe.health import Health, Outcome, Result, Streak, Symptom, Window
from anycastlab.probe.holddown import HoldDownClock
from tests.unit.probe.world import config

QUESTION = Question(interval_s=0.3, timeout_s=0.3, rise=2, fall=3)


def result(outcome: Outcome = Outcome.OK, at: float = 10.0, latency_s: float = 0.002, measured: bool = True) -> Result:
    return Result(outcome, at - latency_s, at, latency_s, "", measured)


@pytest.mark.parametrize(
    ("ends", "good"),
    [
        ("+", None),
        ("++", True),
        ("--", None),
        ("---", False),
        ("++--", True),
        ("++--+--", True),
        ("++---", False),
        ("++---+", False),
        ("++---+-+", False),
        ("++---++", True),
    ],
)
def test_rise_and_fall(ends: str, good: bool | None) -> None:
    streak = Streak(QUESTION)
    for end in ends:
        streak.feed(result(Outcome.OK if end == "+" else Outcome.SILENT))
    assert streak.good is good


@given(st.lists(st.booleans(), max_size=60))
def test_a_mind_changes_only_after_enough_in_a_row(ends: list[bool]) -> None:
    streak = Streak(QUESTION)
    history: list[bool] = []
    for ok in ends:
        history.append(ok)
        before = streak.good
        changed = streak.feed(result(Outcome.OK if ok else Outcome.WRONG))
        if changed:
            needed = QUESTION.rise if streak.good else QUESTION.fall
            assert history[-needed:] == [streak.good] * needed
            assert before is not streak.good


def test_one_slow_answer_is_forgiven_two_of_twenty_are_not() -> None:
    window = Window(Latency())
    for _ in range(30):
        window.feed(0.002)
    window.feed(1.8)
    for _ in range(5):
        window.feed(0.002)
    assert window.p95_s == 0.002
    assert not window.slow
    window.feed(1.8)
    window.feed(0.002)
    window.feed(0.002)
    assert window.p95_s == 1.8
    assert window.slow


def test_slow_is_over_only_when_clearly_fast_again() -> None:
    window = Window(Latency(threshold_s=0.15, clear_s=0.075))
    for _ in range(20):
        window.feed(0.2)
    assert window.slow
    for _ in range(40):
        window.feed(0.1)  # under the threshold, not clearly
    assert window.slow
    for _ in range(25):
        window.feed(0.01)
    assert not window.slow


@given(st.lists(st.floats(0.0001, 3), min_size=2, max_size=40))
def test_p95_is_the_nearest_rank_of_a_full_window(samples: list[float]) -> None:
    window = Window(Latency())
    for sample in samples:
        window.feed(sample)
    kept = sorted(samples[-20:])
    # One outlier is always forgiven, so that the first slow answer after a start is no verdict.
    assert window.p95_s == kept[-2]


def healthy() -> Health:
    health = Health(config(), 0.0)
    for number in range(4):
        health.on_resolver(result(at=1.0 + number))
        health.on_local(result(at=1.0 + number))
    return health


def test_a_closed_port_is_dead_after_fall_checks_silence_only_after_its_time() -> None:
    health = healthy()
    for number in range(3):
        assert not health.dead(5.0)
        health.on_resolver(result(Outcome.GONE, at=5.0 + number / 10))
    assert health.dead(5.3)

    health = healthy()
    for number in range(3):
        health.on_resolver(result(Outcome.SILENT, at=4.6 + 0.3 * number, latency_s=0.3))
    assert health.symptom is Symptom.SILENT
    assert not health.dead(5.2)
    assert health.dead(4.0 + 2.5)


def test_late_answers_keep_a_silent_resolver_from_being_dead() -> None:
    health = healthy()
    for number in range(20):
        health.on_resolver(result(Outcome.SILENT, at=4.6 + 0.3 * number, latency_s=0.3))
        health.on_late_answer(4.6 + 0.3 * number)
    assert health.symptom is Symptom.SILENT
    assert not health.dead(4.6 + 0.3 * 20)


def test_the_timeouts_of_an_outage_are_not_slowness_afterwards() -> None:
    health = healthy()
    for number in range(30):
        health.on_resolver(result(Outcome.SILENT, at=5 + number, latency_s=0.3))
    assert health.window.slow
    health.on_resolver(result(at=40))
    health.on_resolver(result(at=41))
    assert health.fit


def test_latencies_taken_while_the_probe_was_late_do_not_count() -> None:
    health = healthy()
    for number in range(30):
        health.on_resolver(result(at=5 + number, latency_s=0.25, measured=False))
    assert health.fit


def test_answers_to_questions_asked_before_a_restart_are_forgotten() -> None:
    health = healthy()
    health.start_over(10.0)
    assert not health.known
    health.on_resolver(result(at=10.1, latency_s=0.2))
    assert health.resolver.run_ok == 0


def test_hold_down_grows_to_its_limit_and_forgets_in_calm_times() -> None:
    clock = HoldDownClock(HoldDown(base_s=1, factor=2, max_s=10, calm_s=100, changes_per_minute=100))
    now, waits = 1000.0, []
    for _ in range(6):
        clock.lowered(now)
        waits.append(clock.raise_allowed_at(now) - now)
        now += waits[-1]
        clock.raised(now)
    assert waits == [1, 2, 4, 8, 10, 10]
    now += 100
    clock.lowered(now)
    assert clock.raise_allowed_at(now) - now == 1


def test_hold_down_survives_a_restart() -> None:
    first = HoldDownClock(HoldDown())
    for at in (1000.0, 1002.0, 1004.0):
        first.lowered(at)
    again = HoldDownClock(HoldDown(), first.history, first.level)
    assert again.raise_allowed_at(1004.5) == first.raise_allowed_at(1004.5) > 1004.5


@given(st.lists(st.floats(0.01, 20), min_size=10, max_size=200))
def test_obedience_to_the_clock_bounds_changes_per_minute(gaps: list[float]) -> None:
    settings = HoldDown(changes_per_minute=6)
    clock = HoldDownClock(settings)
    now, announced, changes = 1000.0, False, []
    for gap in gaps:
        now += gap
        allowed = clock.leave_allowed_at(now) if announced else clock.raise_allowed_at(now)
        if allowed <= now:
            announced = not announced
            (clock.raised if announced else clock.lowered)(now)
            changes.append(now)
    for at in changes:
        assert sum(at <= other < at + 60 for other in changes) <= settings.changes_per_minute
