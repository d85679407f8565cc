"""A run on disk: one directory that says what was done, what was asked, and who was announced when.

    run.json              scenario, verdict, what was expected, fault window, proof, settings, versions, phone's summary
    queries.jsonl         one record per query (`queries.csv` is read as well); columns: anycastlab.phone.records
    announcements.jsonl   {"time_ns", "node", "announced"}: the router's view, in time order; the first line of a node
                          is its state when watching began

All times are CLOCK_MONOTONIC nanoseconds of one machine, faults and queries alike. Directories of several repeats lie
beside each other; the report groups them by scenario. `reading` reads one again, and believes nothing it can check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from anycastlab.errors import AnycastlabError
from anycastlab.phone import records
from anycastlab.phone.records import Record

FORMAT = 1
RUN_FILE, QUERIES_FILE, ANNOUNCEMENTS_FILE = "run.json", "queries.jsonl", "announcements.jsonl"
QUERIES_CSV = "queries.csv"


class ReportError(AnycastlabError):
    """A run's files are missing, damaged, or of another version."""


class Verdict(StrEnum):
    """What a run is worth."""

    OK = "ok"  # measured, proven, within what the scenario expects
    VOID = "void"  # no proof that the fault happened to this client, or the phone was late: no result
    FAILED = "failed"  # measured and proven, and outside what the scenario expects


@dataclass(frozen=True)
class Announcement:
    """From `time_ns` on, the router had a route to the service through `node`, or had none."""

    time_ns: int
    node: str
    announced: bool


@dataclass(frozen=True)
class FaultWindow:
    """What was broken, whom it hit, and from when to when."""

    what: str
    targets: tuple[str, ...]
    began_ns: int
    reverted_ns: int | None = None


@dataclass(frozen=True)
class Proof:
    """One piece of evidence that the fault was real for this client, or that it was not."""

    holds: bool
    sentence: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """Everything about one run. `reason` says why it is void or failed."""

    scenario: str
    title: str
    verdict: Verdict
    reason: str
    number: int
    fault: FaultWindow | None
    proof: tuple[Proof, ...]
    queries: tuple[Record, ...] = field(repr=False)
    announcements: tuple[Announcement, ...] = field(repr=False)
    phone: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the phone's summary document
    settings: Mapping[str, Any] = field(default_factory=dict)  # such as BFD interval, layout, last resort
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    # What it was to come to (see `expectation`); a run of an older version does not say.
    expected: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def start_ns(self) -> int:
        """When the first query was due."""
        return self.queries[0].intended_ns if self.queries else 0

    @property
    def end_ns(self) -> int:
        """When the last query was due."""
        return self.queries[-1].intended_ns if self.queries else 0

    @property
    def start_utc(self) -> str:
        return str(self.phone.get("clock", {}).get("start_utc", ""))


def write(run: Run, folder: Path) -> None:
    """Write the three files into `folder`, which is made; run.json last, so that an unfinished run has none."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / QUERIES_FILE).open("w", encoding="utf-8") as out:
        records.write_jsonl(run.queries, out)
    with (folder / ANNOUNCEMENTS_FILE).open("w", encoding="utf-8") as out:
        for event in run.announcements:
            fields = {"time_ns": event.time_ns, "node": event.node, "announced": event.announced}
            out.write(json.dumps(fields, separators=(",", ":")) + "\n")
    # All of it or nothing: on a full disk, half a run.json would be a damaged run.
    partial = folder / f"{RUN_FILE}.new"
    try:
        partial.write_text(json.dumps(_document(run), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(folder / RUN_FILE)
    finally:
        partial.unlink(missing_ok=True)


def _document(run: Run) -> dict[str, Any]:
    fault = run.fault
    return {
        "format": FORMAT,
        "scenario": run.scenario,
        "title": run.title,
        "verdict": run.verdict.value,
        "reason": run.reason,
        "number": run.number,
        "fault": fault
        and {
            "what": fault.what,
            "targets": list(fault.targets),
            "began_ns": fault.began_ns,
            "reverted_ns": fault.reverted_ns,
        },
        "proof": [{"holds": p.holds, "sentence": p.sentence, "evidence": dict(p.evidence)} for p in run.proof],
        "settings": dict(run.settings),
        "versions": dict(run.versions),
        "machine": dict(run.machine),
        "phone": dict(run.phone),
        "expected": run.expected,
    }
