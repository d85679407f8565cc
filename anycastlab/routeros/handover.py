"""Rows that a person handed over by giving them our comment: changed like ours, given back instead of removed. Pure.

Which rows we made and what the others were before is kept on the control machine (`originals`), under keys of menu and
tag. Without such a record (a router that an older program set up) every row with our tag counts as made by us. So does
one that looks as we make them: another control machine may have made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from anycastlab.routeros.plan import FLAGS, Actual, Add, Change, Plan, Property, Remove, Router, Step
from anycastlab.routeros.row import Row, is_static, tag_of
from anycastlab.routeros.rows_bgp import INSTANCE_NAME
from anycastlab.routeros.values import same

#: Where a plan asks a person to hand a row over, because there can be only one (`foreign.UNIQUE`).
MENUS: Final = frozenset({"/routing/bgp/instance", "/routing/bgp/connection", "/ip/dhcp-server/network"})

#: All that a DHCP network of ours says.
_DHCP: Final = frozenset({"address", "gateway", "dns-server"})
#: Values that say nothing.
_NOTHING: Final = frozenset({"", "no", "false", "none", "0"})

#: Key of the record of rows that we made.
MADE: Final = "made"

Values = Mapping[str, Mapping[str, str]]


def key(menu: str, tag: str) -> str:
    return f"{menu} {tag}"


def made_before(menus: Router) -> dict[str, str]:
    """What counts as made by us on a router without a record: everything, if there is anything but handed-over rows."""
    own = [(menu, tag_of(row)) for menu, rows in menus.items() for row in rows if tag_of(row) and is_static(row)]
    return {key(*each): "" for each in own} if any(menu not in MENUS for menu, _ in own) else {}


def _as_we_make_them(menu: str, row: Actual) -> bool:
    if menu == "/ip/dhcp-server/network":
        return {name for name, value in row.items() if value not in _NOTHING and name not in FLAGS} <= _DHCP
    return row.get("name", "").split("-")[0] == INSTANCE_NAME


def handed_over(menus: Router, known: Values, plan: Plan) -> Iterator[tuple[str, dict[str, str]]]:
    """Key and values of rows with our tag that we did not make and do not know yet; the comment without the tag."""
    made = known.get(MADE) if MADE in known else made_before(menus)
    led_elsewhere = {
        step.row_id
        for step in plan.of(Change)
        if step.row.menu in MENUS and any(p.name in ("name", *_DHCP) for p in step.properties)
    }
    for menu in MENUS:
        for row in menus.get(menu, ()):
            name = key(menu, tag_of(row))
            if not tag_of(row) or not is_static(row) or name in (made or {}) or name in known:
                continue
            if row.get(".id") in led_elsewhere or not _as_we_make_them(menu, row):
                values = {k: v for k, v in row.items() if v and k not in FLAGS}
                yield name, values | {"comment": _own_words(row)}


def given_back(plan: Plan, known: Values, menus: Router) -> Plan:
    """The plan with handed-over rows set back to what they were instead of removed."""
    made = known.get(MADE) if MADE in known else made_before(menus)

    def step_of(step: Step) -> Step:
        if not isinstance(step, Remove) or step.menu not in MENUS or key(step.menu, step.tag) in (made or {}):
            return step
        old = known.get(key(step.menu, step.tag))
        if old is None and _as_we_make_them(step.menu, step.actual):
            return step
        return _back(step, old or {"comment": _own_words(step.actual)})

    return replace(plan, steps=tuple(step_of(step) for step in plan.steps))


def settled(plan: Plan, known: Values) -> dict[str, dict[str, str]]:
    """The record after the plan was carried out."""
    after = {name: dict(values) for name, values in known.items()}
    made = after.setdefault(MADE, {})
    for step in plan.steps:
        if isinstance(step, Add):
            made[key(*step.row.key)] = ""
        elif isinstance(step, Remove):
            made.pop(key(step.menu, step.tag), None)
        elif isinstance(step, Change) and any(p.name == "comment" for p in step.properties):
            after.pop(key(step.row.menu, step.row.tag), None)
    return after


def _back(step: Remove, old: Mapping[str, str]) -> Change:
    """Everything as in `old`; where only the comment is known, the rest stays."""
    later = [name for name, value in step.actual.items() if value and name not in FLAGS and name not in old]
    changed = tuple(
        Property(name, step.actual.get(name) or None, old.get(name))
        for name in (*old, *(later if len(old) > 1 else ()))
        if not same(name, step.actual.get(name), old.get(name))
    )
    row = Row(step.menu, step.tag, dict(old), reason="as it was before it was handed over")
    return Change(row, step.row_id, changed)


def _own_words(row: Actual) -> str:
    """A comment without our tag in front."""
    return row.get("comment", "").removeprefix(tag_of(row)).strip()
