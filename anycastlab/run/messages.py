"""What the working process tells the showing one: a line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Machines:
    """All machines of the run, in the order in which they are to be shown."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """`connect`, `look` or `work` begins."""

    name: str


@dataclass(frozen=True)
class Begun:
    """An operation begins on a machine."""

    machine: str
    operation: str


@dataclass(frozen=True)
class Ended:
    """An operation has ended on a machine. `changed`: it did something, and was no mere check."""

    machine: str
    operation: str
    ok: bool
    changed: bool


@dataclass(frozen=True)
class Change:
    """What is going to be done to a machine."""

    machine: str
    summary: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """A line of the log: level `info`, `warning` or `error`; the machine is empty when it is about the whole run."""

    level: str
    machine: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What came of the run: the beginning of its last sentence."""

    words: str


@dataclass(frozen=True)
class Closing:
    """Something else to know at the end."""

    text: str


@dataclass(frozen=True)
class Planned:
    """A dry run: machine → operations that would change it; and pyinfra's own plan."""

    pending: dict[str, list[str]]
    pyinfra: list[dict[str, Any]]


@dataclass(frozen=True)
class Asking:
    """A question for the person at the terminal begins or has ended: nothing else must be written meanwhile."""

    now: bool


@dataclass(frozen=True)
class Finished:
    """The last message of a run that was not broken off."""

    ok: bool


Message = Machines | Stage | Begun | Ended | Change | Said | Outcome | Closing | Planned | Asking | Finished
_KINDS: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (Machines, Stage, Begun, Ended, Change, Said, Outcome, Closing, Planned, Asking, Finished)
}


def encode(message: Message) -> bytes:
    """The message as a line."""
    return json.dumps([type(message).__name__, asdict(message)]).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message of a line that `encode` made."""
    kind, values = json.loads(line)
    lists = {field.name for field in fields(_KINDS[kind]) if str(field.type).startswith("tuple")}
    arguments: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in values.items()}
    return _KINDS[kind](**arguments)
