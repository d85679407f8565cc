"""Verdicts. The enemy is the vacuous run that looked perfect: each kind of it must come out VOID."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.phone.records import Outcome, Record
from anycastlab.report.expect import Expect
from anycastlab.report.judge import Evidence, Judgement, judge, lost_time_s
from anycastlab.report.run import Announcement, Proof, Verdict
from tests.unit.scenarios.doubles import NODES, NS, good, spoiled

NOTHING_LOST = Expect(lost_most=0)


def test_a_run_with_proof_and_without_loss_is_ok() -> None:
    proofs = (Proof(True, "node02 was stopped"),)
    assert judge(good(proofs=proofs), NOTHING_LOST) == Judgement(Verdict.OK)


# Void: no result, however perfect it looks ----------------------------------------------------------------------------


def late(evidence: Evidence) -> Evidence:
    """3 % of the queries left 8 ms late."""
    queries = tuple(replace(r, sent_ns=r.intended_ns + 8_000_000) if r.query % 33 == 0 else r for r in evidence.queries)
    return replace(evidence, queries=queries)


def stood_still_at_the_fault(evidence: Evidence) -> Evidence:
    """Four queries of 500 left when the router had long moved on: punctual at p99, and the outage is gone."""
    woke = evidence.fault.began_ns + NS // 5
    queries = tuple(
        replace(r, sent_ns=woke) if evidence.fault.began_ns <= r.intended_ns < woke else r for r in evidence.queries
    )
    return replace(evidence, queries=queries)


def skipped(evidence: Evidence) -> Evidence:
    return spoiled(evidence, Outcome.SKIPPED, lambda r, _: r.query == 50)


def unused_target(evidence: Evidence) -> Evidence:
    """The client was served by the two others all the time."""
    queries = tuple(replace(r, node="node01") if r.node == "node02" else r for r in evidence.queries)
    return replace(evidence, queries=queries)


def served_only_later(evidence: Evidence) -> Evidence:
    """The target served this client, but only after the fault: what was before counts."""
    began = evidence.fault.began_ns
    queries = tuple(
        replace(r, node="node03") if r.node == "node02" and r.intended_ns < began else r for r in evidence.queries
    )
    return replace(evidence, queries=queries)


def never_withdrawn(evidence: Evidence) -> Evidence:
    """A fault that the router never noticed hit nothing that mattered to it."""
    return replace(evidence, announcements=tuple(Announcement(0, node, True) for node in NODES))


def drained_before(evidence: Evidence) -> Evidence:
    """The target was withdrawn before the fault already."""
    before = Announcement(evidence.fault.began_ns - NS, "node02", False)
    return replace(evidence, announcements=(*evidence.announcements[:3], before, evidence.announcements[-1]))


def withdrawn_by_the_undoing(evidence: Evidence) -> Evidence:
    after = Announcement(evidence.reverted_ns + NS, "node02", False)
    return replace(evidence, announcements=(*evidence.announcements[:3], after))


def never_matched(evidence: Evidence) -> Evidence:
    return replace(evidence, proofs=(Proof(False, "0 packets of node02 were dropped", {"packets": 0}),))


def one_of_two_proofs(evidence: Evidence) -> Evidence:
    return replace(evidence, proofs=(Proof(True, "node02 was frozen"), Proof(False, "0 packets were dropped")))


def ended_before_the_fault_did(evidence: Evidence) -> Evidence:
    """A rolling deploy that was still going on when the phone had stopped."""
    return replace(evidence, fault=replace(evidence.fault, reverted_ns=evidence.queries[-1].intended_ns + NS))


def too_short_a_calm(evidence: Evidence) -> Evidence:
    return replace(evidence, queries=evidence.queries[90:])


def no_time_in_force(evidence: Evidence) -> Evidence:
    fault = replace(evidence.fault, reverted_ns=evidence.fault.began_ns + NS // 2)
    return replace(evidence, fault=fault)


def stopped_in_the_hold(evidence: Evidence) -> Evidence:
    """Everything after the first second of the fault was never decided."""
    return spoiled(evidence, Outcome.OPEN, lambda _, s: s > 0.5)


def only_cached_names(evidence: Evidence) -> Evidence:
    """The provider is silent and nobody asked for a name that was not in every cache."""
    queries = tuple(r for r in evidence.queries if r.kind != "uncached")
    return replace(evidence, queries=queries, uncacheable=("uncached",))


def the_same_names_again(evidence: Evidence) -> Evidence:
    """Called uncached, but asked before: the second time it is in the cache."""
    queries = tuple(replace(r, name="again.rnd.example") if r.kind == "uncached" else r for r in evidence.queries)
    return replace(evidence, queries=queries, uncacheable=("uncached",))


def uncached_in_the_calm_alone(evidence: Evidence) -> Evidence:
    began, reverted = evidence.fault.began_ns, evidence.reverted_ns
    queries = tuple(r for r in evidence.queries if r.kind != "uncached" or not began <= r.intended_ns <= reverted)
    return replace(evidence, queries=queries, uncacheable=("uncached",))


@pytest.mark.parametrize(
    ("vacuous", "says"),
    [
        (late, "The phone was late: 8.0 ms (p99)"),
        (stood_still_at_the_fault, "The phone stood still for 0.200 s in the fault"),
        (skipped, "The phone skipped 1 queries."),
        (unused_target, "node02 answered 0 of this client's queries before the fault: it hit nobody."),
        (served_only_later, "node02 answered 0 of this client's queries before the fault: it hit nobody."),
        (never_withdrawn, "The router kept its route through node02 all the time: the fault had no effect."),
        (drained_before, "The router kept its route through node02 all the time"),
        (withdrawn_by_the_undoing, "The router kept its route through node02 all the time"),
        (never_matched, "No proof: 0 packets of node02 were dropped."),
        (one_of_two_proofs, "No proof: 0 packets were dropped."),
        (ended_before_the_fault_did, "Only 0 queries were decided after the fault"),
        (too_short_a_calm, "Only 10 queries were decided before the fault"),
        (no_time_in_force, "Only 11 queries were decided during the fault"),
        (stopped_in_the_hold, "Only 11 queries were decided during the fault"),
        (only_cached_names, "Only 0 uncached queries that no cache can answer"),
        (the_same_names_again, "Only 0 uncached queries that no cache can answer"),
        (uncached_in_the_calm_alone, "Only 0 uncached queries that no cache can answer"),
    ],
)
def test_a_vacuous_run_is_void(vacuous: Callable[[Evidence], Evidence], says: str) -> None:
    # given a run that nobody lost anything in
    evidence = vacuous(good())
    # when
    judgement = judge(evidence, NOTHING_LOST)
    # then
    assert judgement.verdict is Verdict.VOID
    assert says in judgement.reason


def test_void_outweighs_failed() -> None:
    lost = spoiled(late(good()), Outcome.LOST, lambda _, s: 0 <= s < 2)
    assert judge(lost, NOTHING_LOST).verdict is Verdict.VOID


def test_every_target_must_have_served() -> None:
    fault = replace(good().fault, targets=("node02", "node03"))
    log = (*good().announcements, Announcement(good().fault.began_ns + NS, "node03", False))
    both = good(fault=fault, announcements=log)
    assert judge(both, NOTHING_LOST).verdict is Verdict.OK
    assert "node02" in judge(unused_target(both), NOTHING_LOST).reason


def test_a_fault_of_something_that_is_no_node_need_not_serve_or_withdraw() -> None:
    fault = replace(good().fault, targets=("upstream",))
    quiet = good(
        fault=fault,
        announcements=tuple(Announcement(0, node, True) for node in NODES),
        withdraws=False,
        proofs=(Proof(True, "12 packets to the provider were dropped"),),
    )
    assert judge(quiet, Expect(never_withdrawn=True)).verdict is Verdict.OK
    # Without its proof it has shown nothing, however well it went
    unproven = judge(replace(quiet, proofs=()), Expect(never_withdrawn=True))
    assert unproven == Judgement(Verdict.VOID, "Nothing proves that the fault was real.")


@pytest.mark.parametrize(("target", "withdraws"), [("node02", False), ("router", True), ("upstream", False)])
def test_without_proof_no_result(target: str, withdraws: bool) -> None:
    fault = replace(good().fault, targets=(target,))
    assert judge(good(fault=fault, withdraws=withdraws), Expect()).verdict is Verdict.VOID


def answered_by(who: str, begin: float, end: float, evidence: Evidence) -> Evidence:
    began = evidence.fault.began_ns
    queries = tuple(
        replace(r, node=who) if begin <= (r.intended_ns - began) / NS < end else r for r in evidence.queries
    )
    return replace(evidence, queries=queries)


@pytest.mark.parametrize("who", ["other", "evil"])
@pytest.mark.parametrize(("begin", "end"), [(6, 9), (-4, -3), (16, 18)])
def test_a_run_in_which_somebody_else_answers_is_void(who: str, begin: float, end: float) -> None:
    judgement = judge(answered_by(who, begin, end, good()), NOTHING_LOST)
    assert judgement.verdict is Verdict.VOID
    assert "queries were answered by no node of this home" in judgement.reason
    assert "while it had nodes that serve" in judgement.reason


def test_the_last_resort_may_answer_for_a_moment_after_the_fault() -> None:
    assert judge(answered_by("other", 0.3, 4.5, good()), NOTHING_LOST).verdict is Verdict.OK


def test_where_no_node_is_left_the_last_resort_answers() -> None:
    began, reverted = good().fault.began_ns, good().reverted_ns
    log = (
        *(Announcement(0, node, True) for node in NODES),
        *(Announcement(began + NS // 5, node, False) for node in NODES),
        *(Announcement(reverted + NS, node, True) for node in NODES),
    )
    dead = good(fault=replace(good().fault, targets=NODES), announcements=log)
    assert judge(answered_by("other", 1, 13, dead), NOTHING_LOST).verdict is Verdict.OK
    assert judge(answered_by("other", 17, 19, dead), NOTHING_LOST).verdict is Verdict.VOID


def test_a_scenario_may_expect_others_but_not_before_its_fault() -> None:
    expecting = good(others_answer=True)
    assert judge(answered_by("other", 6, 9, expecting), NOTHING_LOST).verdict is Verdict.OK
    assert judge(answered_by("other", -4, -3, expecting), NOTHING_LOST).verdict is Verdict.VOID


def test_a_node_that_is_back_before_the_fault_is_undone_is_no_success() -> None:
    began = good().fault.began_ns
    log = (
        *good().announcements[:-1],
        Announcement(began + 6 * NS // 10, "node02", True),
        Announcement(began + 9 * NS, "node02", False),
        good().announcements[-1],
    )
    judgement = judge(good(announcements=log), Expect(lost_most=0, stays_withdrawn=True))
    assert judgement.verdict is Verdict.FAILED
    assert judgement.reason == "node02 was back at the router 0.600 s after the fault, which was not undone then."
    assert judge(good(), Expect(lost_most=0, stays_withdrawn=True)).verdict is Verdict.OK


# Failed: a result, and not the one that is expected -------------------------------------------------------------------


def at(begin: float, end: float) -> Callable[[Record, float], bool]:
    return lambda _, seconds: begin <= seconds < end


def of_kind(kind: str, begin: float = 0.0, end: float = 10.0) -> Callable[[Record, float], bool]:
    return lambda record, seconds: record.kind == kind and begin <= seconds < end


@pytest.mark.parametrize(
    ("outcome", "chosen", "expect", "says"),
    [
        (Outcome.LOST, at(0, 0.05), NOTHING_LOST, "1 lost; at most 0 may be."),
        (Outcome.LATE, at(0, 0.05), NOTHING_LOST, "1 lost; at most 0 may be."),
        (Outcome.LOST, at(0, 0.05), Expect(lost_least=2), "Only 1 lost; without the protection at least 2 must be."),
        (Outcome.SERVFAIL, at(0, 0.1), Expect(servfail_most=1), "2 SERVFAIL; at most 1 may be."),
        (Outcome.WRONG, at(0, 0.1), Expect(), "2 answers were wrong; at most 0 may be."),
        (Outcome.LOST, at(0, 2), Expect(outage_most_s=1.5), "Felt outage 2.002 s; at most 1.5 s may be."),
        (Outcome.LOST, at(0, 2), Expect(outage_least_s=5), "Felt outage only 2.002 s"),
        (Outcome.LOST, at(0, 0.45), Expect(outage_detections=1.25), "Queries got lost for 0.450 s"),
        (Outcome.LOST, at(2.05, 2.1), Expect(clean_from_s=2.0), "1 lost later than 2 s after the fault."),
        (Outcome.LOST, of_kind("popular", 1, 1.3), Expect(clean_kinds=("popular",)), "popular queries failed"),
        (Outcome.SERVFAIL, of_kind("uncached", 3), Expect(failing_kinds=("uncached",)), "uncached queries were"),
        (Outcome.LOST, of_kind("popular", 1, 2), Expect(lost_least_of={"popular": 20}), "popular queries failed"),
        (Outcome.ANSWERED, at(0, 0), Expect(withdrawn_within_s=0.1), "Withdrawn at the router after 0.200 s"),
        (Outcome.ANSWERED, at(0, 0), Expect(returned_within_s=4), "Back at the router after 5.000 s"),
        (Outcome.ANSWERED, at(0, 0), Expect(never_withdrawn=True), "node02 was withdrawn 0.200 s after the fault."),
    ],
)  # fmt: skip
def test_outside_of_what_is_expected_is_failed(
    outcome: Outcome, chosen: Callable[[Record, float], bool], expect: Expect, says: str
) -> None:
    judgement = judge(spoiled(good(), outcome, chosen), expect)
    assert judgement.verdict is Verdict.FAILED
    assert says in judgement.reason


@pytest.mark.parametrize(
    ("outcome", "chosen", "expect"),
    [
        (Outcome.LOST, at(0, 0.05), Expect(lost_most=1)),
        (Outcome.LOST, at(0, 2), Expect(lost_least=40, outage_least_s=2)),
        # 3 x 100 ms, a quarter more, and one interval: 0.425 s
        (Outcome.LOST, at(0, 0.4), Expect(outage_detections=1.25)),
        (Outcome.LOST, at(0, 2), Expect(clean_from_s=2.0)),
        (Outcome.LOST, of_kind("uncached"), Expect(failing_kinds=("uncached",), clean_kinds=("popular", "local"))),
        (Outcome.SERVFAIL, of_kind("uncached"), Expect(failing_kinds=("uncached",), lost_most=0)),
        (Outcome.STALLED, at(0, 1), Expect(clean_kinds=("popular",), lost_most=0)),
        (Outcome.LOST, of_kind("popular", 0, 2), Expect(lost_least_of={"popular": 20})),
        (Outcome.WRONG, of_kind("popular", 0, 2), Expect(lost_least_of={"popular": 20}, wrong_most=None)),
        (Outcome.ANSWERED, at(0, 0), Expect(withdrawn_within_s=0.2, returned_within_s=5)),
    ],
)
def test_within_what_is_expected_is_ok(
    outcome: Outcome, chosen: Callable[[Record, float], bool], expect: Expect
) -> None:
    assert judge(spoiled(good(), outcome, chosen), expect) == Judgement(Verdict.OK)


def test_a_kind_that_was_never_asked_proves_nothing_about_itself() -> None:
    without = good(queries=tuple(r for r in good().queries if r.kind != "local"))
    assert judge(without, Expect(clean_kinds=("local",))).verdict is Verdict.FAILED


# Properties -----------------------------------------------------------------------------------------------------------

masks = st.lists(st.booleans(), min_size=500, max_size=500)


@given(masks)
def test_losing_more_never_makes_a_failed_run_ok(mask: list[bool]) -> None:
    """Whatever was lost: with one more loss, bounds that were broken stay broken."""
    expect = Expect(lost_most=3, outage_most_s=1.0, outage_detections=1.25, clean_from_s=2.0)
    some = spoiled(good(), Outcome.LOST, lambda r, _: mask[r.query])
    more = spoiled(some, Outcome.LOST, lambda r, _: r.query == 150)
    # Void is decided by what was answered before the fault; these keep it.
    few, many = judge(some, expect).verdict, judge(more, expect).verdict
    assert few is not Verdict.FAILED or many is Verdict.FAILED


@given(masks)
def test_a_control_is_ok_exactly_when_it_shows_the_loss(mask: list[bool]) -> None:
    some = spoiled(good(), Outcome.LOST, lambda r, s: mask[r.query] and s >= 0)
    lost = sum(r.outcome is Outcome.LOST for r in some.queries)
    assert (judge(some, Expect(lost_least=50)).verdict is Verdict.OK) is (lost >= 50)


@given(st.lists(st.booleans(), min_size=400, max_size=400))
def test_lost_time_is_that_of_the_longest_stretch(mask: list[bool]) -> None:
    some = spoiled(good(), Outcome.LOST, lambda r, _: r.query < 400 and mask[r.query])
    # 20 queries of 50 ms apart is one second: the same stretch; 21 is another one.
    text = "".join("x" if lost else "." for lost in mask)
    stretches = [part.strip(".") for part in re.split(r"\.{20,}", text)]
    assert lost_time_s(some.queries) == pytest.approx(0.05 * max(len(part) for part in stretches))


def test_a_later_loss_is_no_part_of_the_first() -> None:
    twice = spoiled(good(), Outcome.LOST, lambda _, s: 0 <= s < 0.2 or 5 <= s < 5.1)
    assert lost_time_s(twice.queries) == pytest.approx(0.2)
    assert judge(twice, Expect(outage_detections=1.25)).verdict is Verdict.OK
    assert judge(twice, Expect(outage_detections=1.25, clean_from_s=2.0)).verdict is Verdict.FAILED
