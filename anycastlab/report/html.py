"""Everything as one page: the table first, then a timeline per run. No script, no font, no picture from elsewhere.

A content security policy in the page forbids it to load anything, so it stays complete when mailed or archived. It
follows the reader's light or dark setting, and on a narrow screen the table becomes one card per scenario.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from anycastlab import __version__
from anycastlab.report import palette, tables, timeline
from anycastlab.report.run import Run, Verdict
from anycastlab.report.statistics import RunSummary, outages

_STYLE = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 80rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 3rem 0 .25rem; display: flex; flex-wrap: wrap; gap: .6rem; align-items: baseline; }
p { margin: .3rem 0; max-width: 60rem; }
.quiet { color: var(--quiet); }
.verdict { font-size: .8rem; font-weight: 700; letter-spacing: .04em; border: 1.5px solid currentColor;
  border-radius: .3rem; padding: 0 .4rem; white-space: nowrap; }
.ok { color: var(--ok); } .void { color: var(--void); } .failed { color: var(--failed); }
table { border-collapse: collapse; width: 100%; margin: 1.5rem 0; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .5rem .55rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
th.left, td.left { text-align: left; }
td small { display: block; color: var(--quiet); white-space: nowrap; }
td .node { white-space: nowrap; display: block; }
td div { white-space: nowrap; }
td.published div { white-space: normal; min-width: 8.5rem; }
td.name { font-weight: 600; }
td.name div, td.name small { white-space: normal; min-width: 6rem; }
a { color: inherit; text-underline-offset: .15em; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.6rem, 1fr)); gap: .3rem 1.2rem;
  margin: .8rem 0; }
dl.facts div { border-left: 3px solid var(--line); padding-left: .6rem; }
dl.facts dt { color: var(--quiet); font-size: .8rem; }
dl.facts dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; padding: 0; margin: .8rem 0; list-style: none;
  font-size: .88rem; }
.legend li { display: flex; align-items: center; gap: .3rem; }
.scroll { overflow-x: auto; margin: .6rem 0; }
.scroll svg { display: block; width: 100%; min-width: 58rem; height: auto; }
.small { display: none; margin: .6rem 0; }
.small svg { display: block; width: 100%; height: auto; }
.came { font-size: 1.05rem; font-weight: 600; }
ul.proof { margin: .3rem 0; padding-left: 1.2rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--quiet); }
.published { font-style: italic; }
@media (max-width: 60rem) {
  main { padding: 1.25rem .9rem 3rem; }
  table, tbody, tr, td { display: block; width: 100%; }
  thead { display: none; }
  tr { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .8rem; margin: 0 0 .8rem; }
  td, td.left { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .12rem 0;
    text-align: right; }
  td::before { content: attr(data-label); color: var(--quiet); text-align: left; }
  td.published div { min-width: 0; }
  td.name, td.name.left { font-size: 1.05rem; text-align: left; } td.name::before { content: none; }
  td.empty { display: none; }
  .scroll { display: none; }
  .small { display: block; max-width: 34rem; }
}
"""

_LEGEND = (
    ("answered", "answered"),
    ("stalled", "stalled (over 0.5 s)"),
    ("lost", "lost"),
    ("servfail", "SERVFAIL"),
    ("wrong", "wrong answer"),
    ("announced", "announced at the router"),
)


def page(groups: Sequence[tables.Group], title: str = "What the household felt") -> str:
    """The page as text."""
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet">{escape(_when_and_where(groups))}</p>',
        f'<p class="came">{escape(tables.outcome(groups))}</p>',
        f"<p>{escape(tables.meaning(groups))}</p>",
        *_table(groups),
        "<p>Median of the valid runs, with the range where they differ. <b>Lost</b>: no answer within the timeout. "
        "<b>Felt outage</b>: from the first bad query until names resolve again, longest stretch. <b>Worst gap</b>: "
        "the longest unbroken row of lost queries. <b>Withdrawn</b> and <b>returned</b>: at the router, after the "
        "fault and after its end. <b>Other</b>: answered by somebody without a node's name, such as the router's own "
        "resolver. <b>Published</b>: the reference write-up's figure for the same fault. The row "
        "on top of each picture is the household: red where names did not all resolve.</p>",
        _legend(),
    ]
    for one in groups:
        body.extend(_scenario(one))
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="anycastlab {__version__}">',
            f"<title>{escape(title)}</title>",
            f"<style>{palette.css()}{_STYLE}{timeline.STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *body,
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _when_and_where(groups: Sequence[tables.Group]) -> str:
    runs = [run for one in groups for run in one.runs]
    scenarios = len({one.scenario for one in groups})
    times = sorted(run.start_utc for run in runs if run.start_utc)
    machine = next((run.machine for run in runs if run.machine), {})
    parts = [f"{len(runs)} run{'s' if len(runs) != 1 else ''} of {scenarios} scenario{'s' if scenarios != 1 else ''}"]
    if times:
        parts.append(times[0][:16].replace("T", " ") + " UTC")
    parts += [f"{name} {value}" for name, value in machine.items()]
    return " · ".join([*parts, f"anycastlab {__version__}"])


