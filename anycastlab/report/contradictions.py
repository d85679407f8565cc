"""Where a run's files disagree with themselves. Pure; what is found here makes a run no run (see `reading`).

Whoever wants a broken run to look good edits its files, and so does a disk. Everything that can be computed from the
records is computed again and held against what is written: order, uniqueness, each record in itself, the phone's own
counts, the proofs that rest on the router's view, and a verdict that what lies beside it does not allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anycastlab.phone import limits, summary
from anycastlab.phone.records import Outcome, Record
from anycastlab.report import expectation, measurement, statistics
from anycastlab.report.run import ANNOUNCEMENTS_FILE, RUN_FILE, Announcement, Proof, Run, Verdict
from anycastlab.stored import shown

# Milliseconds by which figures may differ that were rounded twice, and nanoseconds of a timer that goes off early.
ROUNDING_MS, EARLY_NS = 0.002, 1_000_000
# What `wire_counts` has that the records alone give; strays belong to no query, and what a stopped run never reached is
# counted as open and not recorded.
_COUNTED = ("sent", "answered", "stalled", "lost", "late", "servfail", "wrong", "duplicates", "truncated")
_WITH_ANSWER = frozenset({Outcome.ANSWERED, Outcome.STALLED, Outcome.LATE, Outcome.SERVFAIL, Outcome.WRONG})


def contradictions(run: Run) -> Iterator[str]:
    """Each as the rest of a sentence that begins with the run's name, the first the most basic."""
    yield from _order(run.queries)
    timeout_ms = 1000.0 * run.phone.get("schedule", {}).get("timeout_s", limits.TIMEOUT_S)
    for record in run.queries:
        if why := _record(record, timeout_ms):
            yield f"query {record.query} {why}"
            break
    yield from _counts(run)
    yield from _announcements(run.announcements)
    if run.fault is not None and run.fault.reverted_ns is not None and run.fault.reverted_ns < run.fault.began_ns:
        yield f"the fault in {RUN_FILE} ended before it began"
        return
    yield from _proofs(run)
    yield from _verdict(run)
    yield from _judged(run)


def _order(queries: Sequence[Record]) -> Iterator[str]:
    for position, record in enumerate(queries):
        if record.query != position:
            seen = sum(record.query == other.query for other in queries) > 1
            yield (
                f"query {record.query} is in the records twice"
                if seen
                else f"query {record.query} stands where query {position} must be"
            )
            return
    for before, after in itertools.pairwise(queries):
        if after.intended_ns <= before.intended_ns:
            yield f"query {after.query} was due no later than query {before.query} before it"
            return


def _record(record: Record, timeout_ms: float) -> str:
    """What one record says of itself that cannot be, or nothing."""
    outcome, latency = record.outcome, record.latency_ms
    stall_ms = 1000.0 * limits.STALL_S
    word = outcome.value
    if outcome is Outcome.SKIPPED and record.sent_ns is not None:
        return f"is {word} and was sent"
    if outcome not in (Outcome.SKIPPED, Outcome.OPEN) and record.sent_ns is None:
        return f"is {word} and was never sent"
    if record.sent_ns is not None and record.sent_ns < record.intended_ns - EARLY_NS:
        return "was sent before it was due"
    if outcome in _WITH_ANSWER and (latency is None or not record.rcode):
        return f"is {word}, but no answer to it is recorded"
    if outcome is Outcome.LOST and (latency is not None or record.rcode):
        return f"is {word}, but an answer to it is recorded"
    if latency is None:
        return ""
    fits = {
        Outcome.ANSWERED: latency <= stall_ms + ROUNDING_MS,
        Outcome.STALLED: stall_ms - ROUNDING_MS <= latency <= timeout_ms + ROUNDING_MS,
        Outcome.LATE: latency >= timeout_ms - ROUNDING_MS,
        Outcome.SERVFAIL: latency <= timeout_ms + ROUNDING_MS and record.rcode == "SERVFAIL",
        Outcome.WRONG: latency <= timeout_ms + ROUNDING_MS,
    }
    return "" if fits.get(outcome, True) else f"is {word} after {latency:g} ms with {record.rcode or 'no answer'}"


