"""An armed roll-back for routers without safe mode (below 7.18): the router itself undoes our rows after a while.

A scheduler entry with an inline script that undoes exactly the steps of one plan, by row id, is put on the router
before the first write and removed after the last check. If this program or its connection dies in between, the router
goes back alone. device-mode `home` has no scheduler; there only this program can undo, and the plan says so.

The start time is explicit, from the router's own clock: what a scheduler entry without one does on its first interval
is not documented. The entry also runs after a restart in between, as its time has passed or comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import NoSuchItem, RouterRefused
from anycastlab.routeros.limits import ARMED_ROLLBACK_S
from anycastlab.routeros.plan import FLAGS, Add, Change, Move, Plan, Remove
from anycastlab.routeros.reading import Reading
from anycastlab.routeros.row import ORDERED, is_static, tag_of
from anycastlab.routeros.values import is_true, same

SCHEDULER: Final = "/system/scheduler"
NAME: Final = "anycastlab-rollback"
POLICY: Final = "read,write,test"

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "$": "\\$", "\n": "\\n", "\r": "\\r", "\t": "\\t", "?": "\\?"}
_PLAIN = re.compile(r"[A-Za-z0-9.:/_-]+")


def arm(connection: Connection, plan: Plan, reading: Reading) -> bool:
    """Puts the roll-back on the router; False when it does not take one. Takes an old one away first."""
    disarm(connection)
    try:
        mode = connection.print("/system/device-mode")
        if mode and mode[0].get("scheduler") and not is_true(mode[0]["scheduler"]):
            return False  # the entry would be taken and never run
        clock = connection.print("/system/clock", ["date", "time"])
        at = _moment(clock[0]) + timedelta(seconds=ARMED_ROLLBACK_S)
        connection.add(
            SCHEDULER,
            {
                "name": NAME,
                "start-date": at.strftime("%Y-%m-%d"),
                "start-time": at.strftime("%H:%M:%S"),
                "policy": POLICY,
                "on-event": undo_script(plan, reading),
                "comment": "anycastlab:rollback",
            },
        )
    except (RouterRefused, ValueError, KeyError, IndexError):
        return False
    return True


def disarm(connection: Connection) -> None:
    """Takes the roll-back away, if there is one."""
    try:
        for row in connection.print(SCHEDULER, [".id"], f"?name={NAME}"):
            connection.remove(SCHEDULER, row[".id"])
    except NoSuchItem:
        return  # it ran in this very moment, and removed itself
    except RouterRefused:
        return  # no such menu for this user or device-mode: then there is none of ours


def undo_script(plan: Plan, reading: Reading) -> str:
    """A RouterOS script that undoes the plan's steps, last first. Each line on its own: one failing stops no other."""
    lines = [f"  :do {{{line}}} on-error={{}}" for line in _undo_lines(plan, reading)]
    head = ':log warning "anycastlab: a change was not confirmed and is undone"'
    tail = f"{SCHEDULER}/remove [find name={NAME}]"
    return "\n".join([head, *lines, tail])


def _undo_lines(plan: Plan, reading: Reading) -> Iterator[str]:
    following = {menu: _following(reading.menus.get(menu, ())) for menu in ORDERED}
    for step in reversed(plan.steps):
        match step:
            case Add():
                menu, tag = step.row.key
                yield f"{menu}/remove {_by_tag(tag)}"
            case Change():
                target = f" {step.row_id}" if step.row_id else ""
                clear = [p.name for p in step.properties if p.old is None]
                back = " ".join(f"{p.name}={quote(p.old)}" for p in step.properties if p.old is not None)
                if back:
                    yield f"{step.row.menu}/set{target} {back}"
                for name in clear:
                    yield f"{step.row.menu}/unset{target} value-name={name}"
            case Remove():
                values = {k: v for k, v in step.actual.items() if k == "comment" or k not in FLAGS}
                values = {k: v for k, v in values.items() if v or same(k, v, "yes")}  # a flag may be set and empty
                place = following.get(step.menu, {}).get(step.row_id, "")
                words = [f"{name}={quote(value)}" for name, value in values.items()]
                yield f"{step.menu}/add {' '.join(words)}" + (f" place-before={place}" if place else "")
            case Move():
                place = following[step.row.menu].get(step.row_id, "")
                yield f"{step.row.menu}/move {step.row_id}" + (f" destination={place}" if place else "")


def _following(rows: Sequence[dict[str, str]]) -> dict[str, str]:
    """For each static row how to name the next one: own rows by tag, as one that is put back gets a new id."""
    static = [row for row in rows if row.get(".id") and is_static(row)]
    return {row[".id"]: _by_tag(tag_of(after)) if tag_of(after) else after[".id"] for row, after in pairwise(static)}


def _by_tag(tag: str) -> str:
    return f"[find comment~{quote(f'^{re.escape(tag)}( |$)')}]"


def quote(text: str) -> str:
    """A value in the script language: plain words as they are, all else quoted and escaped."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'


def _moment(clock: dict[str, str]) -> datetime:
    """`2026-11-29` (7.10 and later) and `21:05:00`, in the router's own time zone."""
    return datetime.strptime(f"{clock['date']} {clock['time']}", "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007  the router's wall clock
