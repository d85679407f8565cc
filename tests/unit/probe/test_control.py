"""Reading, draining and putting back nodes, against a home of three that exists in a dictionary."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from anycastlab import probe_control
from anycastlab.probe_control import READ_COMMAND, DrainError, drain, healthy, probe_states, table, undrain

NOW = 1_800_000_000.0


def published(node: str, **more: Any) -> dict[str, Any]:
    last = {"outcome": "ok", "latency_s": 0.0012, "detail": node, "age_s": 0.1}
    return {
        "version": 1,
        "node": node,
        "state": "announcing",
        "effective": True,
        "cause": "healthy",
        "reason": "resolver, local names and speed are fine",
        "since": NOW - 7200,
        "written": NOW - 0.5,
        "p95_s": 0.0015,
        "questions": {name: {"good": True, "last": last} for name in ("resolver", "local")}
        | {"wan": {"good": None, "last": None}},
        "problems": {},
    } | more


@dataclass
class Home:
    """Nodes whose probes obey the drain flag (or do not)."""

    states: dict[str, dict[str, Any] | None]
    flags: dict[str, str] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    obeys: bool = True
    commands: list[tuple[str, str]] = field(default_factory=list)
    complaint: str = ""
    """What the node's shell says instead of doing anything."""

    def run(self, node: str, argv: Sequence[str]) -> tuple[int | None, str]:
        if node in self.unreachable:
            return None, ""
        command = " ".join(argv)
        self.commands.append((node, command))
        if command.endswith(READ_COMMAND):
            state = self.states[node]
            if state is None:
                return 1, ""
            text = f"{json.dumps(state)}\n{NOW:.9f}\n"
            text += f"drained {self.flags[node]}\n" if node in self.flags else ""
            return 0, text + ("claimed\n" if node in self.claims else "")
        if self.complaint:
            return 2, self.complaint
        if "echo operator | tee /var/lib/anycastlab/drained.wanted" in command:
            self.claims.add(node)
            return 0, ""
        if "rm -f /var/lib/anycastlab/drained.wanted" in command:
            self.claims.discard(node)
            return 0, ""
        out = "mv -f /var/lib/anycastlab/drained.wanted /var/lib/anycastlab/drained" in command
        if out:
            self.claims.discard(node)
            self.flags[node] = "operator"
        elif "rm -f /var/lib/anycastlab/drained" in command:
            self.flags.pop(node, None)
        else:
            raise AssertionError(command)
        if self.obeys:
            self.states[node] = published(
                node,
                state="withdrawn" if out else "announcing",
                effective=not out,
                cause="drained" if out else "healthy",
            )
        return 0, ""


NODES = ("node01", "node02", "node03")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(probe_control, "POLL_S", 0.001)
    monkeypatch.setattr(probe_control, "DRAIN_WAIT_S", 0.05)
    return Home({name: published(name) for name in NODES})


def test_all_states_in_order(home: Home) -> None:
    states = probe_states(home.run, NODES)
    assert [state.name for state in states] == list(NODES)
    assert all(state.announced and state.since_s == 7200 for state in states)
    assert states[0].questions["resolver"].latency_s == 0.0012
    assert healthy(states)
    assert json.loads(json.dumps(states[0].to_dict()))["questions"]["wan"]["good"] is None


def test_what_cannot_be_read_is_unknown_and_not_an_error(home: Home) -> None:
    home.unreachable.add("node01")
    home.states["node02"] = None
    home.states["node03"] = published("node03", written=NOW - 60)
    states = probe_states(home.run, NODES)
    assert [state.state for state in states] == ["unknown"] * 3
    assert [state.reason for state in states] == [
        "the node cannot be reached",
        "the probe has not written its state; is anycastlab-probe running?",
        "the probe has not run for 60 s",
    ]
    assert not healthy(states)


