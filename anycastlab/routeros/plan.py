"""Desired against actual: what would be added, changed, removed and moved. Pure.

What always holds:

- a row without our tag is never in a plan, even when it equals a desired one;
- two rows with one tag are an error, never a guess;
- runtime state (`Row.initial`, counters, flags) is no difference;
- a plan made from the outcome of a plan is empty;
- order is kept by "before that row", never by an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.order import Before, placements
from anycastlab.routeros.row import FREE, MENUS, ORDERED, SETTINGS, STRICT, Row, describe, is_static, tag_of
from anycastlab.routeros.values import is_true, same

Actual = Mapping[str, str]
Router = Mapping[str, Sequence[Actual]]
"""Menu to its rows, as read. A menu the router does not have is missing."""

#: Read along with every row, never configured.
FLAGS = frozenset({".id", "dynamic", "builtin", "invalid", "inactive", "comment", "status"})


@dataclass(frozen=True)
class Property:
    """One property that differs; None means not set."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Add:
    row: Row
    before: Before | None = None


@dataclass(frozen=True)
class Change:
    """`row_id` is None for a settings menu."""

    row: Row
    row_id: str | None
    properties: tuple[Property, ...]


@dataclass(frozen=True)
class Remove:
    menu: str
    tag: str
    row_id: str
    actual: Actual


@dataclass(frozen=True)
class Move:
    row: Row
    row_id: str
    before: Before | None


Step = Add | Change | Remove | Move
T = TypeVar("T", Add, Change, Remove, Move)


@dataclass(frozen=True)
class Plan:
    """Steps in the order of execution, and sentences to read with them."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def of(self, kind: type[T]) -> list[T]:
        return [step for step in self.steps if isinstance(step, kind)]


def make_plan(desired: Sequence[Row], actual: Router, notes: Iterable[str] = (), host: str = "") -> Plan:
    """The plan. Raises PlanError when two rows carry one tag or a menu is missing on the router."""
    wanted: dict[str, list[Row]] = {menu: [] for menu in MENUS}
    for row in desired:
        wanted[row.menu].append(row)
    closing: list[Step] = []
    removals: list[Step] = []
    rest: list[Step] = []
    for menu in MENUS:
        rows = actual.get(menu)
        if rows is None:
            if wanted[menu]:
                raise PlanError(f"Router {host} has no menu {menu}.", "Its version or packages lack it.", host)
            continue
        if menu in SETTINGS:
            for step in _settings_steps(wanted[menu], rows):
                (closing if _closes(step) else rest).append(step)
            continue
        own = _own_rows(menu, rows, host)
        keep = {row.tag for row in wanted[menu]}
        removals[:0] = [Remove(menu, tag, row[".id"], row) for tag, row in own.items() if tag not in keep]
        rest += _menu_steps(menu, wanted[menu], rows, {tag: row for tag, row in own.items() if tag in keep})
    return Plan((*closing, *removals, *rest), tuple(notes))


def differences(row: Row, actual: Actual) -> tuple[Property, ...]:
    """Properties of an own row that are not as desired. In strict menus also those nobody asked for."""
    found = [
        Property(name, actual.get(name) or None, value)
        for name, value in row.properties.items()
        if name not in FREE and not same(name, actual.get(name), value)
    ]
    if row.exact or row.menu in STRICT:
        runtime = {"disabled", *(row.initial or {})}
        found += [
            Property(name, value, None)
            for name, value in actual.items()
            if value and name not in row.properties and name not in FLAGS | FREE | runtime
        ]
    return tuple(found)


def _own_rows(menu: str, rows: Sequence[Actual], host: str) -> dict[str, Actual]:
    own: dict[str, Actual] = {}
    for row in rows:
        tag = tag_of(row)
        if not tag or not is_static(row):
            continue
        if tag in own:
            raise PlanError(
                f"Router {host} has two rows with the tag {tag} in {menu}: {describe(own[tag])}; {describe(row)}.",
                "Remove one of them, or its comment.",
                host,
            )
        own[tag] = row
    return own


def _closes(step: Change) -> bool:
    """Closing the resolver comes before the guard goes; opening it comes after the guard is there."""
    return any(p.name == "allow-remote-requests" and not is_true(p.new) for p in step.properties)


def _settings_steps(wanted: Sequence[Row], rows: Sequence[Actual]) -> Iterator[Change]:
    actual = rows[0] if rows else {}
    for row in wanted:
        if changed := differences(row, actual):
            yield Change(row, None, changed)


def _menu_steps(menu: str, wanted: Sequence[Row], rows: Sequence[Actual], own: Mapping[str, Actual]) -> Iterator[Step]:
    for row in wanted:
        if row.tag in own and (changed := differences(row, own[row.tag])):
            yield Change(row, own[row.tag][".id"], changed)
    if menu not in ORDERED:
        for row in wanted:
            if row.tag not in own:
                yield Add(row)
        return
    present = {tag: row[".id"] for tag, row in own.items()}
    for placement in placements(wanted, _staying(rows, own), present):
        if placement.row.tag in present:
            yield Move(placement.row, present[placement.row.tag], placement.before)
        else:
            yield Add(placement.row, placement.before)


def _staying(rows: Sequence[Actual], own: Mapping[str, Actual]) -> list[Actual]:
    """Rows that are there when own rows are placed; an own row is known by where it stands, not by its old chain."""
    return [row for row in rows if not tag_of(row) or not is_static(row) or tag_of(row) in own]
