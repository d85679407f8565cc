"""`anycastlab scenario`: break the lab on purpose and measure what was felt."""

from __future__ import annotations

import contextlib
import json
import math
import signal
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from anycastlab.commands.options import data_option, inventory_option, json_option, parse_data
from anycastlab.exit_codes import OK, PENDING

DEFAULT_OUT = Path("runs")
_WIDEST = 160  # columns of the list of scenarios, where no terminal limits it


class _Rate(click.FloatRange):
    """`nan` is within every range to click."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


@click.group()
def scenario() -> None:
    """Break the lab on purpose and measure what was felt."""


@scenario.command("list")
@json_option
def list_(as_json: bool) -> int:
    """Show every scenario in a line."""
    from anycastlab import narrow
    from anycastlab.scenarios import catalog, show

    found = catalog.every()
    if as_json:
        click.echo(json.dumps([show.as_json(one) for one in found], indent=2))
    else:
        width = narrow.columns()
        Console(highlight=False, width=min(width, _WIDEST)).print(show.table(found, width))
    return OK


@scenario.command("show")
@click.argument("name")
@json_option
def show_(name: str, as_json: bool) -> int:
    """Show what a scenario does, how long it takes and what must come of it."""
    from anycastlab.scenarios import catalog, show

    found = catalog.find(name)
    click.echo(json.dumps(show.as_json(found), indent=2) if as_json else show.text(found))
    return OK


@scenario.command("run")
@click.argument("names", nargs=-1)
@inventory_option
@data_option
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs of each scenario.")
@click.option("--rate", type=_Rate(1, 1000), default=20.0, show_default=True, help="Queries per second.")
@click.option("--quick", is_flag=True, help="Short lengths; without names, the quick set.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_OUT, show_default=True)
@json_option
def run_(
    names: tuple[str, ...],
    inventory: str,
    data: tuple[str, ...],
    repeat: int,
    rate: float,
    quick: bool,
    out: Path,
    as_json: bool,
) -> int:
    """Run scenarios (all of them without a name) in the embedded lab. Exit 0: all ok, 2: one is void or failed.

    Each run is written to a folder of its own below --out, for `anycastlab report`.
    """
    from anycastlab.lab import machines
    from anycastlab.report import tables
    from anycastlab.report.run import Run, Verdict
    from anycastlab.scenarios import catalog
    from anycastlab.scenarios.campaign import Options, run_all

    chosen = catalog.every(names)
    if quick and not names:
        chosen = [one for one in chosen if one.in_quick_set]
    options = Options(inventory, parse_data(data), machines.current().name, repeat, rate, quick, out)
    # A closed terminal and a service manager ask as politely as Ctrl-C, and get the same care.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
            signal.signal(number, _interrupt)
    runs: list[Run] = []
    try:
        # Closed at once when we are stopped, for that is what undoes things.
        with contextlib.closing(run_all(chosen, options, _say)) as results:
            for run, folder in results:
                runs.append(run)
                reason = f": {run.reason}" if run.reason else ""
                _say(f"{run.scenario} {run.number}: {run.verdict.value.upper()}{reason} ({folder})")
    except KeyboardInterrupt:
        _say("stopped; everything is undone")
        raise
    groups = tables.group(runs)
    if as_json:
        click.echo(json.dumps([_as_json(group) for group in groups], indent=2))
    else:
        console = Console()
        console.print(tables.terminal(groups, console.width))
        for reason in tables.reasons(groups):
            console.print(reason, markup=False, highlight=False)
    return OK if all(group.verdict is Verdict.OK for group in groups) else PENDING


def _as_json(group: Any) -> dict[str, Any]:
    return {
        "name": group.scenario,
        "title": group.title,
        "verdict": group.verdict.value,
        "runs": [summary.as_json() for summary in group.summaries],
    }


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    # A reader that has gone (`2>&1 | head`) is no reason to break off in the middle of a fault.
    with contextlib.suppress(OSError):
        click.echo(text, err=True)