@pytest.mark.parametrize(
    "text",
    ["[]", "null", '"x"', "{}", f'{{"written": {NOW}}}', f'{{"written": {NOW}, "cause": "healthy"}}', "[" * 100_000],
)
def test_whatever_is_in_the_file_it_is_one_line_of_the_table(home: Home, text: str) -> None:
    def run(node: str, argv: Sequence[str]) -> tuple[int | None, str]:
        return (0, f"{text}\n{NOW}\n") if node == "node02" else home.run(node, argv)

    states = probe_states(run, NODES)
    assert [state.state for state in states] == ["announcing", "unknown", "announcing"]
    assert "is anycastlab-probe running" in table(states)


def test_a_state_from_the_future_was_left_by_a_dead_probe(home: Home) -> None:
    home.states["node02"] = published("node02", written=NOW + 3600)
    [_, state, _] = probe_states(home.run, NODES)
    assert (state.state, state.announced, state.reason) == (
        "unknown",
        False,
        "the probe has not run since a clock jump",
    )


def test_draining_withdraws_and_says_by_whom(home: Home) -> None:
    state = drain(home.run, NODES, "node02")
    assert state.state == "withdrawn"
    assert home.flags == {"node02": "operator"}
    # Again: nothing to do
    home.commands.clear()
    assert drain(home.run, NODES, "node02").drained
    assert not any("operator" in command for _, command in home.commands)


def test_the_last_one_is_not_drained_unless_forced(home: Home) -> None:
    drain(home.run, NODES, "node01")
    home.unreachable.add("node02")
    with pytest.raises(DrainError, match="last node that announces"):
        drain(home.run, NODES, "node03")
    assert set(home.flags) == {"node01"}
    drain(home.run, NODES, "node03", force=True)
    assert set(home.flags) == {"node01", "node03"}


def test_a_drained_node_that_still_announces_does_not_count(home: Home) -> None:
    home.obeys = False
    home.flags |= {"node01": "operator", "node02": "operator"}
    with pytest.raises(DrainError, match="last node that announces"):
        drain(home.run, NODES, "node03")
    assert set(home.flags) == {"node01", "node02"}


def test_of_two_who_drain_at_the_same_moment_not_both_succeed(home: Home) -> None:
    # Given a second terminal that looked, as this one did, and drains the other node just before this one does
    home.flags["node01"] = "operator"
    home.states["node01"] = published("node01", state="withdrawn", effective=False, cause="drained")

    def run(node: str, argv: Sequence[str]) -> tuple[int | None, str]:
        if (node, "operator" in " ".join(argv)) == ("node02", True):
            home.flags["node03"] = "operator"
        return home.run(node, argv)

    with pytest.raises(DrainError, match="node02 is the last node that announces"):
        drain(run, NODES, "node02")
    assert set(home.flags) == {"node01", "node03"}


def test_three_drains_at_one_moment_never_withdraw_all_nodes(home: Home) -> None:
    """Three machines, no lock between them: whatever the order of their steps, one node always announces."""
    one_step = threading.Lock()
    for seed in range(60):
        moment = random.Random(seed)
        home.states, home.flags, home.claims = {name: published(name) for name in NODES}, {}, set()
        started = threading.Barrier(len(NODES))
        least = len(NODES)
        ended: list[str] = []

        def run(node: str, argv: Sequence[str], moment: random.Random = moment) -> tuple[int | None, str]:
            nonlocal least
            time.sleep(moment.random() * 0.0005)
            with one_step:
                answer = home.run(node, argv)
                least = min(least, sum(bool(state and state["effective"]) for state in home.states.values()))
            return answer

        def person(node: str, started: threading.Barrier = started, ended: list[str] = ended) -> None:
            started.wait()
            try:
                drain(run, NODES, node)
                ended.append("drained")
            except DrainError:
                ended.append("refused")

        people = [threading.Thread(target=person, args=(node,)) for node in NODES]
        for each in people:
            each.start()
        for each in people:
            each.join()
        assert least >= 1
        assert len(ended) == len(NODES)
        assert home.claims == set()


