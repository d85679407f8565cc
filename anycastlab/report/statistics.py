"""What a run comes to. Pure functions over records and announcements.

The words, exactly:

lost         nothing acceptable within the phone's timeout; an answer after it changes nothing
stalled      a right answer within the timeout, but slower than the stall limit (0.5 s)
SERVFAIL     counted apart: the network worked, the resolver could not
bad          any of these, and wrong answers
felt outage  from the moment of the first bad query until names resolve again: the answer of the last bad query where it
             was answered, else the next good answer. Bad queries belong to one stretch while less than
             `STRETCH_GAP_S` (or 20 queries, if that is longer) lies between them: with several nodes, good and bad
             answers alternate, and to a person that is one outage. The longest stretch of the run counts
worst gap    the longest unbroken row of lost queries: how many, and from the first one to the next query after the row
withdrawn    from the fault until the router has no route through any of the nodes it hit; returned: from its end until
             it has one through all of them again
share        of the queries whose node is known, how many each node served

There is no "answered %" here and no percentile over a whole run: both say that a quiet hour makes an outage small.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from anycastlab.phone import summary
from anycastlab.phone.records import LOSSES, Outcome, Record
from anycastlab.report.run import Announcement, FaultWindow, Run, Verdict

NS = 1_000_000_000
# Two bad queries this far apart, with good ones between, are two outages.
STRETCH_GAP_S = 1.0
# At low rates a second holds few queries; so many of them must be good before an outage is over.
STRETCH_GAP_QUERIES = 20

_GOOD = frozenset({Outcome.ANSWERED})
# Neither good nor bad: never asked, or not decided when the run was stopped.
_UNDECIDED = frozenset({Outcome.SKIPPED, Outcome.OPEN})


@dataclass(frozen=True)
class Gap:
    """A row of lost queries."""

    queries: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class PhoneCheck:
    """Whether the instrument itself was in order."""

    late_p99_ms: float
    skipped: int


@dataclass(frozen=True)
class RunSummary:
    """The numbers of one run; `as_json` is what `scenario run --json` prints for it."""

    sent: int
    lost: int
    stalled: int
    servfail: int
    wrong: int
    felt_outage_s: float
    worst_gap: Gap
    withdrawn_after_s: float | None
    returned_after_s: float | None
    share: dict[str, float]
    proof: tuple[str, ...]
    phone: PhoneCheck
    verdict: Verdict
    reason: str
    felt: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict.value, "proof": list(self.proof)}


@dataclass(frozen=True)
class Stretch:
    """A stretch of bad queries; nanoseconds on the run's clock."""

    began_ns: int
    ended_ns: int
    bad: int

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.began_ns) / NS


@dataclass(frozen=True)
class Spread:
    """A number over repeats. `count` repeats had it."""

    median: float
    low: float
    high: float
    count: int


def summarize(run: Run) -> RunSummary:
    """The numbers of one run."""
    late = summary.lateness(run.queries)
    decided = Counter(r.outcome for r in run.queries if r.outcome not in _UNDECIDED)
    stretches = outages(run.queries)
    return RunSummary(
        sent=decided.total(),
        lost=sum(decided[outcome] for outcome in LOSSES),
        stalled=decided[Outcome.STALLED],
        servfail=decided[Outcome.SERVFAIL],
        wrong=decided[Outcome.WRONG],
        felt_outage_s=round(max((s.seconds for s in stretches), default=0.0), 3),
        worst_gap=worst_gap(run.queries),
        withdrawn_after_s=withdrawn_after(run.fault, run.announcements),
        returned_after_s=returned_after(run.fault, run.announcements),
        share=summary.shares(run.queries),
        proof=tuple(p.sentence for p in run.proof),
        phone=PhoneCheck(late.p99_ms, late.skipped),
        verdict=run.verdict,
        reason=run.reason,
        felt=summary.felt_counts(run.queries),
    )


def outages(queries: Sequence[Record]) -> list[Stretch]:
    """Every stretch of bad queries, in time order."""
    decided = [r for r in queries if r.outcome not in _UNDECIDED]
    allowed_ns = max(STRETCH_GAP_S * NS, STRETCH_GAP_QUERIES * interval_ns(decided))
    groups: list[list[Record]] = []
    for record in decided:
        if record.outcome in _GOOD:
            continue
        if groups and record.intended_ns - groups[-1][-1].intended_ns <= allowed_ns:
            groups[-1].append(record)
        else:
            groups.append([record])
    return [Stretch(group[0].intended_ns, _recovered_ns(group, decided), len(group)) for group in groups]


