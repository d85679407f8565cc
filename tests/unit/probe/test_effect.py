"""From the wish to the effect: what is ordered when link and FRR follow, and when they do not."""

from __future__ import annotations

import pytest

from anycastlab.probe.config import Effect
from anycastlab.probe.effect import CallForHelp, Follower, Route, SetLink, ShutNeighbors, Step

EFFECT = Effect()


class Run:
    """A follower on a clock of 0.05 s with a FRR that says `route`."""

    def __init__(self, up: bool, route: Route) -> None:
        self.now = 100.0
        self.follower = Follower(EFFECT, self.now)
        self.route = route
        self.follower.saw_link(up)
        self.follower.want(up, self.now)
        self.steps: list[tuple[float, Step]] = []
        self.link_obeys = True

    def want(self, up: bool) -> None:
        self.follower.want(up, self.now)
        self.changed = self.now

    def run(self, seconds: float) -> list[tuple[float, Step]]:
        """Orders with the time since the last wish."""
        self.steps.clear()
        end = self.now + seconds
        while self.now < end:
            for step in self.follower.steps(self.now):
                self.steps.append((round(self.now - self.changed, 2), step))
                if isinstance(step, SetLink) and self.link_obeys:
                    self.follower.saw_link(step.up)
            self.now += 0.05
            self.follower.saw_route(self.route, self.now)
        return self.steps


def test_a_frr_that_follows_gets_one_order() -> None:
    run = Run(True, Route.TOLD)
    run.want(False)
    run.route = Route.ABSENT
    assert run.run(5) == [(0, SetLink(False))]
    assert run.follower.settled
    run.want(True)
    run.route = Route.TOLD
    assert run.run(20) == [(0, SetLink(True))]
    assert run.follower.announced(run.now)


def test_a_look_from_before_the_wish_proves_nothing() -> None:
    run = Run(True, Route.TOLD)
    run.want(False)
    run.follower.saw_link(False)
    run.follower.saw_route(Route.ABSENT, run.now - 0.01)
    assert not run.follower.settled
    run.follower.saw_route(Route.ABSENT, run.now + 0.01)
    assert run.follower.settled


def test_a_route_that_stays_gets_its_neighbours_shut_and_frr_restarted() -> None:
    # Given a zebra that no longer sees the link
    run = Run(True, Route.TOLD)
    run.want(False)
    steps = run.run(0.9)
    assert [(at, step) for at, step in steps if not isinstance(step, SetLink)] == [
        (pytest.approx(EFFECT.gone_s, abs=0.06), ShutNeighbors(True))
    ]
    # When shutting them down worked, the route is in the table and told to nobody
    run.route = Route.KNOWN
    (step,) = run.run(1)
    assert isinstance(step[1], CallForHelp)
    assert not step[1].up


def test_a_frozen_bgpd_is_killed_within_the_two_bounds() -> None:
    run = Run(True, Route.TOLD)
    run.want(False)
    run.route = Route.FROZEN
    steps = [(at, step) for at, step in run.run(3) if not isinstance(step, SetLink)]
    assert [type(step) for _, step in steps] == [ShutNeighbors, CallForHelp]
    assert steps[1][0] <= EFFECT.gone_s + EFFECT.shutdown_s + 0.1


def test_help_is_called_at_most_once_in_its_time() -> None:
    run = Run(True, Route.TOLD)
    run.want(False)
    run.route = Route.FROZEN
    steps = run.run(3 * EFFECT.restart_every_s)
    assert 2 <= sum(isinstance(step, CallForHelp) for _, step in steps) <= 4


def test_a_bgpd_that_freezes_after_the_route_was_gone_is_left_alone() -> None:
    run = Run(True, Route.TOLD)
    run.want(False)
    run.route = Route.ABSENT
    run.run(1)
    run.route = Route.FROZEN
    assert run.run(100) == []


def test_a_bgpd_that_is_slow_to_start_is_not_killed_at_once() -> None:
    # Given a probe that has just started, and a bgpd that is not ready
    run = Run(False, Route.FROZEN)
    run.changed = run.now
    assert run.run(EFFECT.present_s - 0.5) == []


