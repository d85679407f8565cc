"""The router's rows: menus, ids, order, checks; nothing about protocols or what rows do.

Rows and tables are immutable, so a checkpoint is the tables themselves: safe mode keeps one and puts it back. Ids
(`*1`, `*A`) are per menu and never used again, not even after a rollback or a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_interface

from anycastlab.command_trees.schema import Menu, Schema
from anycastlab.virtual_router import defaults, errors, limits
from anycastlab.virtual_router.dataplane.api import Snapshot
from anycastlab.virtual_router.unique import UniqueKeys
from anycastlab.virtual_router.values import canonical

FIXED = ("builtin", "dynamic", "default")
"""Marks of rows that RouterOS made itself."""

VOLATILE = frozenset({"/interface", "/interface/ethernet", "/ip/service"})
"""Menus that every start fills anew."""

WATCHING = frozenset({"/tool/netwatch"})
"""Menus whose rows are told their revision."""

_SYSTEM_PROPERTIES = ("proto", "certificate", "tls-version", "owner", "creation-time", "name")
"""What built-in and created rows carry beyond the arguments of a verb."""

_NAMED_WORDS = {"/interface": ("lo",), "/routing/bgp/template": ("default",)}


@dataclass(frozen=True)
class Row:
    """A row: its id, and the properties that were set. In a singleton menu the id is empty."""

    id: str
    values: Mapping[str, str]
    revision: int = 0
    """How often it was changed. What watches it starts anew with each change, even one that was taken back at once."""

    @property
    def fixed(self) -> bool:
        """Made by the router itself: cannot be moved or removed."""
        return any(self.values.get(mark) == "true" for mark in FIXED)

    @property
    def dynamic(self) -> bool:
        return self.values.get("dynamic") == "true"


Tables = Mapping[str, tuple[Row, ...]]


@dataclass(frozen=True)
class Checkpoint:
    """All rows as they were at one moment."""

    tables: Tables = field(repr=False)


class Store:
    """All menus of one router. Every method either does the whole of what it says, or raises and changes nothing."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.on_change: Callable[[], None] = lambda: None
        self.guard: Callable[[str, Mapping[str, str]], None] = lambda _menu, _row: None
        """Asked with each new or changed row, as shown, before it is taken; raises to refuse it."""
        self._tables: dict[str, tuple[Row, ...]] = {}
        self._next_id: dict[str, int] = {}
        self._unique = UniqueKeys(lambda path: (self.shown(path, row) for row in self.rows(path)))

    # --- reading ------------------------------------------------------------------------------------------------

    def rows(self, menu: str) -> tuple[Row, ...]:
        """Rows in order. A singleton menu always has one."""
        table = self._tables.get(menu, ())
        if not table and (known := self.schema.menu(menu)) is not None and known.singleton:
            return (Row("", {}),)
        return table

    def names(self, menu: str) -> Collection[str]:
        """Names that a reference to this menu may use."""
        return {row.values.get("name", "") for row in self.rows(menu)} | set(_NAMED_WORDS.get(menu, ()))

    def shown(self, menu: str, row: Row) -> dict[str, str]:
        """All properties of a row as the router prints them: `.id` first, what is set, then defaults."""
        known = self.schema.menu(menu)
        out = {".id": row.id} if row.id else {}
        out |= row.values
        if menu == "/ip/address":
            out |= _of_address(row.values)
        table = {**defaults.DEFAULTS.get(menu, {}), **defaults.BY_TYPE.get((menu, row.values.get("type", "A")), {})}
        only_known = known is not None and known.singleton
        for name, value in table.items():
            if name not in out and (not only_known or known is None or self._takes(known, name)):
                out[name] = value
        return out

    def find(self, menu: str, references: str) -> list[Row]:
        """Rows named by a comma-separated list of ids or names, in the order given. Raises `no such item`."""
        table = self.rows(menu)
        found = []
        for reference in references.split(","):
            by_id = reference.startswith("*")
            row = next((r for r in table if (r.id if by_id else r.values.get("name")) == reference), None)
            if row is None or not reference:
                raise errors.no_such_item(by_id)
            found.append(row)
        return found

    def snapshot(self) -> Snapshot:
        """Every menu with rows, as shown, and every singleton; for the data plane. Passwords of accounts stay here."""
        menus = set(self._tables) | {path for path, menu in self.schema.menus.items() if menu.singleton}
        return {
            path: [
                {
                    **{n: value for n, value in self.shown(path, row).items() if n not in defaults.NEVER_SHOWN},
                    **({".revision": str(row.revision)} if path in WATCHING else {}),
                }
                for row in self.rows(path)
            ]
            for path in sorted(menus)
            if self.rows(path)
        }

    # --- writing ------------------------------------------------------------------------------------------------

    def add(
        self,
        menu: Menu,
        arguments: Mapping[str, str],
        place_before: str | None = None,
        made: Mapping[str, str] | None = None,
    ) -> Row:
        """Appends a row, or puts it before another one. `made` are properties that RouterOS itself gives a new row.

        Raises CommandRefused.
        """
        table = self.rows(menu.path)
        if len(table) >= limits.MAX_ROWS_PER_MENU:
            raise errors.failure(f"out of memory: {limits.MAX_ROWS_PER_MENU} rows in {menu.path}")
        values = self.check(menu, "add", arguments)
        needed = [
            name
            for name in defaults.REQUIRED.get(menu.path, ())
            if name in menu.arguments("add") and name not in values
        ]
        if menu.path == "/ip/dns/static" and not {"name", "regexp"} & set(values):
            needed = ["name"]
        if needed:
            raise errors.missing_arguments(needed)
        at = len(table) if place_before is None else self._position(menu, place_before)
        candidate = Row("*0", {**values, **(made or {})})
        shown = self.shown(menu.path, candidate)
        self._unique.check_new(menu.path, shown)
        self.guard(menu.path, shown)
        row = replace(candidate, id=self._new_id(menu.path))
        self._tables[menu.path] = (*table[:at], row, *table[at:])
        self._unique.added(menu.path, shown)
        self.on_change()
        return row

    def set(self, menu: Menu, rows: Sequence[Row], arguments: Mapping[str, str | None]) -> None:
        """Changes properties of rows (or of the singleton); None clears one. Raises CommandRefused."""
        wanted = {name: value for name, value in arguments.items() if value is not None}
        values = self.check(menu, "set", wanted)
        cleared = [name for name in arguments if arguments[name] is None]
        changed: dict[str, Row] = {}
        for name in cleared:
            if name not in menu.arguments("set"):
                raise errors.unknown_parameter(name)
        for row in rows:
            if row.dynamic:
                raise errors.builtin("change")
            new = {name: value for name, value in row.values.items() if name not in cleared} | values
            new = {name: value for name, value in new.items() if name != "comment" or value}
            if new != row.values:
                changed[row.id] = replace(row, values=new, revision=row.revision + 1)
        after = tuple(changed.get(row.id, row) for row in self.rows(menu.path))
        if menu.singleton and not after:
            after = tuple(changed.values())
        shown = [self.shown(menu.path, row) for row in changed.values()]
        self._unique.check_changed(menu.path, shown, (self.shown(menu.path, row) for row in after))
        for row_shown in shown:
            self.guard(menu.path, row_shown)
        if changed:
            self._replace(menu.path, after)

    def remove(self, menu: Menu, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.fixed:
                raise errors.builtin("remove")
        if menu.path == "/user/group":
            used = {user.values.get("group") for user in self.rows("/user")}
            if used & {row.values.get("name") for row in rows}:
                raise errors.failure("group has some users")
        gone = {row.id for row in rows}
        self._replace(menu.path, tuple(row for row in self.rows(menu.path) if row.id not in gone))

    def move(self, menu: Menu, rows: Sequence[Row], destination: str | None) -> None:
        """Puts rows, as a block in the order given, before `destination`; None or an unknown id: at the end."""
        if any(row.fixed for row in rows):
            raise errors.builtin("move")
        moved = {row.id for row in rows}
        if destination in moved:
            raise errors.failure("can not move object before itself")
        rest = [row for row in self.rows(menu.path) if row.id not in moved]
        at = next((index for index, row in enumerate(rest) if row.id == destination), len(rest))
        if at < _leading_fixed(rest):
            raise errors.builtin("move")
        self._replace(menu.path, (*rest[:at], *rows, *rest[at:]))

    # --- whole configurations -----------------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(dict(self._tables))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Puts every menu back as it was; ids handed out since stay used up."""
        self._tables = dict(checkpoint.tables)
        self._unique.forget()
        self.on_change()

    def fill(self, menu: str, rows: Iterable[Mapping[str, str]]) -> None:
        """Puts RouterOS's own rows into a menu, unchecked: built-in and dynamic ones."""
        known = self.schema.menu(menu)
        if known is None:
            return
        self._unique.forget(menu)
        if known.singleton:
            self._tables[menu] = tuple(Row("", dict(values)) for values in rows)
            return
        new = tuple(Row(self._new_id(menu), dict(values)) for values in rows)
        self._tables[menu] = (*self.rows(menu), *new)

    def ensure(self, menu: str, rows: Iterable[Mapping[str, str]]) -> None:
        """Makes rows with these names have these values, unchecked; others stay."""
        for values in rows:
            table = self.rows(menu)
            known = next((row for row in table if row.values.get("name") == values["name"]), None)
            if known is None:
                self.fill(menu, [values])
            else:
                new = replace(known, values={**known.values, **values})
                self._replace(menu, tuple(new if row is known else row for row in table))

    def export(self, checkpoint: Checkpoint | None = None) -> dict[str, object]:
        """The configuration as plain data, without what this run made itself (dynamic rows, interfaces)."""
        tables = self._tables if checkpoint is None else checkpoint.tables
        return {
            "ids": dict(self._next_id),
            "menus": {
                menu: [[row.id, dict(row.values)] for row in table if not row.dynamic]
                for menu, table in tables.items()
                if menu not in VOLATILE
            },
        }

    def load(self, data: Mapping[str, object]) -> None:
        """Takes over what `export` gave, in place of the rows of the same menus; dynamic rows of this run stay, first.

        Menus and properties that this version lacks are dropped, as an upgrade or downgrade does. Raises ValueError for
        other data.
        """
        try:
            ids = {str(menu): int(number) for menu, number in data["ids"].items()}  # type: ignore[attr-defined]
            tables = {
                str(menu): [(str(id_), {str(k): str(v) for k, v in values.items()}) for id_, values in table]
                for menu, table in data["menus"].items()  # type: ignore[attr-defined]
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError("not a saved configuration") from error
        for path, number in ids.items():
            self._next_id[path] = max(self._next_id.get(path, 1), number)
        for path, table in tables.items():
            menu = self.schema.menu(path)
            if menu is None or path in VOLATILE:
                continue
            dynamic = tuple(replace(row, id=self._new_id(path)) for row in self.rows(path) if row.dynamic)
            saved = tuple(Row(id_, self._known(menu, values)) for id_, values in table)
            self._unique.forget(path)
            self._tables[path] = (*dynamic, *saved)

    def _known(self, menu: Menu, values: Mapping[str, str]) -> dict[str, str]:
        own = defaults.DEFAULTS.get(menu.path, {})
        return {
            name: value
            for name, value in values.items()
            if name in menu.properties or name in FIXED or name in own or name in _SYSTEM_PROPERTIES
        }

    # --- checks -------------------------------------------------------------------------------------------------

    def check(self, menu: Menu, verb: str, arguments: Mapping[str, str]) -> dict[str, str]:
        """Arguments in canonical form. Raises CommandRefused for one that the version lacks or a wrong value."""
        allowed = menu.arguments(verb)
        values = {}
        for name, value in arguments.items():
            if name not in allowed:
                raise errors.unknown_parameter(name)
            values[name] = canonical(name, value, menu.kind(verb, name), self.names)
        if values.get("comment") == "" and verb == "add":
            del values["comment"]
        return values

    def _takes(self, menu: Menu, name: str) -> bool:
        return name in menu.properties or name in defaults.READ_ONLY.get(menu.path, ())

    def _position(self, menu: Menu, place_before: str) -> int:
        (row,) = self.find(menu.path, place_before)
        table = self.rows(menu.path)
        at = table.index(row)
        if at < _leading_fixed(table):
            raise errors.builtin("move")
        return at

    def _new_id(self, menu: str) -> str:
        number = self._next_id.get(menu, 1)
        self._next_id[menu] = number + 1
        return f"*{number:X}"

    def _replace(self, menu: str, table: tuple[Row, ...]) -> None:
        self._unique.forget(menu)
        self._tables[menu] = table
        self.on_change()


def _of_address(values: Mapping[str, str]) -> dict[str, str]:
    """What RouterOS works out for an address."""
    interface = values.get("interface", "")
    network = str(ip_interface(values.get("address", "0.0.0.0")).network.network_address)
    return {"network": values.get("network", network), "actual-interface": interface, "vrf": "main", "slave": "false"}


def _leading_fixed(table: Sequence[Row]) -> int:
    """How many rows at the head are the router's own; nothing may come before them."""
    return next((index for index, row in enumerate(table) if not row.fixed), len(table))
