"""Every scenario of the catalog: found by its file, buildable, undoable, and telling what it expects."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from anycastlab.phone import mix
from anycastlab.report.expect import Expect
from anycastlab.report.judge import judge
from anycastlab.report.reference import PUBLISHED
from anycastlab.report.run import Verdict
from anycastlab.scenarios import catalog, show, timing
from anycastlab.scenarios.actions import Action, Api, Deploy, On, OnHost, Power, from_json, to_json
from anycastlab.scenarios.campaign import lengths
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.site.load import KNOWN_KEYS
from tests.unit.scenarios.doubles import FakeStage, good

NAMES = catalog.names()


def test_the_catalog_is_the_files_of_its_folder() -> None:
    folder = Path(catalog.__file__).parent
    assert {name.replace("-", "_") for name in NAMES} == {p.stem for p in folder.glob("*.py")} - {"__init__"}
    assert set(PUBLISHED) <= set(NAMES)


def test_an_unknown_name_is_answered_with_the_likely_one() -> None:
    with pytest.raises(ScenarioError, match=r"Did you mean freeze\?"):
        catalog.find("freze")
    assert [one.name for one in catalog.every(["kill", "freeze", "kill"])] == ["kill", "freeze"]


def _heals(action: Action) -> bool:
    return getattr(action, "state", "") == "restart" or getattr(action, "verb", "") == "clear"


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_can_be_run_and_undone(name: str) -> None:
    scenario = catalog.find(name)
    stage = FakeStage()
    fault = scenario.fault(stage)
    assert fault.do
    assert fault.targets
    # What is done to this machine, to an instance's power or to the router's rows does not heal by itself: there is an
    # undo of the same kind. A restart and a cleared session do.
    for kind in (OnHost, Power, Api, Deploy):
        done = [a for a in fault.do if isinstance(a, kind) and not _heals(a)]
        undone = [a for a in fault.undo if isinstance(a, kind)]
        assert bool(done) <= bool(undone), f"{kind.__name__} is not undone"
    for action in (*fault.do, *fault.undo):
        assert from_json(json.loads(json.dumps(to_json(action)))) == action
    # An undo runs over again, and where there is nothing left to undo.
    for action in fault.undo:
        if isinstance(action, OnHost):
            assert not action.strict
        if isinstance(action, On):
            assert not action.strict or action.argv[:2] in (("systemctl", "start"), ("rm", "-f"))


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_expects_something(name: str) -> None:
    scenario = catalog.find(name)
    assert scenario.expect != Expect()
    assert scenario.about.endswith(".")
    assert show.expectations(scenario.expect)
    # A control that a run without any loss passes would control nothing.
    if scenario.control:
        assert judge(good(), scenario.expect).verdict is Verdict.FAILED


@pytest.mark.parametrize("name", NAMES)
def test_its_lengths_leave_room_for_what_is_judged(name: str) -> None:
    scenario = catalog.find(name)
    for quick in (True, False):
        spans = lengths(scenario, quick)
        assert spans.calm_s >= timing.AIM_S + 1
        assert spans.hold_s >= (scenario.expect.clean_from_s or 0) + 2


@pytest.mark.parametrize("name", NAMES)
def test_its_names_and_settings_exist(name: str) -> None:
    scenario = catalog.find(name)
    assert set(scenario.settings) <= KNOWN_KEYS
    folder = resources.files("anycastlab.scenarios").joinpath("mixes")
    file = folder.joinpath(f"{scenario.phone.mix}.json")
    names = mix.load(scenario.phone.mix) if scenario.phone.mix == "lab" else mix.parse_json("mix", file.read_text())
    asked = {entry.kind for entry in names.entries}
    expect = scenario.expect
    wanted = {*expect.clean_kinds, *expect.failing_kinds, *expect.lost_least_of, *scenario.uncacheable}
    assert wanted <= asked
    for kind in scenario.uncacheable:
        assert any(mix.RANDOM in entry.name for entry in names.entries if entry.kind == kind)


def test_the_quick_set_has_what_continuous_integration_must_see() -> None:
    quick = {one.name: one for one in catalog.every() if one.in_quick_set}
    assert {"kill", "freeze", "all-dead"} <= set(quick)
    assert any(one.control for one in quick.values())


def test_show_says_what_a_scenario_is() -> None:
    assert show.text(catalog.find("freeze-one-flow")) == (
        "freeze-one-flow: The node that serves the client's one flow freezes\n"
        "The same freeze, asked over one socket: every query of the household goes to the node that dies.\n"
        "With a fresh port for each query only a third of them do; this is the figure to hold beside the\n"
        "published one.\n"
        "lengths: 30 s calm, 60 s fault, 30 s calm; with --quick 5 s calm, 10 s fault, 12 s calm\n"
        "phone: mix lab, UDP, one flow\n"
        "expected:\n"
        "  at most 0 wrong answers\n"
        "  queries lost for at most 1.25 x BFD's detection time and one query\n"
        "  nothing lost later than 2.0 s after the fault"
    )
