"""Helpers of the router tests: sites, and a model of a router's menus that executes steps."""

from __future__ import annotations

from itertools import count
from typing import Any

from anycastlab.routeros.order import Before
from anycastlab.routeros.plan import Add, Change, Move, Plan, Remove
from anycastlab.routeros.row import MENUS, SETTINGS, tag_of
from anycastlab.site.model import Site
from anycastlab.site.parts import Node, Resolver, Router


def make_site(nodes: int = 3, names: list[str] | None = None, **changes: Any) -> Site:
    """The lab's site with so many nodes; `router` and other keywords replace fields."""
    names = names or [f"node{number:02}" for number in range(1, nodes + 1)]
    members = tuple(
        Node(
            name=name,
            host=f"@incus/{name}",
            platform="incus",
            address=f"10.1.2.{10 + number}",
            prefix_length=24,
            gateway="10.1.2.1",
            router_id=f"10.1.2.{10 + number}",
            address6=f"fd00:2::{10 + number}",
            gateway6="fd00:2::1",
        )
        for number, name in enumerate(names, 1)
    )
    router = {
        "host": "@routeros/127.0.0.1",
        "api_host": "127.0.0.1",
        "api_port": 8728,
        "tls": False,
        "router_id": "10.1.2.1",
        "lan_networks": ("10.1.1.0/24", "10.1.2.0/24"),
        "wan_interface": "ether1-wan",
        **changes.pop("router", {}),
    }
    resolver = Resolver(upstreams=("203.0.113.53",), router_dns="10.1.1.1")
    return Site(resolver=resolver, nodes=members, router=Router(**router), **changes)


class ModelRouter:
    """Menus as lists of rows that do what the API's add, set, remove and move do."""

    def __init__(self, menus: dict[str, list[dict[str, str]]] | None = None) -> None:
        self.menus = {menu: [dict(row) for row in (menus or {}).get(menu, [])] for menu in MENUS}
        for menu in SETTINGS:
            self.menus[menu] = self.menus[menu] or [{}]
        self._ids = count(0x1000)

    def execute(self, plan: Plan) -> None:
        for step in plan.steps:
            match step:
                case Add():
                    row = {".id": f"*{next(self._ids):X}", **step.row.creation()}
                    self._insert(step.row.menu, row, step.before)
                case Change():
                    row = self._row(step.row.menu, step.row_id)
                    for changed in step.properties:
                        if changed.new is None:
                            row.pop(changed.name, None)
                        else:
                            row[changed.name] = changed.new
                case Remove():
                    self.menus[step.menu].remove(self._row(step.menu, step.row_id))
                case Move():
                    row = self._row(step.row.menu, step.row_id)
                    self.menus[step.row.menu].remove(row)
                    self._insert(step.row.menu, row, step.before)

    def foreign(self, menu: str) -> list[dict[str, str]]:
        return [dict(row) for row in self.menus[menu] if not tag_of(row)]

    def tags(self, menu: str) -> list[str]:
        return [tag_of(row) for row in self.menus[menu] if tag_of(row)]

    def _row(self, menu: str, row_id: str | None) -> dict[str, str]:
        if row_id is None:
            return self.menus[menu][0]
        (row,) = (row for row in self.menus[menu] if row[".id"] == row_id)
        return row

    def _insert(self, menu: str, row: dict[str, str], before: Before | None) -> None:
        rows = self.menus[menu]
        if before is None:
            rows.append(row)
            return
        (index,) = (
            number
            for number, other in enumerate(rows)
            if (before.row_id and other[".id"] == before.row_id) or (before.tag and tag_of(other) == before.tag)
        )
        if other_dynamic := rows[index].get("dynamic") == "true":
            raise AssertionError(f"an anchor must not be dynamic: {other_dynamic}")
        rows.insert(index, row)
