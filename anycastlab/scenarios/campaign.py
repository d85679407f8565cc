"""Several scenarios, each several times: which lab each needs, how long each takes, where its records go."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anycastlab.report import run as records
from anycastlab.report.run import Run
from anycastlab.scenarios import timing
from anycastlab.scenarios.errors import ScenarioError
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
    _refuse(options.out)
    ordered = sorted(scenarios, key=lambda one: (one.layout != "routed", sorted(map(str, one.settings.items()))))
    for layout, group in itertools.groupby(ordered, key=lambda one: one.layout):
        with _lab(layout, options, say) as session:
            chosen = list(group)
            for one in chosen:  # before the first of them breaks anything
                require_nodes(one, session.nodes)
            for one in chosen:
                for number in range(1, options.repeat + 1):
                    say(f"{one.name} {number} of {options.repeat}: {one.title}")
                    run = _run(session, one, options, number)
                    yield run, _written(run, options.out)


def require_nodes(scenario: Scenario, nodes: int) -> None:
    """Raises ScenarioError where the home has fewer nodes than the scenario is about."""
    if nodes < scenario.least_nodes:
        raise ScenarioError(
            f"{scenario.name} needs at least {scenario.least_nodes} nodes, and this lab has {nodes}.",
            "Add nodes to the inventory, or run another scenario (`anycastlab scenario list`).",
        )


def _refuse(out: Path) -> None:
    """A place that cannot be written is known before the lab is broken."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(
            f"Runs cannot be written to {out}: {error.strerror}.", "Name another place: --out."
        ) from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise ScenarioError(f"Runs cannot be written to {out}: Permission denied.", "Name another place: --out.")


def _run(session: Session, one: Scenario, options: Options, number: int) -> Run:
    try:
        return session.run(one, lengths(one, options.quick), options.rate, number)
    except OSError as error:  # a connection that broke, say; the fault is undone by now, or said to be not
        raise ScenarioError(f"{one.name} was broken off: {error}.") from error


def _written(run: Run, out: Path) -> Path:
    folder = run_folder(out, run.scenario, run.number)
    try:
        records.write(run, folder)
    except OSError as error:
        raise ScenarioError(
            f"{run.scenario} {run.number} was {run.verdict.value.upper()}, and could not be written to {folder}: "
            f"{error.strerror}.",
            "The lab is as before.",
        ) from None
    return folder


def _lab(layout: str, options: Options, say: Callable[[str], None]) -> AbstractContextManager[Session]:
    if layout == "flat" and options.data.get("layout") != "flat":
        return flat_lab(options.inventory, options.data, options.lab, say)
    return open_session(options.inventory, options.data, options.lab, say)
