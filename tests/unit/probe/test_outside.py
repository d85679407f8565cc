"""A node that answers itself and nobody else: it leaves when a peer stays, and never begins by announcing."""

from __future__ import annotations

import pytest

from anycastlab.probe.decision import Ask, Cause, Change, Machine, Verdict
from anycastlab.probe.health import Health, Outcome, Result, Symptom
from tests.unit.probe.world import config

SEEN, UNSEEN = Outcome.OK, Outcome.SILENT


class Node:
    """Resolver and local names are fine; what the peers see is up to the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.health = Health(config(), self.now)
        self.health.outside_awaited = True
        self.machine = Machine(config(), self.health, self.now)

    def step(self, outside: Outcome | None = None, *, silence: bool = False) -> list[object]:
        """One interval of the outside question, with many good answers to the others in it."""
        for _ in range(6):
            self.now += 1 / 3
            self.health.on_resolver(self.result(Outcome.OK))
            self.health.on_local(self.result(Outcome.OK))
            self.machine.decide(self.now)
        if outside is not None:
            self.health.on_outside(self.result(outside))
        elif silence:
            self.health.on_outside(None)
        return list(self.machine.decide(self.now))

    def result(self, outcome: Outcome) -> Result:
        return Result(outcome, self.now, self.now, 0.001, "node02: no answer within 300 ms")

    def promised(self, orders: list[object]) -> None:
        (ask,) = [order for order in orders if isinstance(order, Ask)]
        assert ask.symptom is Symptom.OUTSIDE
        self.machine.on_verdict(Verdict(ask.number, "node02", True, False, self.now))
        self.machine.on_verdict(Verdict(ask.number, "node03", False, False, self.now))


def test_a_node_announces_once_a_peer_has_been_answered() -> None:
    node = Node()
    node.step()
    assert not node.machine.announce
    node.step(SEEN)
    assert (node.machine.announce, node.machine.cause) == (True, Cause.HEALTHY)


def test_a_node_without_living_peers_announces() -> None:
    node = Node()
    node.step(silence=True)
    assert node.machine.announce


def test_a_node_behind_a_firewall_does_not_begin_by_announcing_while_a_peer_serves() -> None:
    node = Node()
    orders: list[object] = []
    for _ in range(3):
        assert not node.machine.announce
        orders = node.step(UNSEEN)
    node.promised(orders)
    node.machine.decide(node.now)
    assert (node.machine.announce, node.machine.cause) == (False, Cause.OUTSIDE)
    assert "is there a firewall? (node02: no answer within 300 ms)" in node.machine.text


def test_a_serving_node_leaves_when_a_peer_stays_and_returns_when_it_is_reached_again() -> None:
    node = Node()
    node.step(SEEN)
    node.step(UNSEEN)
    node.step(UNSEEN)
    assert node.machine.announce
    node.promised(node.step(UNSEEN))
    node.machine.decide(node.now)
    assert (node.machine.announce, node.machine.cause) == (False, Cause.OUTSIDE)
    for _ in range(3):
        node.step(SEEN)
    assert (node.machine.announce, node.machine.cause) == (True, Cause.HEALTHY)


def test_where_all_are_behind_firewalls_all_stay() -> None:
    node = Node()
    node.step(SEEN)
    orders: list[object] = []
    for _ in range(3):
        orders = node.step(UNSEEN)
    (ask,) = [order for order in orders if isinstance(order, Ask)]
    for peer in ("node02", "node03"):
        node.machine.on_verdict(Verdict(ask.number, peer, False, True, node.now, "ailing itself (outside)"))
    changes = [order for order in (*node.machine.decide(node.now), *node.step(UNSEEN)) if isinstance(order, Change)]
    assert node.machine.announce
    assert changes[-1].cause is Cause.NOBODY_ELSE


@pytest.mark.parametrize("missed", [1, 2])
def test_who_was_not_reached_just_now_promises_nothing(missed: int) -> None:
    node = Node()
    node.step(SEEN)
    node.machine.effective = True
    assert node.machine.on_stay_request("node02", Symptom.OUTSIDE, node.now)[0]
    for _ in range(missed):
        node.health.on_outside(node.result(UNSEEN))
    assert not node.machine.on_stay_request("node03", Symptom.OUTSIDE, node.now)[0]


def test_what_peers_missed_while_the_resolver_restarted_does_not_count() -> None:
    node = Node()
    node.step(SEEN)
    node.health.on_outside(node.result(UNSEEN))
    node.health.on_outside(node.result(UNSEEN))
    node.health.start_over(node.now)
    assert node.health.outside.run_bad == 0
    node.now += 1
    node.health.on_outside(node.result(UNSEEN))
    assert node.health.outside.good
