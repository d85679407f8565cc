"""The table of a report in four forms: terminal, Markdown, CSV, JSON. One row per scenario and conditions of its runs;
CSV has one per run.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from anycastlab.outside_text import one_line
from anycastlab.report.reference import published
from anycastlab.report.run import Run, Verdict
from anycastlab.report.statistics import RunSummary, spread, summarize, worst_verdict

HEADINGS = (
    "scenario", "verdict", "runs", "sent", "lost", "stalled", "SERVFAIL", "felt outage", "worst gap", "withdrawn",
    "returned", "share", "phone late (p99)", "published",
)  # fmt: skip
# What a terminal of 80 columns has room for.
NARROW_HEADINGS = ("scenario", "verdict", "lost", "felt outage", "withdrawn", "returned")
WIDE = 160  # columns from which the whole table is readable
_COLORS = {Verdict.OK: "green", Verdict.VOID: "yellow", Verdict.FAILED: "red"}
_LEFT = {"scenario", "verdict", "share", "published"}
NOTHING = "-"
MOST_CELL = 1000  # characters of a table's cell, or of a sentence under it
_MARKUP = re.compile(r"[\\`*\[\]|<]")


@dataclass(frozen=True)
class Cell:
    """A cell: the median or word, and what stands smaller beside it, such as the range over repeats."""

    main: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.main} ({self.note})" if self.note else self.main


@dataclass(frozen=True)
class Group:
    """The runs of one scenario under the same conditions, with their numbers."""

    scenario: str
    title: str
    runs: tuple[Run, ...]
    summaries: tuple[RunSummary, ...]
    variant: str = ""  # what sets it apart from the scenario's other groups, such as `bfd_interval_ms 50`

    @property
    def name(self) -> str:
        return str(Cell(self.scenario, self.variant))

    @property
    def verdict(self) -> Verdict:
        return worst_verdict(s.verdict for s in self.summaries)

    @property
    def valid(self) -> tuple[RunSummary, ...]:
        """Runs that are results. A void run is none, so it is in no median."""
        return tuple(s for s in self.summaries if s.verdict is not Verdict.VOID)


def group(runs: Sequence[Run]) -> list[Group]:
    """By scenario and conditions, in the order in which they first occur; repeats by number.

    A median over runs with other settings, rates or lengths would be a figure of nothing.
    """
    groups = []
    for scenario in dict.fromkeys(run.scenario for run in runs):
        alike: dict[tuple[tuple[str, str], ...], list[Run]] = {}
        for run in runs:
            if run.scenario == scenario:
                alike.setdefault(tuple(sorted(conditions(run).items())), []).append(run)
        every = [conditions(found[0]) for found in alike.values()]
        for found, mine in zip(alike.values(), every, strict=True):
            repeats = tuple(sorted(found, key=lambda r: (r.number, r.start_ns)))
            numbers = tuple(summarize(run) for run in repeats)
            groups.append(Group(scenario, repeats[0].title, repeats, numbers, _variant(mine, every)))
    return groups


# Of the phone's schedule; its seed and its random names differ in every run and are meant to.
_SCHEDULE = ("rate", "duration_s", "transport", "one_flow", "mix", "clients", "timeout_s", "stall_s")


def conditions(run: Run) -> dict[str, str]:
    """What runs must share to be repeats of each other; a lab's name makes no difference."""
    schedule = run.phone.get("schedule", {})
    found = {**run.settings, **{name: schedule[name] for name in _SCHEDULE if name in schedule}}
    return {
        name: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in found.items()
        if name != "lab"
    }


def _variant(mine: Mapping[str, str], every: Sequence[Mapping[str, str]]) -> str:
    names = dict.fromkeys(name for one in every for name in one)
    differing = [name for name in names if len({one.get(name) for one in every}) > 1]
    return ", ".join(f"{name} {mine.get(name, NOTHING)}" for name in differing)


def outcome(groups: Sequence[Group]) -> str:
    """What came of it all, in one line."""
    of = {verdict: [one.name for one in groups if one.verdict is verdict] for verdict in Verdict}
    parts = [f"{len(of[Verdict.OK])} of {len(groups)} scenarios came out as expected"]
    if failed := of[Verdict.FAILED]:
        parts.append(f"{len(failed)} did not ({', '.join(failed)})")
    if void := of[Verdict.VOID]:
        parts.append(f"{len(void)} {'is' if len(void) == 1 else 'are'} no result ({', '.join(void)})")
    worst = max((s.felt_outage_s for one in groups for s in one.valid), default=0.0)
    felt = f"The longest time in which names did not all resolve was {worst:.2f} s." if worst else "Nothing was felt."
    return one_line(f"{'; '.join(parts)}. {felt}", MOST_CELL)


def meaning(groups: Sequence[Group]) -> str:
    """What OK is worth, and that it is no promise of no loss."""
    text = "OK: it was a measurement, the fault was proven, and what was felt is within what the scenario expects."
    lost = [(one.name, max(s.lost for s in one.valid)) for one in groups if one.verdict is Verdict.OK and one.valid]
    if some := [f"{name} {number}" for name, number in lost if number]:
        listed = ", ".join(some)
        text += f" It does not mean that nothing was lost: {listed}. A fault takes a moment to be noticed."
    return one_line(text, MOST_CELL)


