"""From what was recorded to a verdict. Pure.

Three questions, in this order, and the first that is answered badly decides:

1. Was it a measurement? The phone was punctual, asked enough, and asked all the time the fault held.
2. Did the fault happen to this household? Its proofs hold, each node it hit was serving this client in the calm before,
   the router lost its route through them (where the fault is one that withdraws), and questions that no cache can
   answer were asked meanwhile (where a cache could hide it). Otherwise a perfect run has shown nothing.
3. Is the loss what the scenario expects? A negative control must show its loss, or the protection is not what protects.

1 and 2 make a run VOID, 3 makes it FAILED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anycastlab.phone import limits as phone_limits
from anycastlab.phone import summary
from anycastlab.phone.records import LOSSES, Outcome, Record
from anycastlab.report import statistics
from anycastlab.report.run import Announcement, FaultWindow, Proof, Verdict
from anycastlab.scenarios.model import Expect

NS = 1_000_000_000
# Queries that must have been asked before, during and after the fault: fewer say nothing about a loss.
LEAST_QUERIES = 20
# Queries that no cache can answer, of each kind that matters, during the fault.
LEAST_UNCACHEABLE = 5
# Queries a target must have answered in the calm before: one could be chance, and a single flow gives all or nothing.
LEAST_SERVED = 3
# Seconds that a query due in the fault may leave late: two intervals at 20 per second. A phone that stands still for a
# second just then is punctual at p99, and has asked nobody while queries got lost.
LATE_IN_FAULT_S = 0.1
# Seconds around the ends of the fault in which a query may see either side: packets on their way, and a rule or a
# process that takes effect while the action still returns.
EDGE_S = 0.25

_ANSWERED = frozenset({Outcome.ANSWERED, Outcome.STALLED})
_UNDECIDED = frozenset({Outcome.SKIPPED, Outcome.OPEN})


@dataclass(frozen=True)
class Evidence:
    """All that a verdict is made from."""

    queries: Sequence[Record]
    announcements: Sequence[Announcement]
    fault: FaultWindow
    nodes: frozenset[str]  # the targets among these were to be serving this client
    proofs: Sequence[Proof] = ()
    withdraws: bool = False  # this fault makes the router lose the route through each target that is a node
    uncacheable: tuple[str, ...] = ()
    detection_s: float = 0.3  # BFD's, RFC 5880

    @property
    def reverted_ns(self) -> int:
        assert self.fault.reverted_ns is not None
        return self.fault.reverted_ns


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    reason: str = ""


def judge(evidence: Evidence, expect: Expect) -> Judgement:
    """The verdict, with all reasons of the kind that decided it."""
    if void := list(doubts(evidence)):
        return Judgement(Verdict.VOID, " ".join(void))
    if failed := list(misses(evidence, expect)):
        return Judgement(Verdict.FAILED, " ".join(failed))
    return Judgement(Verdict.OK)


def doubts(evidence: Evidence) -> Iterator[str]:
    """Why the run is no result; a sentence each."""
    yield from _instrument(evidence)
    yield from (f"No proof: {proof.sentence}." for proof in evidence.proofs if not proof.holds)
    yield from _unaimed(evidence)
    yield from _hidden_by_cache(evidence)


def misses(evidence: Evidence, expect: Expect) -> Iterator[str]:
    """Where the run is outside what is expected; a sentence each."""
    yield from _loss(evidence, expect)
    yield from _routes(evidence, expect)
    yield from _kinds(evidence, expect)


# Was it a measurement -------------------------------------------------------------------------------------------------


def _instrument(evidence: Evidence) -> Iterator[str]:
    late = summary.lateness(evidence.queries)
    limit_ms = phone_limits.LATE_P99_LIMIT_S * 1000
    if late.skipped:
        yield f"The phone skipped {late.skipped} queries."
    if late.p99_ms > limit_ms:
        yield f"The phone was late: {late.p99_ms:.1f} ms (p99), and at most {limit_ms:g} ms is a measurement."
    decided = _decided(evidence.queries)
    late_ns = max((r.sent_ns - r.intended_ns for r in _during(evidence, decided) if r.sent_ns is not None), default=0)
    if late_ns > LATE_IN_FAULT_S * NS:
        yield f"The phone stood still for {late_ns / NS:.3f} s in the fault: what got lost meanwhile, nobody asked."
    parts = {
        "before": [r for r in decided if r.intended_ns < evidence.fault.began_ns],
        "during": _during(evidence, decided),
        "after": [r for r in decided if r.intended_ns > evidence.reverted_ns],
    }
    for when, asked in parts.items():
        if len(asked) < LEAST_QUERIES:
            yield f"Only {len(asked)} queries were decided {when} the fault; {LEAST_QUERIES} are the least."


# Did it happen to this household --------------------------------------------------------------------------------------


def _unaimed(evidence: Evidence) -> Iterator[str]:
    fault = evidence.fault
    before = [r for r in evidence.queries if r.intended_ns < fault.began_ns and r.outcome in _ANSWERED]
    served = Counter(record.node for record in before)
    for target in fault.targets:
        if target not in evidence.nodes:
            continue
        if served[target] < LEAST_SERVED:
            yield f"{target} answered {served[target]} of this client's queries before the fault: it hit nobody."
        if evidence.withdraws and not _lost_route(target, evidence):
            yield f"The router kept its route through {target} all the time: the fault had no effect."


def _lost_route(target: str, evidence: Evidence) -> bool:
    """Whether the router had a route through the target when the fault began, and lost it before it was reverted."""
    state = False
    lost = False
    for event in sorted(evidence.announcements, key=lambda event: event.time_ns):
        if event.node != target or event.time_ns > evidence.reverted_ns:
            continue
        if event.time_ns >= evidence.fault.began_ns and state and not event.announced:
            lost = True
        state = event.announced
    return lost


def _hidden_by_cache(evidence: Evidence) -> Iterator[str]:
    asked = Counter(record.name for record in evidence.queries)
    during = _during(evidence, _decided(evidence.queries))
    for kind in evidence.uncacheable:
        # A name that was asked once in the whole run was in no cache.
        fresh = sum(record.kind == kind and asked[record.name] == 1 for record in during)
        if fresh < LEAST_UNCACHEABLE:
            yield f"Only {fresh} {kind} queries that no cache can answer were asked during the fault: one may hide it."


# Is it what is expected -----------------------------------------------------------------------------------------------


def _loss(evidence: Evidence, expect: Expect) -> Iterator[str]:
    decided = _decided(evidence.queries)
    lost = sum(record.outcome in LOSSES for record in decided)
    servfail = sum(record.outcome is Outcome.SERVFAIL for record in decided)
    outage_s = max((stretch.seconds for stretch in statistics.outages(decided)), default=0.0)
    gap = statistics.worst_gap(decided)
    wrong = sum(record.outcome is Outcome.WRONG for record in decided)
    if expect.wrong_most is not None and wrong > expect.wrong_most:
        yield f"{wrong} answers were wrong; at most {expect.wrong_most} may be."
    if expect.lost_most is not None and lost > expect.lost_most:
        yield f"{lost} lost; at most {expect.lost_most} may be."
    if expect.lost_least is not None and lost < expect.lost_least:
        yield f"Only {lost} lost; without the protection at least {expect.lost_least} must be."
    if expect.servfail_most is not None and servfail > expect.servfail_most:
        yield f"{servfail} SERVFAIL; at most {expect.servfail_most} may be."
    if expect.outage_most_s is not None and outage_s > expect.outage_most_s:
        yield f"Felt outage {outage_s:.3f} s; at most {expect.outage_most_s:g} s may be."
    if expect.outage_least_s is not None and outage_s < expect.outage_least_s:
        yield f"Felt outage only {outage_s:.3f} s; without the protection at least {expect.outage_least_s:g} s must be."
    if expect.outage_detections is not None:
        most_s = expect.outage_detections * evidence.detection_s + statistics.interval_ns(decided) / NS
        lost_s = lost_time_s(decided)
        if lost_s > most_s:
            yield (
                f"Queries got lost for {lost_s:.3f} s (worst gap {gap.queries}); at most "
                f"{most_s:.3f} s may be: {expect.outage_detections:g} x BFD's {evidence.detection_s:g} s and one query."
            )
    if expect.clean_from_s is not None:
        from_ns = evidence.fault.began_ns + round(expect.clean_from_s * NS)
        late = sum(record.outcome in LOSSES and record.intended_ns >= from_ns for record in decided)
        if late:
            yield f"{late} lost later than {expect.clean_from_s:g} s after the fault."


def lost_time_s(queries: Iterable[Record]) -> float:
    """How long queries that were sent got lost: from the first lost one to the last, and one interval, which is the
    resolution. Of several stretches (see `statistics`) the longest."""
    decided = _decided(queries)
    interval_ns = statistics.interval_ns(decided)
    joins_ns = max(statistics.STRETCH_GAP_S * NS, statistics.STRETCH_GAP_QUERIES * interval_ns)
    longest_ns = 0.0
    first = last = None
    for at in (record.intended_ns for record in decided if record.outcome in LOSSES):
        if first is None or last is None or at - last > joins_ns:
            first = at
        last = at
        longest_ns = max(longest_ns, last - first + interval_ns)
    return longest_ns / NS


def _routes(evidence: Evidence, expect: Expect) -> Iterator[str]:
    fault, log = evidence.fault, evidence.announcements
    if expect.never_withdrawn:
        for event in log:
            if fault.began_ns <= event.time_ns <= evidence.reverted_ns and not event.announced:
                yield f"{event.node} was withdrawn {(event.time_ns - fault.began_ns) / NS:.3f} s after the fault."
    for most_s, took_s, word in (
        (expect.withdrawn_within_s, statistics.withdrawn_after(fault, log), "withdrawn"),
        (expect.returned_within_s, statistics.returned_after(fault, log), "back"),
    ):
        if most_s is None:
            continue
        if took_s is None:
            yield f"Never {word} at the router; it may take {most_s:g} s."
        elif took_s > most_s:
            yield f"{word.capitalize()} at the router after {took_s:.3f} s; it may take {most_s:g} s."


def _kinds(evidence: Evidence, expect: Expect) -> Iterator[str]:
    decided = _decided(evidence.queries)
    for kind in expect.clean_kinds:
        mine = [record for record in decided if record.kind == kind]
        bad = sum(record.outcome not in _ANSWERED for record in mine)
        if bad or not mine:
            yield f"{bad} of {len(mine)} {kind} queries failed; none may."
    for kind, least in expect.lost_least_of.items():
        bad = sum(record.kind == kind and record.outcome not in _ANSWERED for record in decided)
        if bad < least:
            yield f"Only {bad} {kind} queries failed; without the protection at least {least} must."
    edge_ns = round(EDGE_S * NS)
    for kind in expect.failing_kinds:
        mine = [
            record
            for record in _during(evidence, decided)
            if record.kind == kind
            and record.intended_ns >= evidence.fault.began_ns + edge_ns
            # One that was still waiting when the fault ended may get its answer after all.
            and record.intended_ns + phone_limits.TIMEOUT_S * NS <= evidence.reverted_ns - edge_ns
        ]
        answered = sum(record.outcome in _ANSWERED for record in mine)
        if answered or not mine:
            yield f"{answered} of {len(mine)} {kind} queries were answered during the fault; none may be."


def _decided(queries: Iterable[Record]) -> list[Record]:
    return [record for record in queries if record.outcome not in _UNDECIDED]


def _during(evidence: Evidence, queries: Iterable[Record]) -> list[Record]:
    return [r for r in queries if evidence.fault.began_ns <= r.intended_ns <= evidence.reverted_ns]
