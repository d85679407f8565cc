"""One record per scheduled question, and its two file forms: CSV and JSON lines with the same fields.

query                  number in the schedule, from 0
client                 which phone asked (its stub resolver's name; `wire` asks once and never retries)
server, name, type, kind   who was asked first, and what
intended_ns, sent_ns   when it should have been and was sent: CLOCK_MONOTONIC of the machine, in nanoseconds; the
                       summary's `clock` maps it to wall time. `sent_ns` is empty when the phone skipped it; where
                       the system refused it for lack of a route or a right, it is the time of the attempt
latency_ms             from the INTENDED time to the first acceptable answer on the wire, in milliseconds
outcome                of the first transmission, on the wire:
                         answered   right answer within the stall limit
                         stalled    right answer within the timeout, but slower than the stall limit
                         lost       nothing acceptable within the timeout, nor after it
                         late       an answer after the timeout; it counts as lost
                         servfail   SERVFAIL within the timeout
                         wrong      another error, or data that a working resolver would not give
                         skipped    the phone failed to send it (its own fault: the run is not valid)
                         open       the run was stopped before this was decided
rcode                  of that answer, by name
node                   identity of whoever serves this query's flow; `other` when it has no identity (such as the
                       router's own resolver); empty when unknown. See sender.py for how it is found
truncated              the answer did not fit and was fetched again over TCP
duplicates, discarded  further copies of the answer; messages with a wrong id or question, or no DNS at all
tries                  queries the stub resolver sent for this question, the first included
felt, felt_ms          what the person got, after the retries of that stub resolver, and after how long:
                       answered, servfail, wrong, lost (the stub gave up), skipped, open
note                   the system's reason, such as `connection refused`
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TextIO, cast

from anycastlab.phone.errors import PhoneError


class Outcome(StrEnum):
    """What became of a query."""

    ANSWERED = "answered"
    STALLED = "stalled"
    LOST = "lost"
    LATE = "late"
    SERVFAIL = "servfail"
    WRONG = "wrong"
    SKIPPED = "skipped"
    OPEN = "open"


# Nothing acceptable came in time.
LOSSES = frozenset({Outcome.LOST, Outcome.LATE})

OTHER_NODE = "other"


@dataclass(frozen=True, slots=True)
class Record:
    """One line; the module's text describes the fields."""

    query: int
    client: str
    server: str
    name: str
    type: str
    kind: str
    intended_ns: int
    sent_ns: int | None
    latency_ms: float | None
    outcome: Outcome
    rcode: str
    node: str
    truncated: bool
    duplicates: int
    discarded: int
    tries: int
    felt: Outcome
    felt_ms: float | None
    note: str = ""


COLUMNS = tuple(field.name for field in fields(Record))
_INTEGERS = {"query", "intended_ns", "duplicates", "discarded", "tries"}
_NUMBERS = {"latency_ms", "felt_ms"}
_MOST = 1 << 63  # no count, and no time in nanoseconds since a machine was started, comes near it
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_TEXTS = set(COLUMNS) - _INTEGERS - _NUMBERS - {"sent_ns", "truncated"}


def as_dict(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in COLUMNS}


def write_csv(records: Iterable[Record], out: TextIO) -> None:
    """Header and one line per record; empty cells for what does not exist, true/false in lower case."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in records:
        writer.writerow([_cell(value) for value in as_dict(record).values()])


def write_jsonl(records: Iterable[Record], out: TextIO) -> None:
    for record in records:
        out.write(json.dumps(as_dict(record), separators=(",", ":")) + "\n")


def read_csv(lines: Iterable[str]) -> Iterator[Record]:
    """Inverse of `write_csv`; raises PhoneError with the line."""
    number = 1
    try:
        for number, row in enumerate(csv.DictReader(lines), 2):
            yield _record({name: _from_cell(name, value) for name, value in row.items()}, number)
    except csv.Error as error:
        raise PhoneError(f"Line {number + 1} of the records is not CSV: {error}.") from None


def read_jsonl(lines: Iterable[str]) -> Iterator[Record]:
    """Inverse of `write_jsonl`; raises PhoneError with the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                why = getattr(error, "msg", "it cannot be read")
                raise PhoneError(f"Line {number} of the records is not JSON: {why}.") from None
            yield _record(values, number)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _from_cell(name: str, value: str | None) -> object:
    """The value as `Record` has it; a cell that cannot be read stays text, which `_record` refuses."""
    if name in _TEXTS:
        return value
    if not value:
        return None
    if name == "truncated":
        return {"true": True, "false": False}.get(value, value)
    try:
        return float(value) if name in _NUMBERS else int(value)
    except ValueError:
        return value


def _record(values: Any, number: int) -> Record:
    if not isinstance(values, dict) or set(values) != set(COLUMNS):
        raise PhoneError(
            f"Line {number} of the records does not have the columns of this version.",
            f"Expected: {', '.join(COLUMNS)}.",
        )
    for name, value in values.items():
        if not _fits(name, value):
            raise PhoneError(f"Line {number} of the records: {name} cannot be {_shown(value)}.")
    for name in ("outcome", "felt"):
        if values[name] not in _OUTCOMES:
            raise PhoneError(f"Line {number} of the records: {name} cannot be {_shown(values[name])}.")
    return Record(**{**values, "outcome": Outcome(values["outcome"]), "felt": Outcome(values["felt"])})


def _shown(value: object) -> str:
    """A value as a sentence shows it: as JSON, and not all of a long one."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _fits(name: str, value: object) -> bool:
    if name in _INTEGERS or name == "sent_ns":
        return (value is None and name == "sent_ns") or (type(value) is int and 0 <= value < _MOST)
    if name in _NUMBERS:
        return value is None or (type(value) in (int, float) and 0 <= cast(float, value) < _MOST)
    return isinstance(value, bool if name == "truncated" else str)
