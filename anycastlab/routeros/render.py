"""A plan as text for a person and as JSON for a program. Pure strings: colours are the caller's."""

from __future__ import annotations

from typing import Any, Final

from anycastlab.outside_text import lines
from anycastlab.routeros.order import Before
from anycastlab.routeros.plan import Add, Change, Move, Plan, Remove, Step
from anycastlab.routeros.row import SECRETS, describe

MASK = "***"
CONNECTION: Final = "/routing/bgp/connection"

#: Characters of one value: more than our longest script.
MOST_SHOWN: Final = 4000


def render_text(plan: Plan, host: str = "") -> str:
    """The plan, one row after the other, one line per property.

    Marks: `+` added, `~` changed, `-` removed, `>` moved. Ends without a line break.
    """
    where = f"Router {host}" if host else "Router"
    if not plan:
        return "\n".join([f"{where}: nothing to change.", *(f"  note: {note}" for note in plan.notes)])
    lines = [f"{where}: {summary(plan)}."]
    lines += [f"  note: {note}" for note in plan.notes]
    menu = ""
    for step in sorted(plan.steps, key=_reading_order(plan)):
        if _menu(step) != menu:
            menu = _menu(step)
            lines.append(f"  {menu}")
        lines += [f"    {line}" for line in _step_lines(step)]
    return "\n".join(lines)


def render_warning(plan: Plan) -> list[str]:
    """What of a plan takes something away, for the question before it is done."""
    lines = []
    if removed := plan.of(Remove):
        lines.append(f"{len(removed)} rows will be removed from the router: {', '.join(row.tag for row in removed)}.")
        if any(row.menu == CONNECTION for row in removed):
            lines.append("Nodes whose BGP connection is removed serve nobody afterwards.")
    if changed := plan.of(Change):
        lines.append(f"{len(changed)} rows or settings will get the values of the backup.")
    return lines


def render_json(plan: Plan, host: str = "") -> dict[str, Any]:
    """The same as data, in order of execution; secrets masked."""
    return {
        "router": host,
        "changes": [_step_json(step) for step in plan.steps],
        "counts": {
            "added": len(plan.of(Add)),
            "changed": len(plan.of(Change)),
            "removed": len(plan.of(Remove)),
            "moved": len(plan.of(Move)),
        },
        "notes": list(plan.notes),
    }


def masked(name: str, value: str | None) -> str:
    """A value as it may be shown."""
    if value is None:
        return "(not set)"
    if name in SECRETS:
        return MASK
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return lines(text.replace("\r", ""), MOST_SHOWN)


def summary(plan: Plan) -> str:
    """How many rows, in a line."""
    counts = [
        (len(plan.of(Add)), "to add"),
        (len(plan.of(Change)), "to change"),
        (len(plan.of(Remove)), "to remove"),
        (len(plan.of(Move)), "to move"),
    ]
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _reading_order(plan: Plan):  # type: ignore[no-untyped-def]  # a sort key, used once above
    """Menus in the order they first appear; additions as they will stand, which is the reverse of how they are made."""
    menus = list(dict.fromkeys(_menu(step) for step in plan.steps))
    index = {id(step): number for number, step in enumerate(plan.steps)}

    def key(step: Step) -> tuple[int, int, int]:
        kind = (Remove, Change, Move, Add).index(type(step))
        number = index[id(step)]
        reverse = isinstance(step, Add | Move) and step.before is not None
        return menus.index(_menu(step)), kind, -number if reverse else number

    return key


def _menu(step: Step) -> str:
    return step.menu if isinstance(step, Remove) else step.row.menu


def _step_lines(step: Step) -> list[str]:
    match step:
        case Remove():
            return [f"- {step.tag}  ({describe({**step.actual, 'comment': ''})})"]
        case Change():
            lines = [f"~ {step.row.tag or 'settings'}{_reason(step)}"]
            for p in step.properties:
                lines += _value_lines(p.name, p.old, p.new)
            return lines
        case Move():
            return [f"> {step.row.tag}  {_where(step.before)}"]
        case Add():
            # Among new rows only the first person's row behind them is worth saying.
            place = f"  {_where(step.before)}" if step.before and step.before.row_id else ""
            lines = [f"+ {step.row.tag}{place}{_reason(step)}"]
            for name, value in step.row.creation().items():
                if name != "comment" and (name, value) != ("disabled", "no"):
                    lines += _value_lines(name, value)
            return lines


def _value_lines(name: str, *values: str | None) -> list[str]:
    """`name: old -> new` or `name: value`; scripts line by line."""
    shown = [masked(name, value) for value in values]
    if not any("\n" in text for text in shown):
        return [f"    {name}: {' -> '.join(shown)}"]
    lines = [f"    {name}:"]
    for mark, text in zip(("-", "+") if len(shown) > 1 else ("",), shown, strict=True):
        lines += [f"      {mark}{' ' if mark else ''}{line}" for line in text.split("\n")]
    return lines


def _reason(step: Add | Change) -> str:
    return f"  # {step.row.reason}" if step.row.reason else ""


def _where(before: Before | None) -> str:
    if before is None:
        return "to the end"
    return f"before {before.about or before.row_id or before.tag}"


def _step_json(step: Step) -> dict[str, Any]:
    match step:
        case Remove():
            return {"action": "remove", "menu": step.menu, "tag": step.tag, "id": step.row_id}
        case Change():
            return {
                "action": "change",
                "menu": step.row.menu,
                "tag": step.row.tag,
                "id": step.row_id,
                "properties": [
                    {"name": p.name, "old": _json_value(p.name, p.old), "new": _json_value(p.name, p.new)}
                    for p in step.properties
                ],
            }
        case Move():
            return {
                "action": "move",
                "menu": step.row.menu,
                "tag": step.row.tag,
                "id": step.row_id,
                "before": _before_json(step.before),
            }
        case Add():
            return {
                "action": "add",
                "menu": step.row.menu,
                "tag": step.row.tag,
                "properties": {n: _json_value(n, v) for n, v in step.row.creation().items()},
                "before": _before_json(step.before),
            }


def _json_value(name: str, value: str | None) -> str | None:
    return MASK if value is not None and name in SECRETS else value


def _before_json(before: Before | None) -> str | None:
    return (before.row_id or before.tag) if before else None
