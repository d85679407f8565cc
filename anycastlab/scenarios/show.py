"""Scenarios for people: a line each, or all about one; and the same as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from anycastlab import narrow
from anycastlab.report.expect import Expect
from anycastlab.scenarios import timing
from anycastlab.scenarios.model import Scenario

_WIDTH = 100  # columns of text
_NARROW = 70  # columns, below which a table of names and titles is hard to read
# field of Expect -> sentence; `{}` is its value
_SENTENCES = {
    "lost_most": "at most {} queries lost",
    "lost_least": "at least {} queries lost (a control: the loss must show)",
    "servfail_most": "at most {} SERVFAIL",
    "wrong_most": "at most {} wrong answers",
    "outage_most_s": "felt outage at most {} s",
    "outage_detections": "queries lost for at most {} x BFD's detection time and one query",
    "outage_least_s": "felt outage at least {} s (a control: it must show)",
    "withdrawn_within_s": "withdrawn at the router within {} s",
    "returned_within_s": "back at the router within {} s",
    "never_withdrawn": "no node withdrawn",
    "clean_kinds": "no failure among {} names",
    "stays_withdrawn": "a node that was withdrawn stays so until the fault is undone",
    "others_answer": "somebody who is no node may answer in the fault, such as the last resort",
    "failing_kinds": "every one of the {} names fails while it lasts",
    "lost_least_of": "at least so many failures by kind of name: {} (a control)",
    "clean_from_s": "nothing lost later than {} s after the fault",
}


def expectations(expect: Expect) -> list[str]:
    """A phrase for each thing that is judged."""
    found = []
    for name, sentence in _SENTENCES.items():
        value = getattr(expect, name)
        if value is None or value is False or value == () or value == {}:
            continue
        if isinstance(value, tuple):
            value = " and ".join(value)
        elif not isinstance(value, (int, float)):
            value = ", ".join(f"{key} {number}" for key, number in value.items())
        found.append(sentence.format(value))
    return found


def table(scenarios: Sequence[Scenario], columns: int) -> Group:
    """A line each; a block where the terminal is too narrow for that."""
    rows = []
    for one in scenarios:
        words = ["quick"] if one.in_quick_set else []
        words += ["control"] if one.control else []
        words += [one.layout] if one.layout != "routed" else []
        rows.append((one.name, one.title, ", ".join(words)))
    if columns < _NARROW:
        return Group(*map(Text, narrow.blocks(("", "", ""), rows, columns)))
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("scenario", no_wrap=True)
    shown.add_column("what happens")
    shown.add_column("set")
    for row in rows:
        shown.add_row(*row)
    return Group(shown)


def text(one: Scenario) -> str:
    full, quick = one.lengths or timing.FULL, one.quick or timing.QUICK
    phone = one.phone
    ways = [f"mix {phone.mix}", phone.protocol.upper(), "one flow" if phone.one_flow else "a fresh port for each query"]
    lines = [
        f"{one.name}: {one.title}",
        *textwrap.wrap(one.about, _WIDTH),
        *(["negative control: the loss must show"] if one.control else []),
        f"lengths: {_lengths(full)}; with --quick {_lengths(quick)}",
        f"phone: {', '.join(ways)}",
        *([f"layout: {one.layout}"] if one.layout != "routed" else []),
        *([f"settings: {', '.join(f'{k}={v}' for k, v in one.settings.items())}"] if one.settings else []),
        "expected:",
        *(f"  {phrase}" for phrase in expectations(one.expect)),
    ]
    return "\n".join(lines)


def as_json(one: Scenario) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "about": one.about,
        "control": one.control,
        "quick_set": one.in_quick_set,
        "layout": one.layout,
        "settings": dict(one.settings),
        "lengths": asdict(one.lengths or timing.FULL),
        "quick_lengths": asdict(one.quick or timing.QUICK),
        "phone": asdict(one.phone),
        "expect": expectations(one.expect),
    }


def _lengths(lengths: timing.Lengths) -> str:
    return f"{lengths.calm_s:g} s calm, {lengths.hold_s:g} s fault, {lengths.after_s:g} s calm"
