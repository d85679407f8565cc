"""Which names are asked, how often, and what a right answer is: data, read from JSON or a plain list.

JSON: `{"names": [{"name", "type", "kind", "count", "expect"}, …]}`; see `mixes/lab.json`. `{random}` in a name becomes
a label that no cache has seen. `expect` is a list of addresses or texts, `"answer"` (some record of the type; the
default), `"nxdomain"`, or `"any"` (an answer or NXDOMAIN). Plain list: one `NAME [TYPE]` per line, `#` comments.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from anycastlab.phone import wire
from anycastlab.phone.errors import MixError

RANDOM = "{random}"
BUILT_IN = ("lab", "home")
KINDS = ("popular", "uncached", "local", "other")
_KEYS = {"name", "type", "kind", "count", "expect"}
_MOST_COUNT = 1000
MOST_LIST = 16 << 20  # octets of a file of names: more than a million of them


@dataclass(frozen=True)
class Entry:
    """One name of the mix. `data` is the set of acceptable answers in wire form; None takes any record of the type."""

    name: str
    type: str = "A"
    kind: str = "popular"
    count: int = 1
    data: frozenset[bytes] | None = None
    wants_answer: bool = True
    accepts_nxdomain: bool = False

    @property
    def rtype(self) -> int:
        return wire.TYPES[self.type]

    def is_right(self, reply: wire.Reply) -> bool:
        """Whether a reply with NOERROR or NXDOMAIN is what a working resolver would have said."""
        if reply.rcode == wire.NXDOMAIN:
            return self.accepts_nxdomain
        if reply.rcode != wire.NOERROR or not self.wants_answer:
            return False
        rtype = self.rtype
        found = [data for kind, data in reply.answers if kind == rtype]
        return bool(found) and (self.data is None or self.data.issuperset(found))


@dataclass(frozen=True)
class Mix:
    """A deck of names; `deck` has each entry as often as its count."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def deck(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries for _ in range(entry.count))


def load(source: str) -> Mix:
    """A built-in mix by name (`lab`, `home`) or a file; raises MixError."""
    if source in BUILT_IN:
        text = resources.files("anycastlab.phone").joinpath("mixes", f"{source}.json").read_text("utf-8")
        return parse_json(source, text)
    try:
        text = _text(Path(source))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise MixError(
            f"Cannot read the list of names {source}: {why}.",
            f"Name a file, or one of the built-in mixes: {', '.join(BUILT_IN)}.",
        ) from None
    return parse_json(source, text) if source.endswith(".json") else parse_list(source, text)


def _text(path: Path) -> str:
    """The text of a file; raises OSError, and ValueError with the reason it is none."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = file.read(MOST_LIST + 1)
    if len(content) > MOST_LIST:
        raise ValueError(f"it is larger than {MOST_LIST >> 20} MiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None


def parse_list(name: str, text: str) -> Mix:
    """`NAME [TYPE]` per line."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) > 2:
            raise MixError(f"{name} line {number}: {line.strip()!r} is not NAME [TYPE].")
        kind = "uncached" if RANDOM in words[0] else "other"
        fields: dict[str, Any] = {"name": words[0], "kind": kind, "expect": "any" if kind == "uncached" else "answer"}
        if len(words) == 2:
            fields["type"] = words[1].upper()
        entries.append(_entry(f"{name} line {number}", fields))
    return _mix(name, entries)


def parse_json(name: str, text: str) -> Mix:
    """The JSON form; raises MixError that names the entry."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = f"{error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise MixError(f"{name} is not JSON: {why}.") from None
    names = document.get("names") if isinstance(document, dict) else None
    if not isinstance(names, list):
        raise MixError(f'{name} has no list "names".', 'Start with {"names": [{"name": "www.example.org"}]}.')
    return _mix(name, [_entry(f"{name}, entry {number}", fields) for number, fields in enumerate(names, 1)])


def _mix(name: str, entries: list[Entry]) -> Mix:
    if not entries:
        raise MixError(f"{name} names nothing to ask.", "Give at least one name.")
    return Mix(name, tuple(entries))


def _entry(where: str, fields: object) -> Entry:
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        raise MixError(f'{where}: no "name".')
    if unknown := sorted(set(fields) - _KEYS):
        raise MixError(f"{where}: unknown key {unknown[0]!r}.", f"Known are {', '.join(sorted(_KEYS))}.")
    host, rtype, kind = fields["name"], fields.get("type", "A"), fields.get("kind", "other")
    count, expect = fields.get("count", 1), fields.get("expect", "answer")
    if not isinstance(rtype, str) or rtype not in wire.TYPES:
        raise MixError(f"{where}: unknown type {json.dumps(rtype)}.", f"Known are {', '.join(wire.TYPES)}.")
    if kind not in KINDS:
        raise MixError(f"{where}: unknown kind {json.dumps(kind)}.", f"Known are {', '.join(KINDS)}.")
    if type(count) is not int or not 1 <= count <= _MOST_COUNT:
        raise MixError(f"{where}: count is {json.dumps(count)}.", f"It is a whole number from 1 to {_MOST_COUNT}.")
    data = None
    try:
        wire.encode_name(host.replace(RANDOM, "x" * 16))
        if isinstance(expect, list) and expect and all(isinstance(value, str) for value in expect):
            data = frozenset(wire.encode_data(wire.TYPES[rtype], value) for value in expect)
        elif expect not in ("answer", "nxdomain", "any"):
            raise MixError(
                f"{where}: expect is {json.dumps(expect)}.", "It is a list of texts, or answer, nxdomain or any."
            )
    except ValueError as error:  # WireError and ipaddress' own
        raise MixError(f"{where}: {error}.") from None
    return Entry(
        name=host,
        type=rtype,
        kind=kind,
        count=count,
        data=data,
        wants_answer=expect != "nxdomain",
        accepts_nxdomain=expect in ("nxdomain", "any"),
    )
