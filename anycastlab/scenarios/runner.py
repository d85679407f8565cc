"""One run of a scenario: calm, fault, hold, undo, calm; and the records of it, judged.

Everything is undone on every way out: the fault by its guard (see `guardian`), the instruments by `Recorder.clean`.
The moments of the plan lie on the clock of the queries, CLOCK_MONOTONIC, and are never "now plus a bit".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from anycastlab.report import expectation, statistics
from anycastlab.report.judge import Evidence, judge
from anycastlab.report.run import Announcement, FaultWindow, Proof, Run
from anycastlab.scenarios import timing
from anycastlab.scenarios.actions import Action
from anycastlab.scenarios.model import Fault, PhoneUse, Scenario
from anycastlab.scenarios.recorder import Recording
from anycastlab.scenarios.stage import Stage


class Instruments(Protocol):
    """The phone and the watch of the routes; `Recorder` is the real one."""

    def start(self, use: PhoneUse, rate: float, seconds: float, seed: int) -> int: ...
    def finish(self) -> Recording: ...
    def clean(self) -> None: ...


class Guarding(Protocol):
    """Undoes what it was armed with; `guardian.Guard` is the real one."""

    def arm(self, actions: Sequence[Action]) -> None: ...
    def undo(self) -> None: ...


@dataclass(frozen=True)
class Plan:
    """How a scenario is run this time."""

    scenario: Scenario
    rate: float
    lengths: timing.Lengths
    number: int
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    machine: Mapping[str, str]


def run_once(
    plan: Plan,
    stage: Stage,
    instruments: Instruments,
    guard: AbstractContextManager[Guarding],
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Run:
    """Run it; raises ScenarioError, IncusError or RouterError with everything undone."""
    scenario, lengths = plan.scenario, plan.lengths
    clock = Clock(stage, sleep)
    with guard as guarding:
        try:
            # Also without anything to restore: the guardian ends the instruments of a runner that is killed.
            guarding.arm(scenario.restore)
            stage.do(*scenario.prepare)
            # The names' order differs between repeats; the seed is in the phone's summary.
            seed = random.randrange(1 << 31)
            scheduled_s = lengths.total_s + timing.SCHEDULE_SPARE_S
            start_ns = instruments.start(scenario.phone, plan.rate, scheduled_s, seed)
            calm_end_ns = start_ns + round(lengths.calm_s * timing.NS)
            say(f"calm for {lengths.calm_s:g} s")
            # Whom the fault hits is decided while the household asks, just before.
            clock.until(calm_end_ns - round(timing.AIM_S * timing.NS))
            fault = scenario.fault(stage)
            guarding.arm((*fault.undo, *scenario.restore))
            clock.until(calm_end_ns)
            say(f"{fault.what}; for {lengths.hold_s:g} s")
            began_ns = stage.now_ns()
            hold_end_ns = began_ns + round(lengths.hold_s * timing.NS)
            _do(fault, stage, clock, began_ns, hold_end_ns)
            clock.until(hold_end_ns)
            proofs = tuple(check(stage) for check in fault.proofs)
            reverted_ns = stage.now_ns()
            guarding.undo()
            say(f"undone; calm for {lengths.after_s:g} s")
            # After what the undoing itself took (a deploy, a boot): the calm is a calm.
            clock.until(max(reverted_ns, stage.now_ns()) + round(lengths.after_s * timing.NS))
            recording = instruments.finish()
        finally:
            instruments.clean()
    window = FaultWindow(fault.what, fault.targets, began_ns, reverted_ns)
    return conclude(plan, stage, fault, window, proofs, recording)


def conclude(
    plan: Plan, stage: Stage, fault: Fault, window: FaultWindow, proofs: tuple[Proof, ...], recording: Recording
) -> Run:
    """The run with its verdict. Pure but for the site it reads from the stage."""
    nodes = frozenset(node.name for node in stage.site.nodes)
    evidence = Evidence(
        queries=recording.queries,
        announcements=recording.announcements,
        fault=window,
        nodes=nodes,
        proofs=proofs,
        withdraws=fault.withdraws,
        uncacheable=plan.scenario.uncacheable,
        detection_s=stage.site.bfd.detection_s,
        others_answer=plan.scenario.expect.others_answer,
    )
    judgement = judge(evidence, plan.scenario.expect)
    return Run(
        scenario=plan.scenario.name,
        title=plan.scenario.title,
        verdict=judgement.verdict,
        reason=judgement.reason,
        number=plan.number,
        fault=window,
        proof=(*proofs, *_routes_lost(window, nodes, recording.announcements)),
        queries=recording.queries,
        announcements=recording.announcements,
        phone=recording.phone,
        settings=plan.settings,
        versions=plan.versions,
        machine=plan.machine,
        expected=expectation.to_data(evidence, plan.scenario.expect),
    )


def _routes_lost(window: FaultWindow, nodes: frozenset[str], log: Sequence[Announcement]) -> Iterator[Proof]:
    """What the router saw of the fault: for many faults the one proof that there is. `judge` asks for it."""
    for target in window.targets:
        after_s = statistics.withdrawn_after(replace(window, targets=(target,)), log) if target in nodes else None
        if after_s is not None:
            sentence = f"the router lost its route through {target} after {after_s:.3f} s"
            yield Proof(True, sentence, {"node": target, "seconds": after_s})


@dataclass(frozen=True)
class Clock:
    """Waits until a moment of the stage's clock, in pieces, so that Ctrl-C is heard at once."""

    stage: Stage
    sleep: Callable[[float], None]

    def until(self, moment_ns: int) -> None:
        while (left_s := (moment_ns - self.stage.now_ns()) / timing.NS) > 0:
            self.sleep(min(left_s, timing.SLEEP_PIECE_S))


def _do(fault: Fault, stage: Stage, clock: Clock, began_ns: int, end_ns: int) -> None:
    """Make the fault, and make it again while it is to be repeated and the hold is not over."""
    stage.do(*fault.do)
    if fault.repeat_every_s is None:
        return
    step_ns = round(fault.repeat_every_s * timing.NS)
    next_ns = began_ns + step_ns
    while next_ns < end_ns:
        clock.until(next_ns)
        stage.do(*fault.do)
        next_ns += step_ns
