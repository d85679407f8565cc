"""A run's directory read again: what is damaged, of another version, or disagrees with itself is refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from anycastlab import stored
from anycastlab.outside_text import MOST_NAMES, name, one_line
from anycastlab.phone import records
from anycastlab.phone.errors import PhoneError
from anycastlab.phone.limits import MAX_QUERIES
from anycastlab.phone.records import OTHER_NODE, Record
from anycastlab.report.contradictions import contradictions
from anycastlab.report.run import (
    ANNOUNCEMENTS_FILE,
    FORMAT,
    QUERIES_CSV,
    QUERIES_FILE,
    RUN_FILE,
    Announcement,
    FaultWindow,
    Proof,
    ReportError,
    Run,
    Verdict,
)
from anycastlab.stored import Damaged, shown

_TEXTS = ("client", "server", "name", "type", "kind", "rcode", "node", "note")  # of a record
MOST_TEXT = 2000  # characters of one text in run.json: a reason quotes several machines
# Longest run in seconds whose timeout makes sense, and the latest moment of CLOCK_MONOTONIC that a record may have.
_MOST_TIMEOUT_S = 3600.0
_MOST_NS = 1 << 63
_KINDS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}

_T = TypeVar("_T")


class _NoRun(ValueError):  # noqa: N818  (what the file is not)
    """run.json is JSON and describes no run; the message says where and why."""


def read(folder: Path) -> Run:
    """Read a run directory; raises ReportError."""
    try:
        document = _whole(folder / RUN_FILE, stored.read_json)
        queries = _queries(folder)
        announcements = tuple(_whole(folder / ANNOUNCEMENTS_FILE, _announcements))
    except OSError as error:
        raise ReportError(
            f"{folder} is not a finished run: {error.strerror} ({error.filename}).",
            "Name directories that hold run.json, or a directory above them.",
        ) from None
    except (Damaged, PhoneError) as error:
        raise ReportError(f"A file of the run {folder} is damaged: {str(error).rstrip('.')}.") from None
    try:
        run = _run(document, queries, announcements)
    except _NoRun as error:
        raise ReportError(
            f"{folder / RUN_FILE} does not describe a run: {error}.", f"Expected is format {FORMAT}."
        ) from None
    if why := next(contradictions(run), None):
        raise ReportError(f"The run {folder} contradicts itself: {why}.", "It is in no report; run the scenario again.")
    return run


def find(paths: Iterable[Path]) -> list[Path]:
    """Run directories among and below `paths`, in order of name; raises ReportError when one holds none."""
    found: list[Path] = []
    for path in paths:
        folders = [path] if (path / RUN_FILE).exists() else sorted(file.parent for file in path.rglob(RUN_FILE))
        if not folders:
            raise ReportError(f"No run in {path}.", "Runs are directories with a run.json, usually below ./runs.")
        found.extend(folder for folder in folders if folder not in found)
    return found


def _whole(path: Path, reader: Callable[[Path], _T]) -> _T:
    """What the reader makes of one file; its name in what it complains of."""
    try:
        return reader(path)
    except Damaged as error:
        raise Damaged(f"{path.name}: {error}") from None


def _queries(folder: Path) -> tuple[Record, ...]:
    table = folder / QUERIES_CSV
    if table.exists() and not (folder / QUERIES_FILE).exists():
        return _whole(table, lambda path: _records(path, records.read_csv))
    return _whole(folder / QUERIES_FILE, lambda path: _records(path, records.read_jsonl))


def _records(path: Path, parse: Callable[[Iterable[str]], Iterator[Record]]) -> tuple[Record, ...]:
    with stored.opened(path) as file:
        found: list[Record] = []
        for record in _plain(parse(stored.lines(file))):
            if len(found) >= MAX_QUERIES:
                raise Damaged(f"it has more than the {MAX_QUERIES} records that a run can have")
            found.append(record)
        return tuple(found)


def _plain(queries: Iterable[Record]) -> Iterator[Record]:
    """Without anybody's control characters. An answer may call itself anything: after as many names as nodes can be,
    who answers is `other`.
    """
    names: set[str] = set()
    for record in queries:
        texts = {key: one_line(getattr(record, key)) for key in _TEXTS}
        node = texts["node"] = name(record.node)
        if node and node not in names and len(names) >= MOST_NAMES:
            texts["node"] = OTHER_NODE
        elif node not in ("", OTHER_NODE):
            names.add(node)
        changed: dict[str, Any] = {key: text for key, text in texts.items() if text != getattr(record, key)}
        yield replace(record, **changed) if changed else record


def _announcements(path: Path) -> list[Announcement]:
    found = []
    with stored.opened(path) as file:
        for number, line in enumerate(stored.lines(file), 1):
            if not line.strip():
                continue
            fields = stored.parse_json(line)
            if not (
                isinstance(fields, dict)
                and type(fields.get("time_ns")) is int
                and 0 <= fields["time_ns"] < _MOST_NS
                and isinstance(fields.get("node"), str)
                and isinstance(fields.get("announced"), bool)
            ):
                raise Damaged(f"line {number} is not an announcement")
            found.append(Announcement(fields["time_ns"], name(fields["node"]), fields["announced"]))
    return found


def _run(document: Any, queries: tuple[Record, ...], announcements: tuple[Announcement, ...]) -> Run:
    if not isinstance(document, dict):
        raise _NoRun(f"it is {shown(document)} and no object")
    if document.get("format") != FORMAT:
        raise _NoRun(f"format {shown(document.get('format'))}")
    phone = _typed(document, "phone", dict)
    _check_phone(phone)
    verdict = _typed(document, "verdict", str)
    if verdict not in {known.value for known in Verdict}:
        raise _NoRun(f"verdict {shown(verdict)} is none of {', '.join(Verdict)}")
    return Run(
        scenario=_typed(document, "scenario", str),
        title=_typed(document, "title", str),
        verdict=Verdict(verdict),
        reason=_typed(document, "reason", str),
        number=_positive(document, "number"),
        fault=None if document.get("fault") is None else _fault(_typed(document, "fault", dict)),
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
        expected=None if document.get("expected") is None else _typed(document, "expected", dict),
    )


def _fault(fields: dict[str, Any]) -> FaultWindow:
    targets = _typed(fields, "targets", list)
    if not all(isinstance(target, str) for target in targets):
        raise _NoRun("targets has what is no name")
    reverted_ns = None if fields.get("reverted_ns") is None else _positive(fields, "reverted_ns")
    return FaultWindow(_typed(fields, "what", str), tuple(targets), _positive(fields, "began_ns"), reverted_ns)


def _check_phone(phone: dict[str, Any]) -> None:
    """What the report reads of the phone's summary."""
    if "clock" in phone:
        _typed(phone, "clock", dict)
    if "schedule" in phone:
        timeout_s = _typed(phone, "schedule", dict).get("timeout_s", 1)
        if type(timeout_s) not in (int, float) or not 0 < timeout_s <= _MOST_TIMEOUT_S or not math.isfinite(timeout_s):
            raise _NoRun(f"timeout_s {shown(timeout_s)} is no number of seconds")
    if "counts" in phone:
        _typed(phone, "counts", dict)


def _positive(fields: dict[str, Any], key: str) -> int:
    value = _typed(fields, key, int)
    if not 0 <= value < _MOST_NS:
        raise _NoRun(f"{key} {shown(value)} cannot be")
    return value


def _typed(fields: Any, key: str, kind: type[_T]) -> _T:
    """The value of a field, which must be of exactly that type (a bool is no int)."""
    if not isinstance(fields, dict):
        raise _NoRun(f"where {key} must be is {shown(fields)}")
    if key not in fields:
        raise _NoRun(f"it has no {key}")
    if type(value := fields[key]) is not kind:
        raise _NoRun(f"{key} is {shown(value)} and not {_KINDS[kind]}")
    cleaned: _T = _clean(value)
    return cleaned


def _clean(value: Any) -> Any:
    """A run's files may come from anybody, and may quote anybody: no text in them is more than text."""
    if isinstance(value, str):
        return one_line(value, MOST_TEXT)
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list) else value