def _table(groups: Sequence[tables.Group]) -> Iterable[str]:
    left = {"scenario", "verdict", "share", "published"}
    yield "<table><thead><tr>"
    for heading in tables.HEADINGS:
        yield f'<th scope="col"{" class=left" if heading in left else ""}>{escape(heading)}</th>'
    yield "</tr></thead><tbody>"
    for one in groups:
        yield "<tr>"
        for heading, cell in tables.cells(one).items():
            classes = ["left"] if heading in left else []
            inner = escape(cell.main)
            if cell.note:
                inner += f" <small>{escape(cell.note)}</small>"
            if heading == "scenario":
                classes.append("name")
                inner = f'<a href="#{_anchor(one)}">{escape(cell.main)}</a>{inner.removeprefix(escape(cell.main))}'
            elif heading == "verdict":
                inner = _badge(one.verdict)
            elif heading == "published":
                classes.append("published")
            elif heading == "share":
                inner = "".join(f'<span class="node">{escape(part)}</span>' for part in cell.main.split(", "))
            if cell.main in ("", tables.NOTHING):
                classes.append("empty")
            attribute = f' class="{" ".join(classes)}"' if classes else ""
            yield f'<td data-label="{escape(heading)}"{attribute}><div>{inner}</div></td>'
        yield "</tr>"
    yield "</tbody></table>"


def _scenario(one: tables.Group) -> Iterable[str]:
    yield f'<section id="{_anchor(one)}">'
    yield f"<h2>{escape(one.title)} {_badge(one.verdict)}</h2>"
    if one.variant:
        yield f'<p class="quiet">{escape(one.variant)}</p>'
    typical = _typical(one)
    yield from _run(one.runs[typical], one.summaries[typical], len(one.runs))
    others = [i for i in range(len(one.runs)) if i != typical]
    if others:
        yield f"<details><summary>The other {len(others)} run{'s' if len(others) > 1 else ''}</summary>"
        for i in others:
            yield from _run(one.runs[i], one.summaries[i], len(one.runs))
        yield "</details>"
    yield "</section>"


def _typical(one: tables.Group) -> int:
    """The run to show first: of the valid ones, the one in the middle by felt outage; without any, the first."""
    valid = [i for i, s in enumerate(one.summaries) if s.verdict is not Verdict.VOID]
    if not valid:
        return 0
    ordered = sorted(valid, key=lambda i: (one.summaries[i].felt_outage_s, one.summaries[i].lost))
    return ordered[(len(ordered) - 1) // 2]


def _run(run: Run, numbers: RunSummary, of: int) -> Iterable[str]:
    if of > 1 or run.verdict is not Verdict.OK:
        # With one run, the heading's badge is the run's.
        badge = f" {_badge(run.verdict)}" if of > 1 else ""
        yield f"<p><b>Run {run.number}{f' of {of}' if of > 1 else ''}</b>{badge} {escape(run.reason)}</p>"
    if run.expected is None:
        yield f"<p>Run {run.number}: verdict taken as written, for the run does not say what was expected.</p>"
    never_left = numbers.withdrawn_after_s is None and numbers.returned_after_s is None
    facts = {
        "lost": f"{numbers.lost} of {numbers.sent}",
        "stalled": str(numbers.stalled),
        "SERVFAIL": str(numbers.servfail),
        "felt outage": f"{numbers.felt_outage_s:.2f} s",
        "worst gap": f"{numbers.worst_gap.queries} in {numbers.worst_gap.seconds:.2f} s",
        "withdrawn after": _after(numbers.withdrawn_after_s),
        # What never left had nothing to return.
        "returned after": tables.NOTHING if never_left else _after(numbers.returned_after_s),
        "phone late (p99)": f"{numbers.phone.late_p99_ms:.2f} ms"
        + (f", {numbers.phone.skipped} skipped" if numbers.phone.skipped else ""),
    }
    for client, felt in numbers.felt.items():
        if client != "wire":
            facts[f"felt with {client}"] = f"{felt['failed']} of {felt['asked']} failed"
    yield '<dl class="facts">'
    yield from (f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    yield "</dl>"
    if run.proof:
        yield '<ul class="proof">'
        for proof in run.proof:
            kind = Verdict.OK.value if proof.holds else Verdict.VOID.value
            word = "proven" if proof.holds else "not proven"
            yield f'<li><span class="{kind}">{word}</span>: {escape(proof.sentence)}</li>'
        yield "</ul>"
    yield from _picture(run)
    worst = max(outages(run.queries), key=lambda stretch: stretch.seconds, default=None)
    if worst and (window := timeline.detail(run, worst)):
        yield '<p class="quiet">The outage, enlarged:</p>'
        yield from _picture(run, window)
    yield from _details(run)


def _picture(run: Run, window: tuple[int, int] | None = None) -> Iterable[str]:
    """Twice: what is right on a desk would be unreadable or cut off on a telephone."""
    # Focusable, so that the keyboard can scroll it where the window is narrower still.
    yield f'<div class="scroll" tabindex="0">{timeline.svg(run, window=window)}</div>'
    yield f'<div class="small">{timeline.svg(run, window=window, small=True)}</div>'


def _details(run: Run) -> Iterable[str]:
    groups = {"settings": run.settings, "versions": run.versions, "machine": run.machine}
    schedule = run.phone.get("schedule")
    if schedule:
        groups["phone"] = schedule
    if not any(groups.values()):
        return
    yield "<details><summary>Settings, versions, machine</summary>"
    for name, values in groups.items():
        if values:
            yield f"<p><b>{escape(name)}</b>: {escape(_listed(values))}</p>"
    yield "</details>"


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {' '.join(map(str, value)) if isinstance(value, list) else value}" for key, value in values.items()
    )


def _legend() -> str:
    items = "".join(f"<li>{timeline.legend_mark(kind)} {escape(text)}</li>" for kind, text in _LEGEND)
    return f'<ul class="legend">{items}</ul>'


def _badge(verdict: Verdict) -> str:
    return f'<span class="verdict {verdict.value}">{verdict.value.upper()}</span>'


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.2f} s"


def _anchor(one: tables.Group) -> str:
    return "scenario-" + "".join(c if c.isalnum() or c == "." else "-" for c in one.name)