def test_a_node_that_somebody_is_about_to_drain_does_not_count(home: Home) -> None:
    home.claims |= {"node01", "node03"}
    with pytest.raises(DrainError, match="Somebody is draining node01 and node03 at this moment"):
        drain(home.run, NODES, "node02")
    assert home.flags == {}


def test_a_node_that_wants_to_announce_but_is_not_told_to_the_router_does_not_count(home: Home) -> None:
    for name in ("node01", "node02"):
        home.states[name] = published(name, state="raising", effective=False)
    with pytest.raises(DrainError, match="last node"):
        drain(home.run, NODES, "node03")


def test_a_probe_that_does_not_obey_is_an_error(home: Home) -> None:
    home.obeys = False
    with pytest.raises(DrainError, match="has not withdrawn"):
        drain(home.run, NODES, "node02")
    home.states["node02"] = published("node02", state="withdrawn", effective=False, reason="no resolver")
    with pytest.raises(DrainError, match="does not announce after 0 s: no resolver"):
        undrain(home.run, NODES, "node02", wait_s=0.05)


@pytest.mark.parametrize("flag", ["deploy", ""], ids=["a deploy's", "empty"])
def test_a_drain_that_nobody_asked_for_is_not_healthy_and_no_persons(home: Home, flag: str) -> None:
    home.flags["node02"] = flag
    home.states["node02"] = published("node02", state="withdrawn", effective=False, cause="drained")
    states = probe_states(home.run, NODES)
    assert (states[1].drained, states[1].drain_wanted) == (True, False)
    assert not healthy(states)
    assert "node02: taken out of service by a deploy that has not put it back" in table(states)
    # a person who drains it signs the flag, so that the next deploy leaves it
    assert drain(home.run, NODES, "node02").drain_wanted
    assert home.flags["node02"] == "operator"
    assert healthy(probe_states(home.run, NODES))


def test_putting_back(home: Home) -> None:
    drain(home.run, NODES, "node02")
    assert undrain(home.run, NODES, "node02").announced
    assert not home.flags


def test_a_disk_that_takes_nothing_is_one_sentence(home: Home) -> None:
    home.complaint = "sh: 1: cannot create /var/lib/anycastlab/drained: No space left on device\n"
    with pytest.raises(DrainError) as caught:
        drain(home.run, NODES, "node02")
    assert caught.value.problem == (
        "node02 could not be drained: /var/lib/anycastlab/drained cannot be written there (No space left on device)."
    )
    home.complaint = "rm: cannot remove '/var/lib/anycastlab/drained': Read-only file system\n"
    with pytest.raises(DrainError) as caught:
        undrain(home.run, NODES, "node02")
    assert caught.value.problem == (
        "node02 could not be put back: /var/lib/anycastlab/drained cannot be removed there (Read-only file system)."
    )
    home.complaint = ""
    home.unreachable.add("node02")
    with pytest.raises(DrainError, match="node02 could not be put back: the node cannot be reached"):
        undrain(home.run, NODES, "node02")


def test_an_unknown_node_is_named(home: Home) -> None:
    for act in (drain, undrain):
        with pytest.raises(DrainError, match="no node node9"):
            act(home.run, NODES, "node9")


def test_the_table(home: Home) -> None:
    home.states["node02"] = published(
        "node02", state="withdrawn", effective=False, cause="local-path", reason="3 local names unanswered", p95_s=None
    )
    home.unreachable.add("node03")
    assert table(probe_states(home.run, NODES)) == (
        "NODE    STATE       SINCE  RESOLVER   LOCAL      WAN  P95\n"
        "node01  announcing  2 h    ok 1.2 ms  ok 1.2 ms  -    1.5 ms\n"
        "node02  withdrawn   2 h    ok 1.2 ms  ok 1.2 ms  -    -\n"
        "node03  unknown     -      -          -          -    -\n"
        "node02: 3 local names unanswered\n"
        "node03: the node cannot be reached"
    )
