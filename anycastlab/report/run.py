"""A run on disk: one directory that says what was done, what was asked, and who was announced when.

    run.json              scenario, verdict, fault window, proof, settings, versions, the phone's own summary
    queries.jsonl         one record per query (`queries.csv` is read as well); columns: anycastlab.phone.records
    announcements.jsonl   {"time_ns", "node", "announced"}: the router's view, in time order; the first line of a node
                          is its state when watching began

All times are CLOCK_MONOTONIC nanoseconds of one machine, faults and queries alike. Directories of several repeats lie
beside each other; the report groups them by scenario.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from anycastlab.errors import AnycastlabError
from anycastlab.outside_text import MOST_NAMES, name, one_line
from anycastlab.phone import records
from anycastlab.phone.errors import PhoneError
from anycastlab.phone.records import OTHER_NODE, Record
from anycastlab.phone.summary import wire_counts

FORMAT = 1
RUN_FILE, QUERIES_FILE, ANNOUNCEMENTS_FILE = "run.json", "queries.jsonl", "announcements.jsonl"
QUERIES_CSV = "queries.csv"
_TEXTS = ("client", "server", "name", "type", "kind", "rcode", "node", "note")  # of a record
MOST_TEXT = 2000  # characters of one text in run.json: a reason quotes several machines

_T = TypeVar("_T")


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
    partial.write_text(json.dumps(_document(run), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(folder / RUN_FILE)


def read(folder: Path) -> Run:
    """Read a run directory; raises ReportError."""
    try:
        document = json.loads((folder / RUN_FILE).read_text("utf-8"))
        queries = _read_queries(folder)
        announcements = tuple(_announcements(folder))
    except OSError as error:
        raise ReportError(
            f"{folder} is not a finished run: {error.strerror} ({error.filename}).",
            "Name directories that hold run.json, or a directory above them.",
        ) from None
    except (ValueError, PhoneError) as error:
        raise ReportError(f"A file of the run {folder} is damaged: {str(error).rstrip('.')}.") from None
    try:
        return _run(document, queries, announcements)
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(
            f"{folder / RUN_FILE} does not describe a run: {error!r}.", f"Expected is format {FORMAT}."
        ) from None


def find(paths: Iterable[Path]) -> list[Path]:
    """Run directories among and below `paths`, in order of name; raises ReportError when one holds none."""
    found: list[Path] = []
    for path in paths:
        folders = [path] if (path / RUN_FILE).exists() else sorted(file.parent for file in path.rglob(RUN_FILE))
        if not folders:
            raise ReportError(f"No run in {path}.", "Runs are directories with a run.json, usually below ./runs.")
        found.extend(folder for folder in folders if folder not in found)
    return found


def _read_queries(folder: Path) -> tuple[Record, ...]:
    table = folder / QUERIES_CSV
    if table.exists() and not (folder / QUERIES_FILE).exists():
        with table.open(encoding="utf-8", newline="") as lines:
            return _plain(records.read_csv(lines))
    with (folder / QUERIES_FILE).open(encoding="utf-8") as lines:
        return _plain(records.read_jsonl(lines))


def _plain(queries: Iterable[Record]) -> tuple[Record, ...]:
    """Without anybody's control characters. An answer may call itself anything: after as many names as nodes can be,
    who answers is `other`.
    """
    names: set[str] = set()
    kept = []
    for record in queries:
        texts = {key: one_line(getattr(record, key)) for key in _TEXTS}
        node = texts["node"] = name(record.node)
        if node and node not in names and len(names) >= MOST_NAMES:
            texts["node"] = OTHER_NODE
        elif node not in ("", OTHER_NODE):
            names.add(node)
        changed: dict[str, Any] = {key: text for key, text in texts.items() if text != getattr(record, key)}
        kept.append(replace(record, **changed) if changed else record)
    return tuple(kept)


def _announcements(folder: Path) -> Iterable[Announcement]:
    with (folder / ANNOUNCEMENTS_FILE).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            fields = json.loads(line)
            if not (
                isinstance(fields, dict)
                and type(fields.get("time_ns")) is int
                and isinstance(fields.get("node"), str)
                and isinstance(fields.get("announced"), bool)
            ):
                raise ValueError(f"line {number} of {ANNOUNCEMENTS_FILE} is not an announcement")
            yield Announcement(fields["time_ns"], name(fields["node"]), fields["announced"])


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
    }


def _run(document: Any, queries: tuple[Record, ...], announcements: tuple[Announcement, ...]) -> Run:
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r}")
    phone = _typed(document, "phone", dict)
    _check_phone(phone, queries)
    return Run(
        scenario=_typed(document, "scenario", str),
        title=_typed(document, "title", str),
        verdict=Verdict(document["verdict"]),
        reason=_typed(document, "reason", str),
        number=_typed(document, "number", int),
        fault=None if document["fault"] is None else _fault(_typed(document, "fault", dict)),
        proof=tuple(
            Proof(_typed(proof, "holds", bool), _typed(proof, "sentence", str), _typed(proof, "evidence", dict))
            for proof in _typed(document, "proof", list)
        ),
        queries=queries,
        announcements=announcements,
        phone=phone,
        settings=_typed(document, "settings", dict),
        versions=_typed(document, "versions", dict),
        machine=_typed(document, "machine", dict),
    )


def _fault(fields: dict[str, Any]) -> FaultWindow:
    targets = _typed(fields, "targets", list)
    if not all(isinstance(target, str) for target in targets):
        raise TypeError("targets")
    reverted_ns = None if fields["reverted_ns"] is None else _typed(fields, "reverted_ns", int)
    return FaultWindow(_typed(fields, "what", str), tuple(targets), _typed(fields, "began_ns", int), reverted_ns)


def _check_phone(phone: dict[str, Any], queries: tuple[Record, ...]) -> None:
    """What the report reads of the phone's summary, and that all queries it counted are there."""
    if "clock" in phone:
        _typed(phone, "clock", dict)
    if "schedule" in phone:
        timeout_s = _typed(phone, "schedule", dict).get("timeout_s", 1)
        if type(timeout_s) not in (int, float) or not timeout_s > 0:
            raise ValueError(f"timeout_s {timeout_s!r}")
    if "counts" in phone:
        counted = _typed(_typed(phone, "counts", dict), "sent", int)
        if counted != (found := wire_counts(queries)["sent"]):
            raise ValueError(f"{found} of the {counted} queries that the phone sent are in its records")


def _typed(fields: Any, key: str, kind: type[_T]) -> _T:
    """The value of a field, which must be of exactly that type (a bool is no int)."""
    if type(value := fields[key]) is not kind:
        raise TypeError(f"{key} {value!r}")
    cleaned: _T = _clean(value)
    return cleaned


def _clean(value: Any) -> Any:
    """A run's files may come from anybody, and may quote anybody: no text in them is more than text."""
    if isinstance(value, str):
        return one_line(value, MOST_TEXT)
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list) else value
