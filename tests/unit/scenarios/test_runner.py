"""The order of a run, on a clock that only moves when somebody waits; and every way out puts the lab back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anycastlab.report.expect import Expect
from anycastlab.report.run import Announcement, Proof, Run, Verdict
from anycastlab.scenarios.actions import Action, On, Power
from anycastlab.scenarios.model import Fault, PhoneUse, Scenario
from anycastlab.scenarios.runner import Plan, run_once
from anycastlab.scenarios.stage import Stage
from anycastlab.scenarios.timing import Lengths
from tests.unit.scenarios.doubles import NS, BrokenError, FakeGuard, FakeInstruments, FakeStage

STOP, START = Power("node02", "stop"), Power("node02", "start")
BREAK, MEND = On("node02", ("break",)), On("node02", ("mend",))
LENGTHS = Lengths(calm_s=5, hold_s=10, after_s=12)


def seen(stage: Stage) -> Proof:
    assert isinstance(stage, FakeStage)
    stage.log.append("proof")
    return Proof(True, "node02 was stopped")


def fault(stage: Stage) -> Fault:
    assert isinstance(stage, FakeStage)
    stage.log.append("aimed")
    return Fault(
        f"{stage.serving_node()} broken", ("node02",), (STOP, BREAK), (MEND, START), proofs=(seen,), withdraws=False
    )


SCENARIO = Scenario("Something breaks", fault, Expect(lost_most=0), PhoneUse(one_flow=True), name="something")


class House:
    """Everything a run needs, and what came of it."""

    def __init__(self, scenario: Scenario = SCENARIO, **stage: Any) -> None:
        self.stage = FakeStage(**stage)
        self.instruments = FakeInstruments(self.stage)
        self.guard = FakeGuard(self.stage)
        self.plan = Plan(scenario, 20.0, LENGTHS, 1, {"layout": "routed"}, {"FRR": "10.3"}, {"cpus": "2"})
        self.said: list[str] = []

    def run(self) -> Run:
        return run_once(self.plan, self.stage, self.instruments, self.guard, self.said.append, self.stage.sleep)


def test_everything_in_its_order() -> None:
    house = House()
    run = house.run()
    assert house.stage.log == [
        "guarded", "armed", "start", "aimed", "armed", STOP, BREAK, "proof", ("undone", MEND), ("undone", START),
        "finish", "clean", "unguarded",
    ]  # fmt: skip
    assert (run.scenario, run.number, run.verdict, run.reason) == ("something", 1, Verdict.OK, "")
    assert run.settings == {"layout": "routed"}


def test_what_a_control_takes_away_is_taken_before_the_household_asks_and_given_back() -> None:
    take, give = On("router", ("take",)), On("router", ("give",))
    house = House(replace(SCENARIO, prepare=(take,), restore=(give,)))
    house.run()
    log = house.stage.log
    assert log[:4] == ["guarded", "armed", take, "start"]
    assert log[-4:] == [("undone", give), "finish", "clean", "unguarded"]
    # … also when it is the taking that fails
    house = House(replace(SCENARIO, prepare=(take,), restore=(give,)), fails_at=lambda action: action == take)
    with pytest.raises(BrokenError):
        house.run()
    assert ("undone", give) in house.stage.log


def test_the_times_lie_on_the_clock_of_the_queries() -> None:
    house = House()
    run = house.run()
    assert run.fault is not None
    # The fault begins at the end of the calm, before its first action has taken its time.
    assert run.fault.began_ns == house.instruments.start_ns + 5 * NS
    assert run.fault.reverted_ns == run.fault.began_ns + 10 * NS
    # The phone is stopped when the calm after the undoing is over.
    assert run.queries[-1].intended_ns == pytest.approx(run.fault.reverted_ns + 12 * NS, abs=NS / 5)


def test_the_phone_is_asked_for_what_the_scenario_says_and_for_long_enough() -> None:
    house = House()
    house.run()
    [(use, rate, seconds, _)] = house.instruments.asked
    assert (use, rate) == (PhoneUse(one_flow=True), 20.0)
    assert seconds > LENGTHS.total_s


def test_a_fault_that_outlasts_the_hold_is_measured_whole() -> None:
    """A rolling deploy of 30 s in a hold of 10 s: the hold is as long as the deploy, and the calm comes after it."""
    house = House(action_s=15.0)
    run = house.run()
    assert run.fault is not None
    assert run.fault.reverted_ns == run.fault.began_ns + 30 * NS
    assert run.queries[-1].intended_ns > run.fault.reverted_ns + 11 * NS


def test_a_repeated_fault_is_made_until_the_hold_is_over() -> None:
    repeated = replace(SCENARIO, fault=lambda stage: replace(fault(stage), repeat_every_s=3.0, do=(BREAK,)))
    house = House(repeated)
    house.run()
    assert house.stage.log.count(BREAK) == 4  # at 0, 3, 6 and 9 s of 10
    assert house.stage.log.index("proof") > max(n for n, what in enumerate(house.stage.log) if what == BREAK)


def test_a_proof_that_does_not_hold_makes_the_run_void() -> None:
    unproven = replace(SCENARIO, fault=lambda stage: replace(fault(stage), proofs=(lambda _: Proof(False, "it ran"),)))
    run = House(unproven).run()
    assert (run.verdict, run.reason) == (Verdict.VOID, "No proof: it ran.")


def test_what_the_router_saw_is_a_proof_too() -> None:
    """A drain, a reset session and a planned restart have no other."""
    house = House(replace(SCENARIO, fault=lambda stage: replace(fault(stage), proofs=(), withdraws=True)))
    began = house.stage.now + round((2.5 + 5) * NS)
    house.instruments.changes = (
        Announcement(began + NS // 8, "node02", False),
        Announcement(began + NS // 4, "node03", False),
    )
    run = house.run()
    assert [proof.sentence for proof in run.proof] == ["the router lost its route through node02 after 0.125 s"]
    assert (run.verdict, run.proof[0].holds) == (Verdict.OK, True)


@pytest.mark.parametrize("failing", [STOP, BREAK])
def test_a_fault_that_fails_half_way_is_undone_whole(failing: Action) -> None:
    house = House(fails_at=lambda action: action == failing)
    with pytest.raises(BrokenError):
        house.run()
    assert house.stage.log[-4:] == ["clean", ("undone", MEND), ("undone", START), "unguarded"]


@pytest.mark.parametrize("where", ["start", "aim", "arm", "proof", "finish"])
def test_whatever_fails_the_instruments_end_and_the_fault_is_undone(where: str) -> None:
    def broken(_: Stage) -> Any:
        raise BrokenError(where)

    scenario = {
        "aim": replace(SCENARIO, fault=broken),
        "proof": replace(SCENARIO, fault=lambda stage: replace(fault(stage), proofs=(broken,))),
    }.get(where, SCENARIO)
    house = House(scenario)
    house.instruments.fails = where
    house.guard.fails = where == "arm"
    with pytest.raises(BrokenError):
        house.run()
    assert "clean" in house.stage.log
    assert house.stage.log[-1] == "unguarded"
    was_broken = STOP in house.stage.log
    assert was_broken is (where in ("proof", "finish"))
    assert (("undone", START) in house.stage.log) is was_broken


@pytest.mark.parametrize("after_s", [1.0, 6.0, 12.0, 20.0])
def test_ctrl_c_at_any_moment_puts_everything_back(after_s: float) -> None:
    house = House()
    end = house.stage.now + round((2.5 + after_s) * NS)

    def sleep(seconds: float) -> None:
        house.stage.sleep(seconds)
        if house.stage.now >= end:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_once(house.plan, house.stage, house.instruments, house.guard, house.said.append, sleep)
    assert house.stage.log.count(STOP) == house.stage.log.count(("undone", START))
    assert "clean" in house.stage.log
    assert house.stage.log[-1] == "unguarded"