def test_a_link_that_does_not_obey_is_ordered_again_and_again() -> None:
    run = Run(True, Route.TOLD)
    run.link_obeys = False
    run.want(False)
    steps = run.run(1)
    assert sum(isinstance(step, SetLink) for _, step in steps) >= 5


def test_somebody_elses_raise_is_undone_at_once() -> None:
    run = Run(False, Route.ABSENT)
    run.want(False)
    run.changed = run.now
    run.run(1)
    run.follower.saw_link(True)
    assert run.follower.steps(run.now) == [SetLink(False)]


def test_a_link_that_goes_down_unasked_is_noticed_once() -> None:
    run = Run(True, Route.TOLD)
    assert run.follower.saw_link(False)
    assert not run.follower.saw_link(False)
    run.want(False)
    assert not run.follower.saw_link(None)


def test_upwards_a_frr_without_the_route_is_restarted_after_its_time() -> None:
    run = Run(False, Route.ABSENT)
    run.want(True)
    steps = [(at, step) for at, step in run.run(15) if not isinstance(step, SetLink)]
    assert len(steps) == 1
    assert isinstance(steps[0][1], CallForHelp)
    assert steps[0][1].up
    assert steps[0][0] == pytest.approx(EFFECT.present_s, abs=0.1)


def test_a_link_that_does_not_exist_is_down_and_no_fault_of_frr() -> None:
    run = Run(True, Route.TOLD)
    run.want(True)
    run.follower.saw_link(None)
    run.route = Route.ABSENT
    assert run.run(100) == []
    assert not run.follower.settled
    # With nothing to announce, nothing is missing
    run.want(False)
    assert run.run(100) == []
    assert run.follower.settled
    # And once it is there, FRR has its whole time to see it
    run.want(True)
    run.run(100)
    run.follower.saw_link(False)
    run.changed = run.now
    helped = [at for at, step in run.run(15) if isinstance(step, CallForHelp)]
    assert helped == [pytest.approx(EFFECT.present_s, abs=0.1)]


def test_a_router_that_is_away_is_no_reason_to_restart_frr() -> None:
    run = Run(True, Route.KNOWN)
    run.changed = run.now
    assert run.run(300) == []
    assert not run.follower.announced(run.now)


def test_going_up_takes_the_neighbours_shutdown_back_also_after_a_restart_of_the_probe() -> None:
    follower = Follower(EFFECT, 0.0, shut=True)
    follower.saw_link(False)
    follower.want(True, 1.0)
    assert follower.steps(1.0) == [SetLink(True), ShutNeighbors(False)]


def test_a_probe_without_rights_to_look_reports_and_kills_nothing() -> None:
    run = Run(True, Route.HIDDEN)
    run.changed = run.now
    run.want(False)
    assert run.run(100) == [(0, SetLink(False))]
    assert not run.follower.settled


def test_an_old_look_does_not_count_as_announced() -> None:
    run = Run(True, Route.TOLD)
    run.changed = run.now
    run.run(1)
    assert run.follower.announced(run.now)
    assert not run.follower.announced(run.now + 2 * EFFECT.watch_s + EFFECT.answer_s + 0.1)


def test_nothing_is_shut_down_before_anybody_has_looked() -> None:
    # Given a probe that got no processor time to look at the effect of its order
    follower = Follower(EFFECT, 0.0)
    follower.saw_link(True)
    follower.want(True, 0.0)
    follower.saw_route(Route.TOLD, 0.1)
    follower.want(False, 10.0)
    assert follower.steps(10.0) == [SetLink(False)]
    follower.saw_link(False)
    assert follower.steps(10.0 + EFFECT.gone_s + 0.05) == []
    # When the look is late by too much, it is bgpd's fault
    assert follower.steps(10.0 + EFFECT.gone_s + 2 * EFFECT.answer_s + 0.05) == [ShutNeighbors(True)]
