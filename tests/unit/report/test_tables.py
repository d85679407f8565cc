"""The table in its forms, against golden text."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest
from rich.console import Console

from anycastlab.report import tables
from anycastlab.report.run import Run, Verdict
from tests.unit.report import samples

MARKDOWN = """\
| scenario | verdict | runs | sent | lost | stalled | SERVFAIL | felt outage | worst gap | withdrawn | returned | share | phone late (p99) | published |
| :--- | :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | :--- | ---: | :--- |
| kill | OK | 1 | 900 | 0 | 0 | 0 | 0.00 s | 0 | 0.00 s | 1.30 s | node01 44%, node02 16%, node03 40% | 0.1 ms | 0 lost |
| freeze | OK | 3 | 900 | 6 | 0 | 0 | 0.55 s (0.55 to 0.59) | 3 in 0.15 s | 0.87 s (0.79 to 0.95) | 1.30 s | node01 20%, node02 40%, node03 40% | 0.1 ms | 16 lost in 0.8 s |
| all-dead | OK | 1 | 900 | 21 | 0 | 0 | 1.05 s | 21 in 1.05 s | 0.87 s | 1.30 s | node01 20%, node02 17%, node03 17%, other 46% | 0.1 ms | 11 lost in 1.1 s |
| all-dead-no-last-resort | FAILED | 1 | 900 | 426 | 0 | 0 | 21.30 s | 426 in 21.30 s | 0.87 s | 1.30 s | node01 38%, node02 31%, node03 31% | 0.1 ms | 60 s without DNS |
| wan-down | OK | 1 | 900 | 0 | 0 | 80 | 21.85 s | 0 | - | - | node01 37%, node02 32%, node03 31% | 0.1 ms | every uncached name fails, no cached one |
| freeze-idle | VOID | 0 of 1 | - | - | - | - | - | - | - | - | - | 0.1 ms |  |

- all-dead-no-last-resort, run 1: FAILED: Expected at most 1.5 s without DNS & got \\<20 s>.
- freeze-idle, run 1: VOID: No packet of the client met the fault.
"""  # noqa: E501  # a Markdown table has no line breaks


@pytest.fixture(scope="module")
def runs() -> tuple[Run, ...]:
    return samples.several()


@pytest.fixture(scope="module")
def groups(runs: tuple[Run, ...]) -> list[tables.Group]:
    return tables.group(runs)


def test_markdown(groups: list[tables.Group]) -> None:
    assert tables.markdown(groups) == MARKDOWN


def test_pipes_do_not_break_the_markdown_table() -> None:
    group = tables.group([samples.run("a|b", "t", "x", samples.Home())])

    assert "| a\\|b | OK |" in tables.markdown(group)


def test_text_of_others_begins_neither_html_nor_links_in_markdown() -> None:
    run = samples.run("x", "t", "x", samples.Home())
    hostile = replace(run, verdict=Verdict.VOID, reason="a<br>b [c](http://d) `e` ![f](g)\nh | i\x1b[2J")
    shown = tables.markdown(tables.group([hostile]))
    assert "a\\<br>b \\[c\\](http://d) \\`e\\` !\\[f\\](g) h \\| i \\[2J" in shown


def test_repeats_are_grouped_in_order_of_their_number(runs: tuple[Run, ...]) -> None:
    (freeze,) = (g for g in tables.group(runs[::-1]) if g.scenario == "freeze")

    assert [run.number for run in freeze.runs] == [1, 2, 3]


def under(run: Run, **settings: object) -> Run:
    schedule = {**run.phone["schedule"], **{key: settings.pop(key) for key in ("rate", "seed") if key in settings}}
    return replace(run, settings={**run.settings, **settings}, phone={**run.phone, "schedule": schedule})


def test_runs_under_other_conditions_are_no_repeats(runs: tuple[Run, ...]) -> None:
    # given three runs of `freeze` with one BFD interval, one with another, one at another rate
    freezes = [under(run, bfd_interval_ms=100) for run in runs if run.scenario == "freeze"]
    others = [under(freezes[0], bfd_interval_ms=50), under(freezes[0], rate=100.0)]
    # when
    groups = tables.group([*freezes, *others])
    # then each has a row, which says what is different, in every form
    assert [(g.variant, len(g.runs)) for g in groups] == [
        ("bfd_interval_ms 100, rate 20.0", 3),
        ("bfd_interval_ms 50, rate 20.0", 1),
        ("bfd_interval_ms 100, rate 100.0", 1),
    ]
    assert "| freeze (bfd_interval_ms 50, rate 20.0) | OK | 1 |" in tables.markdown(groups)
    lines = list(csv.DictReader(tables.csv_text(groups).splitlines()))
    assert ["bfd_interval_ms=50" in line["conditions"] for line in lines] == [False] * 3 + [True, False]
    console = Console(width=80)
    with console.capture() as capture:
        console.print(tables.terminal(groups, console.width))
    text = capture.get()
    assert "…" not in text
    assert text.count("bfd_interval_ms") == 3


def test_a_repeat_may_differ_in_seed_and_in_the_name_of_its_lab(runs: tuple[Run, ...]) -> None:
    freezes = [under(run, seed=run.number, lab=f"lab{run.number}") for run in runs if run.scenario == "freeze"]

    [group] = tables.group(freezes)

    assert (group.variant, group.name, len(group.runs)) == ("", "freeze", 3)


def test_csv_has_one_line_per_run_with_raw_numbers(groups: list[tables.Group]) -> None:
    lines = list(csv.DictReader(tables.csv_text(groups).splitlines()))

    assert len(lines) == 8
    frozen = [line for line in lines if line["scenario"] == "freeze"]
    assert [line["withdrawn_after_s"] for line in frozen] == ["0.87", "0.79", "0.95"]
    assert lines[-1]["verdict"] == "void"
    assert lines[-1]["reason"] == "No packet of the client met the fault."
    assert {line["start_utc"] for line in lines} == {"2026-11-29T21:19:29.000Z"}


def test_json_is_json(groups: list[tables.Group]) -> None:
    document = json.loads(json.dumps(tables.as_json(groups)))

    assert [(s["name"], s["verdict"], len(s["runs"])) for s in document] == [
        ("kill", "ok", 1), ("freeze", "ok", 3), ("all-dead", "ok", 1), ("all-dead-no-last-resort", "failed", 1),
        ("wan-down", "ok", 1), ("freeze-idle", "void", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_terminal_shows_every_row_at_any_width(groups: list[tables.Group], width: int) -> None:
    console = Console(width=width, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(tables.terminal(groups))

    text = capture.get()
    assert max(len(line) for line in text.splitlines()) <= width
    if width == 200:
        assert "16 lost in 0.8 s" in text
        assert "0.55 s (0.55" in text


def test_a_terminal_of_80_columns_has_the_main_figures_whole(groups: list[tables.Group]) -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(tables.terminal(groups, console.width))
    text = capture.get()
    heading, _, *rows = [line.split() for line in text.splitlines() if line.strip()]
    assert heading == ["scenario", "verdict", "lost", "felt", "outage", "withdrawn", "returned"]
    assert [row[0] for row in rows] == [one.scenario for one in groups]
    assert "…" not in text