def cells(one: Group) -> dict[str, Cell]:
    """A scenario's row, by heading. A scenario whose runs are all void shows no numbers."""
    valid = one.valid
    row = {
        "scenario": Cell(one.scenario, one.variant),
        "verdict": Cell(one.verdict.value.upper()),
        "runs": Cell(str(len(one.runs)) if len(valid) == len(one.runs) else f"{len(valid)} of {len(one.runs)}"),
        "sent": _number(s.sent for s in valid),
        "lost": _number(s.lost for s in valid),
        "stalled": _number(s.stalled for s in valid),
        "SERVFAIL": _number(s.servfail for s in valid),
        "felt outage": _seconds(s.felt_outage_s for s in valid),
        "worst gap": _gap(valid),
        "withdrawn": _seconds(s.withdrawn_after_s for s in valid),
        "returned": _seconds(s.returned_after_s for s in valid),
        "share": _shares(valid),
        # Of all runs: a late phone is why some of them are void.
        "phone late (p99)": _spread((s.phone.late_p99_ms for s in one.summaries), ".1f", "ms"),
        "published": Cell(published(one.scenario)),
    }
    return {heading: row[heading] for heading in HEADINGS}


def terminal(groups: Sequence[Group], width: int | None = None) -> Table:
    """For `rich`. On a terminal of `width` columns that is too narrow for all, the main figures: medians alone."""
    if width is not None and width < WIDE:
        return _narrow(groups)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in _LEFT else "right", overflow="fold")
    for one in groups:
        row = cells(one)
        styled = [Text(str(cell)) for cell in row.values()]
        styled[1] = Text(row["verdict"].main, style=f"bold {_COLORS[one.verdict]}")
        table.add_row(*styled)
    return table


def _narrow(groups: Sequence[Group]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for heading in NARROW_HEADINGS:
        table.add_column(heading, justify="left" if heading in _LEFT else "right", no_wrap=heading != "scenario")
    for one in groups:
        row = cells(one)
        shown = [Text(row[heading].main) for heading in NARROW_HEADINGS]
        shown[0] = Text(one.name)  # two of one name are told apart
        shown[1].stylize(f"bold {_COLORS[one.verdict]}")
        table.add_row(*shown)
    return table


def reasons(groups: Sequence[Group]) -> list[str]:
    """One sentence per run that is void or failed, and one for those whose verdict could not be made once more."""
    said = [
        f"{one.name}, run {run.number}: {run.verdict.value.upper()}: {run.reason}"
        for one in groups
        for run in one.runs
        if run.verdict is not Verdict.OK
    ]
    old = [f"{one.name}, run {run.number}" for one in groups for run in one.runs if run.expected is None]
    if old:
        said.append(f"Verdict taken as written, for the run does not say what was expected: {'; '.join(old)}.")
    return said


def markdown(groups: Sequence[Group]) -> str:
    """A GitHub table, numbers right-aligned, followed by the reasons of void and failed runs."""
    lines = [_markdown_row(HEADINGS), _markdown_row([":---" if h in _LEFT else "---:" for h in HEADINGS])]
    lines += [_markdown_row([_escape(str(cell)) for cell in cells(one).values()]) for one in groups]
    notes = [f"- {_escape(reason)}" for reason in reasons(groups)]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


_CSV_COLUMNS = (
    "scenario", "run", "verdict", "sent", "lost", "stalled", "servfail", "wrong", "felt_outage_s", "worst_gap_queries",
    "worst_gap_s", "withdrawn_after_s", "returned_after_s", "share", "late_p99_ms", "skipped", "start_utc", "reason",
    "conditions",
)  # fmt: skip


def csv_text(groups: Sequence[Group]) -> str:
    """One line per run, raw numbers, empty where there is none."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for one in groups:
        for run, s in zip(one.runs, one.summaries, strict=True):
            share = " ".join(f"{node}={part:g}" for node, part in s.share.items())
            writer.writerow([
                one.scenario, run.number, s.verdict.value, s.sent, s.lost, s.stalled, s.servfail, s.wrong,
                s.felt_outage_s, s.worst_gap.queries, s.worst_gap.seconds, s.withdrawn_after_s, s.returned_after_s,
                share, s.phone.late_p99_ms, s.phone.skipped, run.start_utc, s.reason,
                " ".join(f"{name}={value}" for name, value in conditions(run).items()),
            ])  # fmt: skip
    return out.getvalue()


def as_json(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Per scenario `name`, `verdict` and `runs`, for `--json`."""
    return [
        {"name": one.scenario, "verdict": one.verdict.value, "runs": [s.as_json() for s in one.summaries]}
        for one in groups
    ]


def _number(values: Iterable[float | None]) -> Cell:
    return _spread(values, "g")


def _seconds(values: Iterable[float | None]) -> Cell:
    return _spread(values, ".2f", "s")


def _spread(values: Iterable[float | None], form: str, unit: str = "") -> Cell:
    """Median, and the range where the repeats differ."""
    found = spread(values)
    if found is None:
        return Cell(NOTHING)
    median, low, high = (format(value, form) for value in (found.median, found.low, found.high))
    return Cell(f"{median} {unit}".rstrip(), "" if low == high else f"{low} to {high}")


def _gap(valid: Sequence[RunSummary]) -> Cell:
    queries, seconds = _number(s.worst_gap.queries for s in valid), _seconds(s.worst_gap.seconds for s in valid)
    if queries.main in (NOTHING, "0") and not queries.note:
        return queries
    note = f"{queries.note} in {seconds.note or seconds.main}" if queries.note else seconds.note
    return Cell(f"{queries.main} in {seconds.main}", note)


def _shares(valid: Sequence[RunSummary]) -> Cell:
    nodes = sorted({node for s in valid for node in s.share})
    medians = ((node, spread(s.share.get(node, 0.0) for s in valid)) for node in nodes)
    return Cell(", ".join(f"{node} {value.median:.0%}" for node, value in medians if value) or NOTHING)


def _markdown_row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _escape(text: str) -> str:
    """Cells hold text from records, which may hold anybody's: no cell ends there, and no HTML or link begins."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text, MOST_CELL))