def worst_gap(queries: Sequence[Record]) -> Gap:
    """The longest unbroken row of lost queries."""
    decided = [r for r in queries if r.outcome not in _UNDECIDED]
    best = Gap()
    first = None
    for position, record in enumerate([*decided, None]):
        if record is not None and record.outcome in LOSSES:
            first = position if first is None else first
        elif first is not None:
            # To the next query; at the end of the run there is none, and one interval stands for it.
            end_ns = record.intended_ns if record else decided[-1].intended_ns + interval_ns(decided)
            gap = Gap(position - first, round((end_ns - decided[first].intended_ns) / NS, 3))
            best = max(best, gap, key=lambda g: (g.queries, g.seconds))
            first = None
    return best


def withdrawn_after(fault: FaultWindow | None, log: Iterable[Announcement]) -> float | None:
    """Seconds from the fault until the router had no route through any target; None when that never happened."""
    return None if fault is None else _all_become(False, fault.targets, fault.began_ns, fault.reverted_ns, log)


def returned_after(fault: FaultWindow | None, log: Iterable[Announcement]) -> float | None:
    """Seconds from the end of the fault until the router had routes through all targets that it had lost."""
    if fault is None or fault.reverted_ns is None:
        return None
    events = list(log)
    lost = tuple(
        target
        for target in fault.targets
        if any(
            e.node == target and not e.announced and fault.began_ns <= e.time_ns <= fault.reverted_ns for e in events
        )
    )
    return _all_become(True, lost, fault.reverted_ns, None, events)


def announced_spans(log: Iterable[Announcement], node: str, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """When `node` was announced between two times. Before its first line, the opposite of that line held."""
    spans: list[tuple[int, int]] = []
    mine = sorted((e for e in log if e.node == node), key=lambda e: e.time_ns)
    if not mine:
        return spans
    since = start_ns if mine[0].time_ns > start_ns and not mine[0].announced else None
    for event in mine:
        at_ns = min(max(event.time_ns, start_ns), end_ns)
        if event.announced and since is None:
            since = at_ns
        elif not event.announced and since is not None:
            if at_ns > since:
                spans.append((since, at_ns))
            since = None
    if since is not None and since < end_ns:
        spans.append((since, end_ns))
    return spans


def interval_ns(queries: Sequence[Record]) -> float:
    """The schedule's step: median distance between queries; 0 with fewer than two."""
    steps = [b.intended_ns - a.intended_ns for a, b in itertools.pairwise(queries)]
    return statistics.median(steps) if steps else 0.0


def spread(values: Iterable[float | None]) -> Spread | None:
    """Median and range of the values that exist; None when none does."""
    known = [value for value in values if value is not None]
    return Spread(statistics.median(known), min(known), max(known), len(known)) if known else None


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several runs: void outweighs failed, failed outweighs ok; nothing at all is void."""
    seen = set(verdicts)
    if Verdict.VOID in seen or not seen:
        return Verdict.VOID
    return Verdict.FAILED if Verdict.FAILED in seen else Verdict.OK


def _recovered_ns(group: list[Record], decided: list[Record]) -> int:
    """When a stretch was over."""
    answered = [_answer_ns(r) for r in group if r.outcome not in LOSSES and r.latency_ms is not None]
    last = group[-1]
    if last.outcome in LOSSES:
        after = [_answer_ns(r) for r in decided if r.intended_ns > last.intended_ns and r.outcome in _GOOD]
        # Without a good answer after it, the outage lasted until the end of the record, one step after its last query.
        answered.append(min(after) if after else round(decided[-1].intended_ns + interval_ns(decided)))
    return max(answered, default=last.intended_ns)


def _answer_ns(record: Record) -> int:
    return record.intended_ns + round((record.latency_ms or 0.0) * 1e6)


def _all_become(
    announced: bool, targets: tuple[str, ...], from_ns: int, until_ns: int | None, log: Iterable[Announcement]
) -> float | None:
    """Seconds from `from_ns` until every target had come into that state; None when never, or without targets.

    A return that happened before the fault was reverted (systemd restarted what was killed) took 0 s; a node that was
    withdrawn before the fault began was not withdrawn by it.
    """
    state: dict[str, bool] = {}
    if not targets:
        return None
    events = sorted(log, key=lambda e: e.time_ns)
    for event in events:
        if event.time_ns < from_ns:
            state[event.node] = event.announced
    if announced and all(state.get(node) for node in targets):
        return 0.0
    for event in events:
        if event.time_ns < from_ns or (until_ns is not None and event.time_ns > until_ns):
            continue
        state[event.node] = event.announced
        if event.node in targets and all(state.get(node) is announced for node in targets):
            return round((event.time_ns - from_ns) / NS, 3)
    return None
