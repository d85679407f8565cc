"""Several scenarios, each several times: which lab each needs, how long each takes, where its records go."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anycastlab.report import run as records
from anycastlab.report.run import Run
from anycastlab.scenarios import timing
from anycastlab.scenarios.model import Scenario
from anycastlab.scenarios.session import Session, flat_lab, open_session, run_folder


@dataclass(frozen=True)
class Options:
    """What a person asked for. `data` are the settings that the lab has."""

    inventory: str
    data: Mapping[str, Any]
    lab: str
    repeat: int = 1
    rate: float = timing.RATE
    quick: bool = False
    out: Path = Path("runs")


def lengths(scenario: Scenario, quick: bool) -> timing.Lengths:
    """How long the parts of a run are."""
    if quick:
        return scenario.quick or timing.QUICK
    return scenario.lengths or timing.FULL


def run_all(scenarios: Sequence[Scenario], options: Options, say: Callable[[str], None]) -> Generator[tuple[Run, Path]]:
    """Run them all and write each run down as soon as it is over; yields it with its folder. Raises AnycastlabError.

    Scenarios of one layout run one after the other in one lab; those with settings of their own come last, so the lab
    is deployed as seldom as possible.
    """
    ordered = sorted(scenarios, key=lambda one: (one.layout != "routed", sorted(map(str, one.settings.items()))))
    for layout, group in itertools.groupby(ordered, key=lambda one: one.layout):
        with _lab(layout, options, say) as session:
            for one in group:
                for number in range(1, options.repeat + 1):
                    say(f"{one.name} {number} of {options.repeat}: {one.title}")
                    run = session.run(one, lengths(one, options.quick), options.rate, number)
                    folder = run_folder(options.out, one.name, number)
                    records.write(run, folder)
                    yield run, folder


def _lab(layout: str, options: Options, say: Callable[[str], None]) -> AbstractContextManager[Session]:
    if layout == "flat" and options.data.get("layout") != "flat":
        return flat_lab(options.inventory, options.data, options.lab, say)
    return open_session(options.inventory, options.data, options.lab, say)
