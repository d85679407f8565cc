"""From what was recorded to a verdict. Pure.

Three questions, in this order, and the first that is answered badly decides:

1. Was it a measurement? The phone was punctual, asked enough, and asked all the time the fault held.
2. Did the fault happen to this household? It has proofs and they hold, nobody but the nodes answered, each node it hit
   was serving this client in the calm before, the router lost its route through them (where the fault is one that
   withdraws), and questions that no cache can answer were asked meanwhile (where a cache could hide it). Otherwise a
   perfect run has shown nothing.
3. Is the loss what the scenario expects? A negative control must show its loss, or the protection is not what protects.

1 and 2 make a run VOID, 3 makes it FAILED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anycastlab.phone import limits as phone_limits
from anycastlab.phone.records import LOSSES, OTHER_NODE, Outcome, Record
from anycastlab.report import measurement, statistics
from anycastlab.report.expect import Expect
from anycastlab.report.measurement import decided as _decided
from anycastlab.report.run import Announcement, FaultWindow, Proof, Verdict

NS = 1_000_000_000
# Queries that no cache can answer, of each kind that matters, during the fault.
LEAST_UNCACHEABLE = 5
# Queries a target must have answered in the calm before: one could be chance, and a single flow gives all or nothing.
LEAST_SERVED = 3
# Seconds in which the last resort may answer although nodes do: after the fault began, and after nodes are back.
# Netwatch asks once a second, and may ask a node that has died and is still announced; what it hears holds until then.
LAST_RESORT_S = 5.0
# Seconds around the ends of the fault in which a query may see either side: packets on their way, and a rule or a
# process that takes effect while the action still returns.
EDGE_S = 0.25

_ANSWERED = frozenset({Outcome.ANSWERED, Outcome.STALLED})


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
    others_answer: bool = False  # somebody who is no node may answer once the fault is there

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
    yield from measurement.doubts(evidence.queries, evidence.fault)
    yield from (f"No proof: {proof.sentence}." for proof in evidence.proofs if not proof.holds)
    yield from _unproven(evidence)
    yield from _answered_by_others(evidence)
    yield from _unaimed(evidence)
    yield from _hidden_by_cache(evidence)


def misses(evidence: Evidence, expect: Expect) -> Iterator[str]:
    """Where the run is outside what is expected; a sentence each."""
    yield from _loss(evidence, expect)
    yield from _routes(evidence, expect)
    yield from _kinds(evidence, expect)


# Did it happen to this household --------------------------------------------------------------------------------------


def _unproven(evidence: Evidence) -> Iterator[str]:
    """A lost route is proof enough, and that it was lost is asked for elsewhere. Without that there must be another."""
    if not evidence.proofs and not (evidence.withdraws and evidence.nodes.intersection(evidence.fault.targets)):
        yield "Nothing proves that the fault was real."


def _answered_by_others(evidence: Evidence) -> Iterator[str]:
    """A foreign resolver that takes over in the fault makes every loss small. The last resort is none: it answers where
    no node does."""
    alone = _without_nodes(evidence)
    began_ns, settles_ns = evidence.fault.began_ns, round(LAST_RESORT_S * NS)

    def may(at_ns: int) -> bool:
        if at_ns >= began_ns and (evidence.others_answer or at_ns <= began_ns + settles_ns):
            return True
        return any(start_ns <= at_ns <= end_ns + settles_ns for start_ns, end_ns in alone)

    others = [
        record
        for record in evidence.queries
        if record.node and record.node not in evidence.nodes and record.outcome in _ANSWERED
        and not may(record.intended_ns)
    ]  # fmt: skip
    if others:
        who = others[0].node if others[0].node != OTHER_NODE else "nobody we know"
        yield f"{len(others)} queries were answered by no node of this home ({who}) while it had nodes that serve."


def _without_nodes(evidence: Evidence) -> list[tuple[int, int]]:
    """When the router had a route through no node at all."""
    spans: list[tuple[int, int]] = []
    up: set[str] = set()
    since: int | None = None
    for event in evidence.announcements:
        (up.add if event.announced else up.discard)(event.node)
        if up and since is not None:
            spans.append((since, event.time_ns))
            since = None
        elif not up and since is None:
            since = event.time_ns
    if since is not None and evidence.queries:
        spans.append((since, evidence.queries[-1].intended_ns))
    return spans


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
    if expect.stays_withdrawn:
        for target in fault.targets:
            if (back_s := _back_after(target, evidence)) is not None:
                yield f"{target} was back at the router {back_s:.3f} s after the fault, which was not undone then."
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


def _back_after(target: str, evidence: Evidence) -> float | None:
    """Seconds from the fault until the router had a route through a withdrawn target again; None: not in the fault."""
    withdrawn = False
    for event in evidence.announcements:
        if event.node == target and evidence.fault.began_ns <= event.time_ns <= evidence.reverted_ns:
            if withdrawn and event.announced:
                return (event.time_ns - evidence.fault.began_ns) / NS
            withdrawn = not event.announced
    return None


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


def _during(evidence: Evidence, queries: Iterable[Record]) -> list[Record]:
    return measurement.during(evidence.fault, queries)
