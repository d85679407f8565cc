"""A console over rows in memory, for scripts and netwatch: what commands ran, in order, and what was logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anycastlab.virtual_router.dataplane.api import CommandRefused


class FakeConsole:
    """Knows print, enable, disable, set, remove; `vanishing` ids are gone by the time they are removed."""

    def __init__(self, rows: Mapping[str, Sequence[Mapping[str, str]]] | None = None) -> None:
        self.rows = {menu: [dict(row) for row in listed] for menu, listed in (rows or {}).items()}
        self.vanishing: set[str] = set()
        self.writes: list[tuple[str, dict[str, str]]] = []
        self.logged: list[tuple[str, str]] = []
        self.policies: set[frozenset[str]] = set()

    async def execute(
        self,
        command: str,
        arguments: Mapping[str, str] | None = None,
        *,
        queries: Sequence[str] = (),  # noqa: ARG002
        policies: frozenset[str] = frozenset(),
        user: str = "",  # noqa: ARG002
    ) -> list[dict[str, str]]:
        self.policies.add(policies)
        menu, _, verb = command.rpartition("/")
        given = dict(arguments or {})
        if verb == "print":
            if menu not in self.rows:
                raise CommandRefused("no such command prefix")
            return [dict(row) for row in self.rows[menu]]
        self.writes.append((command, given))
        ids = given.get("numbers", "").split(",")
        if self.vanishing & set(ids):
            raise CommandRefused("no such item (4)")
        for row in self.rows.get(menu, []):
            if row.get(".id") in ids:
                changes = {"enable": {"disabled": "false"}, "disable": {"disabled": "true"}}.get(verb, {})
                row.update(changes or {k: v for k, v in given.items() if k != "numbers"})
        if verb == "remove":
            self.rows[menu] = [row for row in self.rows[menu] if row.get(".id") not in ids]
        return []

    def log(self, topics: str, message: str) -> None:
        self.logged.append((topics, message))
