"""Which menus, verbs, arguments and values a RouterOS version has.

    Schema.load("7.21").menu("/routing/bgp/connection").arguments("add")

The trees (`trees/tree.json`, `trees/values.json`) are public-domain dumps of real routers' command trees, merged into
one file with the version at which each argument came or went; `trees/documented.json` adds what they leave open. A
version between two dumps is exact where the change is dated, and otherwise like the nearest dump at or below it.

Pure and without dependencies: the stand-in refuses with it, and the client checks its rows with it before it writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from anycastlab.command_trees.version import Version

OLDEST = Version(7, 16)
NEWEST_MINOR = 24
"""Minor versions 7.16 … 7.24 are described; 7.25 would be answered from the last tree, so it is refused instead."""

_RANGE = re.compile(r"(\S*)\.\.(\S*)")
_SINGLETON_HAS_NO = ("find", "remove", "add")


@dataclass(frozen=True)
class Kind:
    """What an argument's value may be.

    `name`: `text` `open` (anything), `bool`, `flag` (set by being there), `enum`, `set` (comma-separated), `int`,
    `number`, `size`, `time`, `date`, `clock` (time of day), `ip` (IPv4), `address` (IPv4 or IPv6), `addresses`,
    `prefix`, `prefixes`, `prefix6`, `peer` (address or prefix, as written), `cidr` (address with length, host bits
    kept), `range` (address, prefix or a-b), `ports`, `mac`, `ref`/`refs` (name of a row in the menu `words[0]`).
    `words`: the values of an enum or set; for others, words that are allowed besides. `low`/`high` as the tree writes
    them.
    """

    name: str
    words: tuple[str, ...] = ()
    low: str = ""
    high: str = ""
    negatable: bool = False

    @classmethod
    def parse(cls, text: str) -> Kind:
        negatable = text.startswith("!")
        name, *words = text.removeprefix("!").split() or ["open"]
        low = high = ""
        if words and (match := _RANGE.fullmatch(words[0])):
            low, high = match.groups()
            words = words[1:]
        return cls(name, tuple(words), low, high, negatable)


OPEN = Kind("open")


@dataclass(frozen=True)
class Menu:
    """One menu of one version: its verbs with their arguments."""

    path: str
    verbs: Mapping[str, frozenset[str]]
    kinds: Mapping[str, Mapping[str, Kind]]

    @property
    def singleton(self) -> bool:
        """One row without an id (`/ip/dns`), rather than a list."""
        return "print" in self.verbs and not any(verb in self.verbs for verb in _SINGLETON_HAS_NO)

    @property
    def ordered(self) -> bool:
        """Row order means something, and `move` and `place-before` exist."""
        return "move" in self.verbs

    def arguments(self, verb: str) -> frozenset[str]:
        """Arguments of a verb; empty when the menu lacks the verb."""
        return self.verbs.get(verb, frozenset())

    def kind(self, verb: str, argument: str) -> Kind:
        """What the value may be; `set` falls back on `add`. Unknown ones take anything."""
        for table in (self.kinds.get(verb), self.kinds.get("add")):
            if table and argument in table:
                return table[argument]
        return OPEN

    @property
    def properties(self) -> frozenset[str]:
        """What a row can hold: the arguments of `add` or `set` that are not about the command itself."""
        return (self.arguments("add") | self.arguments("set")) - COMMAND_ARGUMENTS


COMMAND_ARGUMENTS = frozenset({"numbers", "number", "copy-from", "place-before", "value-name", "destination"})


@dataclass(frozen=True)
class Schema:
    """The command tree of one version."""

    version: Version
    menus: Mapping[str, Menu]

    @classmethod
    def load(cls, version: str | Version) -> Schema:
        """Raises ValueError for a version before 7.16 or beyond the newest tree. Cached per version number."""
        parsed = Version.parse(version) if isinstance(version, str) else version
        if parsed < Version(OLDEST.major, OLDEST.minor, 0, 0):
            raise ValueError(
                f"RouterOS {parsed.number} is older than {OLDEST.number}, the oldest version described here"
            )
        if (parsed.major, parsed.minor) > (OLDEST.major, NEWEST_MINOR):
            raise ValueError(
                f"RouterOS {parsed.number} is newer than 7.{NEWEST_MINOR}, the newest version described here"
            )
        return _load(parsed)

    def menu(self, path: str) -> Menu | None:
        return self.menus.get(path)

    def is_prefix(self, path: str) -> bool:
        """Is this a directory on the way to a menu (`/routing`)?"""
        return path in ("", "/") or any(known.startswith(path + "/") for known in self.menus)

    def has(self, path: str, verb: str = "print", argument: str | None = None) -> bool:
        """Does this version have the menu, the verb and (if given) the argument?"""
        menu = self.menus.get(path)
        return menu is not None and verb in menu.verbs and (argument is None or argument in menu.verbs[verb])


@cache
def _load(version: Version) -> Schema:
    tree, values, extra = (_read(name) for name in ("tree", "values", "documented"))
    everywhere: dict[str, str] = extra["everywhere"]
    documented: dict[str, dict[str, str]] = extra["kinds"]
    for path, twin in extra["like"].items():
        tree[path] = _like(tree, twin)
        values[path] = values[twin["menu"]]
    menus: dict[str, Menu] = {}
    for marked, verbs in {**tree, **extra["menus"]}.items():
        path, present = _at(marked, version)
        if path.startswith("_") or not present:
            continue
        kinds = {verb: dict(table) for verb, table in {**values, **extra["menu-kinds"]}.get(path, {}).items()}
        base = kinds.setdefault("add" if "add" in kinds else "set", {})
        if path.startswith("/ip/firewall/") or path in extra["like"]:
            base.update(everywhere)
        base.update(documented.get(path, {}))
        menus[path] = Menu(
            path,
            {
                verb: frozenset(_present(arguments.split(), version))
                for marked_verb, arguments in verbs.items()
                for verb, there in [_at(marked_verb, version)]
                if there
            },
            {verb: {name: Kind.parse(kind) for name, kind in table.items()} for verb, table in kinds.items()},
        )
    return Schema(version, menus)


def _like(tree: Mapping[str, Any], twin: Mapping[str, Any]) -> dict[str, str]:
    """The verbs of another menu, without some arguments and with others."""

    def arguments(verb: str, words: str) -> str:
        kept = [word for word in words.split() if word.partition("@")[0] not in twin["without"].split()]
        return " ".join([*kept, *(twin["with"].split() if verb in ("add", "set", "reset") else ())])

    return {verb: arguments(verb, words) for verb, words in tree[twin["menu"]].items()}


def _present(marked: list[str], version: Version) -> list[str]:
    return [name for name, there in (_at(item, version) for item in marked) if there]


def _at(marked: str, version: Version) -> tuple[str, bool]:
    """`name@since-until+since` → the name, and whether it exists in `version`."""
    name, at, spans = marked.partition("@")
    return name, not at or any(_within(span, version) for span in spans.split("+"))


def _within(span: str, version: Version) -> bool:
    since, _, until = span.partition("-")
    return (not since or Version.parse(since) <= version) and (not until or version < Version.parse(until))


def _read(name: str) -> dict[str, Any]:
    content = resources.files(__package__).joinpath("trees", f"{name}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(content)
    return loaded
