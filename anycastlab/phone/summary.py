"""What a run comes to: counts, lateness, shares. Pure; the report on the control side goes further."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anycastlab.phone import limits
from anycastlab.phone.records import LOSSES, Outcome, Record

# The mix whose answers only the embedded lab can give right.
LAB_MIX = "lab"


@dataclass(frozen=True)
class Lateness:
    """How punctual the phone itself was. Milliseconds between intended and actual sending."""

    sent: int
    skipped: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @property
    def punctual(self) -> bool:
        """Only then is the run a measurement of anything but the phone."""
        return self.sent > 0 and self.skipped == 0 and self.p99_ms <= limits.LATE_P99_LIMIT_S * 1000


def lateness(records: Sequence[Record]) -> Lateness:
    late = sorted((r.sent_ns - r.intended_ns) / 1e6 for r in records if r.sent_ns is not None)
    skipped = sum(r.outcome is Outcome.SKIPPED for r in records)
    if not late:
        return Lateness(0, skipped, 0.0, 0.0, 0.0)
    return Lateness(len(late), skipped, percentile(late, 50), percentile(late, 99), round(late[-1], 3))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Nearest rank: a value that occurred. `ordered` is sorted and not empty."""
    return round(ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)], 3)


def wire_counts(records: Sequence[Record]) -> dict[str, int]:
    """Counts on the wire. `lost` holds the late ones too: the timeout counts."""
    outcomes = Counter(r.outcome for r in records)
    return {
        "sent": len(records) - outcomes[Outcome.SKIPPED] - outcomes[Outcome.OPEN],
        "answered": outcomes[Outcome.ANSWERED],
        "stalled": outcomes[Outcome.STALLED],
        "lost": sum(outcomes[outcome] for outcome in LOSSES),
        "late": outcomes[Outcome.LATE],
        "servfail": outcomes[Outcome.SERVFAIL],
        "wrong": outcomes[Outcome.WRONG],
        "open": outcomes[Outcome.OPEN],
        "duplicates": sum(r.duplicates for r in records),
        "discarded": sum(r.discarded for r in records),
        "truncated": sum(r.truncated for r in records),
    }


def felt_counts(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Per client: what people got after their stub's retries, and how long the slowest good answer took."""
    result: dict[str, dict[str, Any]] = {}
    for client in dict.fromkeys(r.client for r in records):
        mine = [r for r in records if r.client == client]
        felt = Counter(r.felt for r in mine)
        waits = [r.felt_ms for r in mine if r.felt is Outcome.ANSWERED and r.felt_ms is not None]
        result[client] = {
            "asked": len(mine) - felt[Outcome.SKIPPED] - felt[Outcome.OPEN],
            "answered": felt[Outcome.ANSWERED],
            "failed": felt[Outcome.LOST] + felt[Outcome.SERVFAIL] + felt[Outcome.WRONG],
            "longest_wait_ms": max(waits, default=None),
            "tries": sum(r.tries for r in mine),
        }
    return result


def shares(records: Sequence[Record]) -> dict[str, float]:
    """Share of the identified queries per node, in order of name."""
    known = Counter(r.node for r in records if r.node)
    total = sum(known.values())
    return {node: round(number / total, 4) for node, number in sorted(known.items())}


def document(records: Sequence[Record], about: dict[str, Any], interrupted: bool, stray: int) -> dict[str, Any]:
    """The JSON summary. `about` is the configuration, clock and machine of the run."""
    late = lateness(records)
    counts = wire_counts(records)
    counts["discarded"] += stray
    return {
        **about,
        "interrupted": interrupted,
        "counts": counts,
        "felt": felt_counts(records),
        "share": shares(records),
        "phone": {
            "late_p50_ms": late.p50_ms,
            "late_p99_ms": late.p99_ms,
            "late_max_ms": late.max_ms,
            "late_limit_ms": limits.LATE_P99_LIMIT_S * 1000,
            "skipped": late.skipped,
            "punctual": late.punctual,
        },
    }


def lines(summary: dict[str, Any]) -> list[str]:
    """For people."""
    counts, phone = summary["counts"], summary["phone"]
    text = [
        f"sent {counts['sent']}: {counts['answered']} answered, {counts['stalled']} stalled, {counts['lost']} lost"
        f" ({counts['late']} of them late), {counts['servfail']} SERVFAIL, {counts['wrong']} wrong"
    ]
    if 2 * counts["wrong"] > counts["sent"] and summary["schedule"]["mix"] == LAB_MIX:
        text.append("wrong: the names asked for are the embedded lab's; for another home use --mix home, or a list")
    if summary["share"]:
        text.append("nodes: " + ", ".join(f"{node} {share:.1%}" for node, share in summary["share"].items()))
    for client, felt in summary["felt"].items():
        if client != "wire":
            waited = "" if felt["longest_wait_ms"] is None else f", longest wait {felt['longest_wait_ms'] / 1000:.2f} s"
            text.append(f"felt with {client}: {felt['failed']} of {felt['asked']} failed{waited}")
    text.append(
        f"phone: sent within {phone['late_p99_ms']:.2f} ms of its time (p99; most {phone['late_max_ms']:.2f} ms), "
        f"{phone['skipped']} skipped: {'punctual' if phone['punctual'] else 'NOT PUNCTUAL, this is no measurement'}"
    )
    return text
