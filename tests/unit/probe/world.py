"""Several probes' machines in one simulated home: a clock that is stepped, messages that are late or lost."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from anycastlab.probe.config import Frr, Peer, ProbeConfig
from anycastlab.probe.decision import Ask, Cause, Change, Machine, Revoke, Verdict
from anycastlab.probe.health import Health, Outcome, Result, Symptom

STEP_S = 0.1
# Seconds from a decision until FRR has told the router.
EFFECT_S = 0.15


def config(node: str = "node01", peers: tuple[str, ...] = ("node02", "node03"), **more: object) -> ProbeConfig:
    return ProbeConfig(  # type: ignore[arg-type]
        node=node,
        address=f"10.1.2.{10 + int(node[-2:])}",
        service_addresses=("10.1.9.53",),
        router_dns="10.1.2.1",
        frr=Frr(65053, ("10.1.2.1",)),
        peers=tuple(Peer(peer, f"10.1.2.{10 + int(peer[-2:])}") for peer in peers),
        **more,
    )


@dataclass
class Node:
    """One node: its machine and how its answers are at the moment."""

    config: ProbeConfig
    machine: Machine
    phase: float
    turns: list[float] = field(default_factory=list)
    """When `announce` changed."""
    own_turns: list[float] = field(default_factory=list)
    """Those that were not a person's will."""
    crashes: list[float] = field(default_factory=list)
    """Those that nothing could refuse: the resolver was gone, or the link."""
    frozen: bool = False
    """Its probe neither hears nor says anything."""

    @property
    def name(self) -> str:
        return self.config.node


# How a check of a question ends on a node, at a time: outcome and latency.
Weather = Callable[[str, str, float], tuple[Outcome, float]]


def fine(_node: str, _question: str, _now: float) -> tuple[Outcome, float]:
    return Outcome.OK, 0.002


class World:
    """`weather` says how checks end; `answers` what a peer's resolver says when it is asked directly."""

    def __init__(self, count: int, seed: int, loss: float = 0.0, weather: Weather = fine) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0
        self.loss = loss
        self.weather = weather
        self.delay_s = 0.14
        """Longest way of one message; a home's LAN has 0.001."""
        self.lie = 0.0
        """Share of direct questions whose outcome has nothing to do with the truth."""
        names = [f"node{number:02}" for number in range(1, count + 1)]
        self.nodes: dict[str, Node] = {}
        for name in names:
            own = config(name, tuple(peer for peer in names if peer != name))
            machine = Machine(own, Health(own, self.now), self.now)
            self.nodes[name] = Node(own, machine, self.random.uniform(0, 0.3))
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.log: list[tuple[float, str, Change]] = []
        for node in self.nodes.values():
            self._check(node, "resolver", node.phase)
            self._check(node, "local", node.phase + 0.15)

    def run(self, seconds: float, always: Callable[[], None] = lambda: None) -> None:
        """Step through time; `always` is called after every event."""
        end = self.now + seconds
        while (tick := self.now + STEP_S) <= end:
            while self._events and self._events[0][0] <= tick:
                self.now, _, event = heapq.heappop(self._events)
                event()
                always()
            self.now = tick
            for node in self.nodes.values():
                if not node.frozen:
                    self._decide(node)
                always()

    @property
    def announcing(self) -> set[str]:
        return {name for name, node in self.nodes.items() if node.machine.announce}

    def cause(self, name: str) -> Cause:
        return self.nodes[name].machine.cause

    def settle(self, node: Node) -> None:
        """Let it decide now, after something was done to it."""
        self._decide(node)

    def _later(self, delay: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), event))

    def _check(self, node: Node, question: str, delay: float) -> None:
        asked = getattr(node.config.questions, question)

        def send() -> None:
            sent = self.now
            outcome, latency = self.weather(node.name, question, sent)
            if outcome is Outcome.OK and latency > asked.timeout_s:
                if question == "resolver":
                    self._later(latency, lambda: self._late(node))
                outcome, latency = Outcome.SILENT, asked.timeout_s
            elif outcome is Outcome.SILENT:
                latency = asked.timeout_s
            self._later(latency, lambda: self._result(node, question, outcome, sent, latency))
            self._later(asked.interval_s, send)

        self._later(delay, send)

    def _result(self, node: Node, question: str, outcome: Outcome, sent: float, latency: float) -> None:
        result = Result(outcome, sent, self.now, latency, outcome.value)
        health = node.machine.health
        (health.on_resolver if question == "resolver" else health.on_local)(result)
        if not node.frozen:
            self._decide(node)

    def _late(self, node: Node) -> None:
        node.machine.health.on_late_answer(self.now)
        self._decide(node)

    def _decide(self, node: Node) -> None:
        machine = node.machine
        machine.effective = bool(machine.announce and node.turns and self.now - node.turns[-1] >= EFFECT_S)
        orders = machine.decide(self.now)
        if machine.announce is not (len(node.turns) % 2 == 1):
            node.turns.append(self.now)
            if not machine.planned:
                node.own_turns.append(self.now)
            if machine.cause in (Cause.LOWERED, Cause.DEAD):
                node.crashes.append(self.now)
        for order in orders:
            if isinstance(order, Ask):
                self._ask(node, order)
            elif isinstance(order, Revoke):
                for peer in order.peers:
                    self._send(lambda peer=peer: self._revoked(peer, node.name))  # type: ignore[misc]
            elif isinstance(order, Change):
                self.log.append((self.now, node.name, order))

    def _send(self, arrive: Callable[[], None]) -> None:
        if self.random.random() >= self.loss:
            self._later(self.random.uniform(0, self.delay_s), arrive)

    def _revoked(self, to: str, of: str) -> None:
        self.nodes[to].machine.on_revoked(of, self.now)
        self._decide(self.nodes[to])

    def _ask(self, node: Node, order: Ask) -> None:
        for peer in node.config.peers:
            self._ask_peer(node, self.nodes[peer.name], order)

    def _ask_peer(self, node: Node, peer: Node, order: Ask) -> None:
        sent = self.now

        def asked() -> None:
            if peer.frozen:
                return
            self._decide(peer)
            yes, why = peer.machine.on_stay_request(node.name, order.symptom, self.now)
            question = "local" if order.symptom is Symptom.LOCAL else "resolver"
            outcome, latency = self.weather(peer.name, question, self.now)
            answered = outcome is Outcome.OK and latency < 0.15
            if self.random.random() < self.lie:
                answered = self.random.random() < 0.5
            verdict = Verdict(order.number, peer.name, yes and answered, not yes, sent, why)
            self._send(lambda: self._told(node, verdict))

        self._send(asked)

    def _told(self, node: Node, verdict: Verdict) -> None:
        node.machine.on_verdict(verdict)
        self._decide(node)
