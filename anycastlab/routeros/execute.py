"""Steps of a plan as API calls, in order."""

from __future__ import annotations

from collections.abc import Sequence

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import NoSuchItem, RouterLost
from anycastlab.routeros.order import Before
from anycastlab.routeros.plan import Add, Change, Move, Remove, Step
from anycastlab.routeros.reading import Reading
from anycastlab.routeros.redirect import flush, is_switch
from anycastlab.routeros.row import MENUS, tag_of


class Executor:
    """Runs steps and remembers the ids of own rows, because new rows are placed before each other."""

    def __init__(self, connection: Connection, reading: Reading) -> None:
        self._connection = connection
        self._ids = {
            (menu, tag_of(row)): row[".id"] for menu in MENUS for row in reading.menus.get(menu, ()) if tag_of(row)
        }

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        connection = self._connection
        match step:
            case Add():
                menu, tag = step.row.key
                before = self._resolve(menu, step.before)
                row_id = connection.add(menu, step.row.creation(), before)
                self._ids[menu, tag] = row_id or self._find(menu, tag)
            case Change():
                connection.set(step.row.menu, step.row_id, {p.name: p.new for p in step.properties})
                if is_switch(step) and (service := step.row.properties.get("dst-address")):
                    flush(connection, service)
            case Remove():
                try:
                    connection.remove(step.menu, step.row_id)
                except NoSuchItem:
                    return  # somebody was faster; gone is what was wanted
            case Move():
                connection.move(step.row.menu, step.row_id, self._resolve(step.row.menu, step.before))

    def _resolve(self, menu: str, before: Before | None) -> str | None:
        if before is None:
            return None
        return before.row_id or self._ids[menu, before.tag]

    def _find(self, menu: str, tag: str) -> str:
        """The id of a row just added, for versions that do not tell it."""
        for row in self._connection.print(menu, [".id", "comment"]):
            if tag_of(row) == tag:
                return row[".id"]
        raise RouterLost(f"Router {self._connection.host} took {tag} but does not show it.", "", self._connection.host)


def chunks(steps: Sequence[Step], size: int) -> list[Sequence[Step]]:
    """Steps in groups that fit safe mode's history, in order; at least one group."""
    return [steps[start : start + size] for start in range(0, len(steps), size)] or [()]
