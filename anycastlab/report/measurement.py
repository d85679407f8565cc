"""Whether a run was a measurement: the phone was punctual, asked enough, and asked throughout the fault. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anycastlab.phone import limits, summary
from anycastlab.phone.records import Outcome, Record
from anycastlab.report.run import FaultWindow

NS = 1_000_000_000
# Queries that must have been asked before, during and after the fault: fewer say nothing about a loss.
LEAST_QUERIES = 20
# Seconds that a query due in the fault may leave late: two intervals at 20 per second. A phone that stands still for a
# second just then is punctual at p99, and has asked nobody while queries got lost.
LATE_IN_FAULT_S = 0.1

_UNDECIDED = frozenset({Outcome.SKIPPED, Outcome.OPEN})


def doubts(queries: Sequence[Record], fault: FaultWindow) -> Iterator[str]:
    """Why it was none; a sentence each."""
    late = summary.lateness(queries)
    limit_ms = limits.LATE_P99_LIMIT_S * 1000
    if late.skipped:
        yield f"The phone skipped {late.skipped} queries."
    if late.p99_ms > limit_ms:
        yield f"The phone was late: {late.p99_ms:.1f} ms (p99), and at most {limit_ms:g} ms is a measurement."
    asked = decided(queries)
    meanwhile = during(fault, asked)
    late_ns = max((r.sent_ns - r.intended_ns for r in meanwhile if r.sent_ns is not None), default=0)
    if late_ns > LATE_IN_FAULT_S * NS:
        yield f"The phone stood still for {late_ns / NS:.3f} s in the fault: what got lost meanwhile, nobody asked."
    parts = {
        "before": [r for r in asked if r.intended_ns < fault.began_ns],
        "during": meanwhile,
        "after": [r for r in asked if fault.reverted_ns is not None and r.intended_ns > fault.reverted_ns],
    }
    for when, some in parts.items():
        if len(some) < LEAST_QUERIES:
            yield f"Only {len(some)} queries were decided {when} the fault; {LEAST_QUERIES} are the least."


def decided(queries: Iterable[Record]) -> list[Record]:
    """Those of which it is known what became."""
    return [record for record in queries if record.outcome not in _UNDECIDED]


def during(fault: FaultWindow, queries: Iterable[Record]) -> list[Record]:
    """Those that were due while the fault held."""
    end_ns = fault.reverted_ns
    return [r for r in queries if fault.began_ns <= r.intended_ns and (end_ns is None or r.intended_ns <= end_ns)]
