"""The promise behind the whole probe, held against simulated homes: never all at once, for ever, or too often."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.probe.decision import OF_SYMPTOM, Cause
from anycastlab.probe.health import Outcome
from tests.unit.probe.world import Weather, World, fine

# Every way a check can end without the resolver being dead: an answer that is late still comes.
ENDS = (
    (Outcome.OK, 0.002),
    (Outcome.OK, 0.2),
    (Outcome.OK, 1.8),
    (Outcome.WRONG, 0.002),
)
START_S = 3.0

seeds = st.integers(0, 2**32)
counts = st.integers(1, 4)


def chaos(seed: int) -> Weather:
    """Every question on every node ends in any way, in spells of any length: shared, overlapping, alternating."""
    dice = random.Random(seed)
    spells: dict[tuple[str, str], tuple[float, tuple[Outcome, float]]] = {}
    common: dict[str, tuple[float, tuple[Outcome, float] | None]] = {}

    def weather(node: str, question: str, now: float) -> tuple[Outcome, float]:
        until, end = common.get(question, (0.0, None))
        if now >= until:
            end = dice.choice((None, None, *ENDS))
            common[question] = (now + dice.choice((0.3, 1.0, 3.0, 8.0)), end)
        if end is not None:
            return end
        until, own = spells.get((node, question), (0.0, ENDS[0]))
        if now >= until:
            own = dice.choice(ENDS)
            spells[(node, question)] = (now + dice.choice((0.3, 0.6, 1.2, 4.0)), own)
        return own

    return weather


def common(question: str, outcome: Outcome, latency: float = 0.002) -> Weather:
    """The same trouble on every node."""
    return lambda node, asked, now: (outcome, latency) if asked == question else fine(node, asked, now)


def only(name: str, question: str, outcome: Outcome, latency: float = 0.002) -> Weather:
    return lambda node, asked, now: (outcome, latency) if (node, asked) == (name, question) else fine(node, asked, now)


@given(seed=seeds, count=counts, loss=st.sampled_from([0.0, 0.2, 0.6, 1.0]), lie=st.sampled_from([0.0, 0.5, 1.0]))
def test_no_sequence_of_results_withdraws_the_last_node(seed: int, count: int, loss: float, lie: float) -> None:
    # Given a home that serves, with lossy messages and peers' resolvers whose direct answers may be untrue
    world = World(count, seed, loss)
    world.run(START_S)
    assert world.announcing == set(world.nodes)
    world.lie = lie
    # When every question may end in any way on every node at any time, but no resolver is dead
    world.weather = chaos(seed)

    def somebody_announces() -> None:
        assert world.announcing, world.log[-8:]

    # Then somebody announces at every single moment
    world.run(25, somebody_announces)


@given(seed=seeds, loss=st.sampled_from([0.0, 0.3]))
def test_nodes_that_are_out_for_a_shareable_cause_come_back_when_the_others_die(seed: int, loss: float) -> None:
    world = World(3, seed, loss)
    world.run(START_S)
    world.weather = chaos(seed)
    dice = random.Random(seed + 1)
    empty_since: float | None = None

    def bounded_gap() -> None:
        nonlocal empty_since
        alone = [n for n in world.nodes.values() if n.machine.cause in OF_SYMPTOM.values()]
        if world.announcing or not alone:
            empty_since = None
        else:
            empty_since = empty_since or world.now
            # Without loss a promise's end is told; with it, the promise runs out. A silent resolver must first show
            # that it is slow and not dead.
            guard = alone[0].config.guard
            told = not loss and all(node.machine.cause is not Cause.SILENT for node in alone)
            limit = 0.3 if told else max(guard.promise_s, guard.silence_s)
            assert world.now - empty_since <= limit, world.log[-8:]

    for _ in range(6):
        world.run(3, bounded_gap)
        # When a node is drained (or gone for any reason of its own), others may have relied on it
        victim = world.nodes[dice.choice(sorted(world.nodes))]
        victim.machine.drained = not victim.machine.drained


@given(seed=seeds, count=st.integers(1, 3))
def test_route_changes_are_bounded(seed: int, count: int) -> None:
    world = World(count, seed)
    world.weather = chaos(seed)
    world.run(150)
    for node in world.nodes.values():
        limit = node.config.hold_down.changes_per_minute + 2
        for index, at in enumerate(node.turns):
            within = [other for other in node.turns[index:] if other < at + 60]
            assert len(within) <= limit


@given(seed=seeds, count=counts)
def test_every_node_is_back_once_everything_answers_again(seed: int, count: int) -> None:
    # Given any history
    world = World(count, seed, loss=0.1)
    world.weather = chaos(seed)
    world.run(60)
    # When everything is repaired
    world.weather = fine
    # Then the longest hold-down (60 s) and a rise later all announce
    world.run(70)
    assert world.announcing == set(world.nodes)
    assert {world.cause(name) for name in world.nodes} == {Cause.HEALTHY}


@pytest.mark.parametrize(
    ("question", "outcome", "latency"),
    [
        ("local", Outcome.SILENT, 0.3),
        ("local", Outcome.WRONG, 0.002),
        ("resolver", Outcome.WRONG, 0.002),
        ("resolver", Outcome.OK, 0.25),
        ("resolver", Outcome.OK, 1.8),
    ],
    ids=["router-dns-dead", "router-servfail", "blocked-probe-name", "all-slow", "all-very-slow"],
)
def test_a_shared_cause_withdraws_nobody_and_says_so(question: str, outcome: Outcome, latency: float) -> None:
    world = World(3, seed=1)
    world.run(START_S)
    # When the same trouble hits all nodes
    world.weather = common(question, outcome, latency)
    world.run(20, lambda: _expect_all(world))
    # Then all announce, and give the reason
    assert {world.cause(name) for name in world.nodes} == {Cause.NOBODY_ELSE}
    assert all("no peer can take over" in node.machine.text for node in world.nodes.values())


def _expect_all(world: World) -> None:
    # Detection is not in step: a node that sees it first may leave for a moment, but never the last one.
    assert len(world.announcing) >= 1


@pytest.mark.parametrize(
    ("question", "outcome", "latency", "cause", "within_s"),
    [
        ("local", Outcome.SILENT, 0.3, Cause.LOCAL, 1.38),
        ("resolver", Outcome.SILENT, 0.3, Cause.SILENT, 1.38),
        ("resolver", Outcome.WRONG, 0.002, Cause.WRONG, 1.38),
        ("resolver", Outcome.OK, 0.2, Cause.SLOW, 4.88),
        ("resolver", Outcome.OK, 1.8, Cause.SILENT, 4.88),
        ("resolver", Outcome.GONE, 0.001, Cause.DEAD, 1.38),
    ],
)
def test_own_trouble_withdraws_in_time(
    question: str, outcome: Outcome, latency: float, cause: Cause, within_s: float
) -> None:
    for seed in range(20):  # different phases of the checks
        world = World(3, seed)
        world.delay_s = 0.002
        world.run(START_S)
        began = world.now
        world.weather = only("node02", question, outcome, latency)
        world.run(6)
        first = next(change for at, name, change in world.log if name == "node02" and at > began)
        assert not first.announce
        assert first.cause is cause
        # 0.12 s of link and routing come on top of the decision
        assert first.at - began <= within_s
        assert world.announcing == {"node01", "node03"}


def test_back_in_time_after_a_repaired_local_path() -> None:
    for seed in range(20):
        world = World(3, seed)
        world.delay_s = 0.002
        world.run(START_S)
        world.weather = only("node02", "local", Outcome.SILENT)
        world.run(5)
        assert "node02" not in world.announcing
        world.weather = fine
        repaired = world.now
        world.run(3)
        back = next(change for at, name, change in world.log if at > repaired and change.announce)
        assert back.at - repaired <= 1.2


def test_two_nodes_with_the_same_trouble_of_their_own_both_stay_when_there_is_no_third() -> None:
    world = World(2, seed=3)
    world.run(START_S)
    world.weather = common("local", Outcome.SILENT)
    world.run(10)
    assert world.announcing == {"node01", "node02"}


def test_the_last_announcer_leaves_only_when_its_resolver_is_dead() -> None:
    world = World(2, seed=4)
    world.run(START_S)
    world.nodes["node02"].machine.drained = True
    world.run(2)
    # Nobody could take over: it stays, with any trouble but one
    for outcome, latency in ((Outcome.WRONG, 0.002), (Outcome.OK, 0.2), (Outcome.OK, 1.8)):
        world.weather = only("node01", "resolver", outcome, latency)
        world.run(10)
        assert world.announcing == {"node01"}
    world.weather = only("node01", "resolver", Outcome.SILENT)
    silent = world.now
    world.run(5)
    assert world.announcing == set()
    gone = world.nodes["node01"].machine.since
    assert world.nodes["node01"].machine.cause is Cause.DEAD
    # Slower than with peers, because first it must be sure that late answers do not come either
    assert gone - silent <= 1.8 + 2.5 + 0.3


def test_a_node_that_starts_while_the_router_is_dead_announces_when_nobody_is_better() -> None:
    world = World(3, seed=5)
    world.weather = common("local", Outcome.SILENT)
    world.run(4)
    assert world.announcing == set(world.nodes)


def test_a_node_that_starts_with_trouble_stays_out_while_others_serve() -> None:
    world = World(3, seed=6)
    world.weather = only("node03", "local", Outcome.SILENT)
    world.run(10)
    assert world.announcing == {"node01", "node02"}
    assert world.cause("node03") is Cause.LOCAL


def test_who_relies_on_a_node_that_falls_silent_is_back_before_the_promise_ends() -> None:
    for seed in range(20):
        world = World(2, seed)
        world.run(START_S)
        world.weather = only("node02", "local", Outcome.SILENT)
        world.run(5)
        assert world.announcing == {"node01"}
        # When the probe of the node that stays is frozen, its promise is still binding for a while
        frozen_at = world.now
        world.nodes["node01"].frozen = True
        world.run(4)
        # Then the other one is back before that while is over
        assert world.nodes["node02"].turns[-1] - frozen_at < world.nodes["node01"].config.guard.promise_s
        assert "node02" in world.announcing
