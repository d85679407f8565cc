"""What a person does is no flapping; a crash is, whatever a person does around it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anycastlab.probe.decision import TELL_AGAIN_S, Cause
from anycastlab.probe.health import Outcome
from tests.unit.probe.test_never_all_at_once import START_S, chaos, seeds
from tests.unit.probe.world import Node, World, fine

NODE = "node02"


def nobody_listens(node: str, asked: str, now: float) -> tuple[Outcome, float]:
    """The weather while the node has no resolver."""
    return (Outcome.GONE, 0.001) if node == NODE else fine(node, asked, now)


def crash(world: World, node: Node, down_s: float = 1.0) -> None:
    """The process ends, systemd starts it again."""
    world.weather = nobody_listens
    node.machine.on_ended(world.now)
    world.settle(node)
    world.run(down_s)
    world.weather = fine


def drain(world: World, node: Node, seconds: float = 1.0) -> None:
    node.machine.drained = True
    node.machine.on_lowered(world.now)  # a deploy lowers the link itself, and the flag is there before
    world.settle(node)
    world.run(seconds)
    node.machine.drained = False


def restart(world: World, node: Node, seconds: float = 1.0) -> None:
    """`systemctl restart`: the flag, link down, half a second, the end, the flag goes, a new process."""
    node.machine.set_stopping(True, world.now)
    node.machine.on_lowered(world.now)
    world.settle(node)
    world.run(0.5)
    world.weather = nobody_listens
    node.machine.on_ended(world.now)
    world.settle(node)
    world.run(0.1)
    node.machine.set_stopping(False, world.now)
    world.run(seconds - 0.6)
    world.weather = fine


def away(world: World, node: Node) -> float:
    """Seconds until it announces again."""
    began = world.now
    while not node.machine.announce:
        assert world.now - began < 90, node.machine.text
        world.run(0.1)
    return world.now - began


@pytest.fixture
def world() -> World:
    made = World(3, seed=1)
    made.run(START_S)
    return made


@pytest.mark.parametrize("work", [drain, restart], ids=["drain", "restart"])
def test_work_on_a_node_never_slows_its_way_back(world: World, work: object) -> None:
    node = world.nodes[NODE]
    waits = []
    for _ in range(12):
        work(world, node)  # type: ignore[operator]
        assert not node.machine.announce
        waits.append(away(world, node))
        world.run(0.5)
    assert max(waits) <= 1.0
    assert node.machine.hold.level == 0


def test_a_crash_loop_is_held_down(world: World) -> None:
    node = world.nodes[NODE]
    waits = []
    for _ in range(6):
        crash(world, node)
        waits.append(away(world, node))
        world.run(0.5)
    # The way back gets longer, and the third within a minute waits for that minute's end
    assert waits[0] < waits[1] < 10
    assert waits[2] > 40
    assert node.machine.hold.level == 6


def test_a_node_that_is_held_down_and_dies_again_and_again_does_not_fill_the_journal(world: World) -> None:
    # Given a resolver that dies every three seconds, long enough to be held down for a minute
    node = world.nodes[NODE]
    for _ in range(5):
        crash(world, node)
        world.run(2)
    assert not node.machine.announce
    began, cycles = world.now, 10
    for _ in range(cycles):
        crash(world, node)
        world.run(2)
    changes = [change for at, name, change in world.log if name == NODE and at > began]
    news = [change for change in changes if change.news]
    # Then each cycle is a change of mind, and told once a minute at most: per cause in, and per cause out
    assert len(changes) > 2 * cycles
    assert len(news) <= 2 * len({change.cause for change in changes})
    # And what is so in the end is told, however often it was before
    world.weather = nobody_listens
    node.machine.on_ended(world.now)
    world.run(TELL_AGAIN_S + 1)
    told = [change for _, name, change in world.log if name == NODE and change.news]
    assert (told[-1].announce, told[-1].cause) == (node.machine.announce, node.machine.cause)


@pytest.mark.parametrize("work", [drain, restart], ids=["drain", "restart"])
def test_work_between_crashes_pardons_nothing(world: World, work: object) -> None:
    node = world.nodes[NODE]
    waits = []
    for _ in range(6):
        crash(world, node)
        work(world, node)  # type: ignore[operator]
        waits.append(away(world, node))
        work(world, node)  # type: ignore[operator]
        away(world, node)
    assert node.machine.hold.level == 6
    assert waits[2] > 40


def test_an_end_that_was_not_announced_withdraws_at_once_and_stays_the_reason(world: World) -> None:
    node = world.nodes[NODE]
    before = world.now
    world.weather = nobody_listens
    node.machine.on_ended(world.now)
    world.settle(node)
    assert node.turns[-1] == before
    assert (node.machine.announce, node.machine.cause) == (False, Cause.DEAD)
    assert node.machine.text == "the resolver's process has ended"
    world.run(3)
    assert node.machine.cause is Cause.DEAD
    assert [change.cause for at, name, change in world.log if name == NODE and at >= before] == [Cause.DEAD]


def test_the_end_of_a_stopping_resolver_is_no_crash(world: World) -> None:
    node = world.nodes[NODE]
    restart(world, node)
    away(world, node)
    causes = [change.cause for _, name, change in world.log if name == NODE]
    assert causes[-3:] == [Cause.STOPPING, Cause.STARTING, Cause.HEALTHY]
    assert Cause.DEAD not in causes


@given(seed=seeds, count=st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_changes_of_its_own_are_bounded_whatever_a_person_does(seed: int, count: int) -> None:
    # Given any trouble, crashes among it, and work at any time
    world = World(count, seed)
    world.weather = chaos(seed)
    dice = random.Random(seed)
    for _ in range(60):
        node = world.nodes[dice.choice(sorted(world.nodes))]
        match dice.randrange(5):
            case 0:
                node.machine.drained = not node.machine.drained
            case 1:
                node.machine.set_stopping(not node.machine.stopping, world.now)
            case 2:
                node.machine.on_ended(world.now)
            case 3:
                node.machine.on_lowered(world.now)
        world.settle(node)
        world.run(dice.choice((0.2, 1.0, 4.0)))
    # Then what it chose itself (or crashed) and was refusable is as rare as ever. Crashes cannot be refused; each of
    # them costs one change, and one way back.
    for node in world.nodes.values():
        own = node.own_turns
        limit = node.config.hold_down.changes_per_minute + 2
        for index, at in enumerate(own):
            within = [turn for turn in own[index:] if turn < at + 60]
            crashes = sum(at <= crashed < at + 60 for crashed in node.crashes)
            assert len(within) <= limit + crashes
