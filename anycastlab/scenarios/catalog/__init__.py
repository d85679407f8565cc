"""The scenarios, one short file each, found by file name: `wan_down.py` is the scenario `wan-down`.

A file defines `SCENARIO`, and is in the list by being there.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module

from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.model import Scenario


def names() -> list[str]:
    """Every scenario's name, sorted."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def find(name: str) -> Scenario:
    """The scenario called `name`; raises ScenarioError."""
    if name not in names():
        close = difflib.get_close_matches(name, names(), n=1)
        meant = f"Did you mean {close[0]}?" if close else "`anycastlab scenario list` shows them."
        raise ScenarioError(f"There is no scenario {name}.", meant)
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    scenario = module.SCENARIO
    assert isinstance(scenario, Scenario), f"{module.__file__} defines no SCENARIO"
    return replace(scenario, name=name, about=" ".join((module.__doc__ or "").split()))


def every(chosen: Iterable[str] = ()) -> list[Scenario]:
    """The scenarios of these names, in their order; all of them without one. A name twice counts once."""
    return [find(name) for name in dict.fromkeys(chosen or names())]