def _counts(run: Run) -> Iterator[str]:
    """The phone counted while it asked."""
    phone = run.phone
    said, found = phone.get("counts"), summary.wire_counts(run.queries)
    if not isinstance(said, dict):
        yield f"{RUN_FILE} does not say how many queries the phone sent"
        return
    if said.get("sent") != found["sent"]:
        yield f"{found['sent']} of the {shown(said.get('sent'))} queries that the phone sent are in its records"
        return
    for key in _COUNTED:
        if said.get(key) != found[key]:
            yield f"the phone counted {shown(said.get(key))} {key}, and its records have {found[key]}"
            return
    if "share" in phone and phone["share"] != summary.shares(run.queries):
        yield "the phone's shares of the nodes are not those of its records"
    if "felt" in phone and phone["felt"] != summary.felt_counts(run.queries):
        yield "what the phone says was felt is not in its records"
    yield from _lateness(phone.get("phone"), run.queries)


def _lateness(said: Any, queries: Sequence[Record]) -> Iterator[str]:
    if said is None:
        return
    late = summary.lateness(queries)
    found: Mapping[str, float] = {
        "late_p50_ms": late.p50_ms, "late_p99_ms": late.p99_ms, "late_max_ms": late.max_ms, "skipped": late.skipped,
    }  # fmt: skip
    for key, value in found.items():
        written: Any = said.get(key) if isinstance(said, dict) else None
        if type(written) not in (int, float) or abs(written - value) > ROUNDING_MS:
            name = key.removesuffix("_ms").replace("_", " ")
            yield f"the phone's own lateness ({name}) is {shown(written)}, and its records give {value:g}"
            return


def _announcements(log: Sequence[Announcement]) -> Iterator[str]:
    state: dict[str, bool] = {}
    last_ns = 0
    for number, event in enumerate(log, 1):
        where = f"line {number} of {ANNOUNCEMENTS_FILE}"
        if event.time_ns < last_ns:
            yield f"{where} is earlier than the line before it"
            return
        if state.get(event.node) is event.announced:
            yield f"{where} says again that {event.node} {'is' if event.announced else 'is not'} announced"
            return
        last_ns = event.time_ns
        state[event.node] = event.announced


def _proofs(run: Run) -> Iterator[str]:
    for number, proof in enumerate(run.proof, 1):
        if why := _proof(proof, run):
            yield f"proof {number} says {why}"
            return


def _proof(proof: Proof, run: Run) -> str:
    """What of its evidence does not bear the proof out; those that can be checked at all."""
    evidence = proof.evidence
    if set(evidence) == {"node", "seconds"} and run.fault is not None:
        node = str(evidence["node"])
        seen = statistics.withdrawn_after(replace(run.fault, targets=(node,)), run.announcements)
        if seen != evidence["seconds"]:
            when = "never" if seen is None else f"after {seen:g} s"
            return f"that the router lost {node} after {shown(evidence['seconds'])} s, and its view has: {when}"
    packets = evidence.get("packets")
    if packets is not None and (type(packets) is not int or proof.holds is not (packets > 0)):
        return f"that {'it holds' if proof.holds else 'it does not hold'} with {shown(packets)} packets"
    return ""


def _verdict(run: Run) -> Iterator[str]:
    """An OK that its own evidence does not allow. What is void or failed may say so for reasons of its own."""
    if run.verdict is not Verdict.OK or run.fault is None:
        return
    if open_ := next((proof for proof in run.proof if not proof.holds), None):
        yield f"its verdict is OK, and a proof does not hold: {open_.sentence.rstrip('.')}"
    elif not run.proof:
        yield "its verdict is OK, and nothing proves that the fault was real"
    elif run.fault.reverted_ns is None:
        yield "its verdict is OK, and its fault has no end"
    elif doubt := next(measurement.doubts(run.queries, run.fault), None):
        yield f"its verdict is OK, and it was no measurement: {doubt.rstrip('.')}"


def _judged(run: Run) -> Iterator[str]:
    """The verdict that the records come to, made once more from what was expected."""
    if run.expected is None:  # a run of an older version; the report says so
        return
    try:
        again = expectation.judged_again(run)
    except ValueError as error:
        yield f"what was expected of it cannot be read from {RUN_FILE}: {error}"
        return
    if again is None:
        if run.verdict is Verdict.OK:
            yield "its verdict is OK, and no fault that was undone is in it"
    elif again.verdict is not run.verdict:
        yield (
            f"its verdict is {run.verdict.value.upper()}, and its records come to {again.verdict.value.upper()}"
            f"{': ' if again.reason else ''}{again.reason.rstrip('.')}"
        )
