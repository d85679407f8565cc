"""The undo survives its maker: as JSON, in a child that is not killed with it, and on disk."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.errors import AnycastlabError
from anycastlab.scenarios import guardian, timing
from anycastlab.scenarios.actions import Action, Api, Deploy, On, OnHost, Power, from_json, to_json
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.stage import open_stage
from tests.unit.node.homes import home
from tests.unit.scenarios.doubles import FakeStage

words = st.text(min_size=1, max_size=20)
pairs = st.lists(st.tuples(words, words), max_size=3).map(tuple)
actions = st.one_of(
    st.builds(On, words, st.lists(words, max_size=4).map(tuple), st.booleans(), st.none() | st.floats(1, 99)),
    st.builds(OnHost, st.lists(words, max_size=4).map(tuple), st.booleans()),
    st.builds(Power, words, st.sampled_from(["stop", "start", "freeze", "unfreeze", "restart"]), st.booleans()),
    st.builds(Api, words, words, pairs, st.none() | words),
    st.builds(Deploy, pairs, words),
)


@given(actions)
def test_an_action_comes_back_from_json_as_it_was(action: Action) -> None:
    assert from_json(json.loads(json.dumps(to_json(action)))) == action


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    return tmp_path


@pytest.fixture
def on_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], OnHost]:
    """Actions on this machine need root in earnest; here they run as whoever we are."""
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    return lambda marker: OnHost(("touch", str(marker)))


def stage() -> Any:
    return open_stage(home(bgp={"password": "hush"}), "unit", "inventory/lab.py", (("bfd_interval_ms", "300"),))


def test_the_orders_are_enough_to_undo_in_another_process_and_tell_no_secret() -> None:
    undo = (Power("node01", "start"), On("node01", ("true",), strict=False))
    text = guardian.orders(stage(), undo)
    assert "\n" not in text
    assert "hush" not in text
    before = Path.cwd()
    read, read_actions = guardian.parse(text)
    # A deploy is run where deploy.py lies, and nobody else is moved there.
    assert Path.cwd() == before
    assert (read.folder, Path(read.inventory).is_absolute()) == (str(before), True)
    assert read_actions == undo
    assert (read.lab.name, read.settings, read.site.nodes) == (
        "unit",
        (("bfd_interval_ms", "300"),),
        stage().site.nodes,
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"lab": "unit"}'])
def test_damaged_orders_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        guardian.parse(text)


# Undoing --------------------------------------------------------------------------------------------------------------


class Flaky(FakeStage):
    """Fails the first `fail` times."""

    fail = 0

    def do(self, *what: Action) -> None:
        if self.fail:
            self.fail -= 1
            raise AnycastlabError("connection lost")
        super().do(*what)


def test_passing_trouble_is_overcome() -> None:
    flaky = Flaky()
    flaky.fail = timing.UNDO_TRIES - 1
    guardian.undo(flaky, (Power("node01", "start"),), flaky.sleep)
    assert flaky.log == [Power("node01", "start")]


def test_what_stays_broken_is_named_and_the_rest_is_still_undone() -> None:
    flaky = Flaky()
    flaky.fail = timing.UNDO_TRIES
    with pytest.raises(ScenarioError, match=r"could not be undone.*node01.*connection lost"):
        guardian.undo(flaky, (Power("node01", "start"), Power("node02", "start")), flaky.sleep)
    assert flaky.log == [Power("node02", "start")]


# The child ------------------------------------------------------------------------------------------------------------


def serve(*lines: str, complaints: list[str] | None = None) -> tuple[int, list[str]]:
    said: list[str] = []
    orders = io.StringIO("".join(f"{line}\n" for line in lines))
    heard = [] if complaints is None else complaints
    return guardian.serve(orders, said.append, "unit", heard.append, lambda _: None), said


def test_told_that_it_is_done_it_does_nothing(tmp_path: Path, on_host: Callable[[Path], OnHost]) -> None:
    marker = tmp_path / "undone"
    assert serve(guardian.orders(stage(), (on_host(marker),)), "done") == (0, ["ready", "armed"])
    assert not marker.exists()


def test_left_alone_it_undoes(tmp_path: Path, on_host: Callable[[Path], OnHost]) -> None:
    marker = tmp_path / "undone"
    guardian.write_record(guardian.record_path("unit"), "the record")
    assert serve(guardian.orders(stage(), (on_host(marker),))) == (0, ["ready", "armed"])
    assert marker.exists()
    assert not guardian.record_path("unit").exists()


def test_the_last_orders_count(tmp_path: Path, on_host: Callable[[Path], OnHost]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    texts = [guardian.orders(stage(), (on_host(marker),)) for marker in (first, second)]
    assert serve(*texts) == (0, ["ready", "armed", "armed"])
    assert (first.exists(), second.exists()) == (False, True)


def test_left_alone_it_puts_back_settings_as_well(tmp_path: Path, on_host: Callable[[Path], OnHost]) -> None:
    marker = tmp_path / "settings undone"
    guardian.write_record(guardian.settings_path("unit"), guardian.orders(stage(), (on_host(marker),)))
    assert serve(guardian.orders(stage(), (on_host(tmp_path / "undone"),)), "done")[0] == 0
    assert not marker.exists()  # the runner lives and puts them back when it has run what wants them
    assert serve()[0] == 0
    assert marker.exists()
    assert not guardian.settings_path("unit").exists()


def test_it_waits_for_a_connection_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_host: Callable[[Path], OnHost]
) -> None:
    """Incus restarts while a node is frozen: longer than a hiccup, and the fault must still not stay."""
    failing = [ScenarioError("The fault could not be undone: no Incus.")] * 7
    rounds: list[object] = []

    def undo(*_: object) -> None:
        rounds.append(None)
        # While Incus is away, nothing new can be opened either.
        monkeypatch.setattr(guardian, "open_stage", unreachable)
        if failing:
            raise failing.pop()

    def unreachable(*_: object) -> None:
        raise AnycastlabError("No Incus daemon listens on this machine.")

    monkeypatch.setattr(guardian, "undo", undo)
    guardian.write_record(guardian.record_path("unit"), "the record")
    complaints: list[str] = []
    assert serve(guardian.orders(stage(), (on_host(tmp_path / "x"),)), complaints=complaints)[0] == 0
    assert len(rounds) == 8
    assert complaints == ["The fault could not be undone: no Incus. Trying for 120 s more."]
    assert not guardian.record_path("unit").exists()


def test_what_cannot_be_undone_at_all_stays_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_host: Callable[[Path], OnHost]
) -> None:
    def undo(*_: object) -> None:
        raise ScenarioError("The fault could not be undone: no Incus.")

    monkeypatch.setattr(guardian, "undo", undo)
    monkeypatch.setattr(timing, "PATIENCE_S", 0.01)
    guardian.write_record(guardian.record_path("unit"), "the record")
    with pytest.raises(ScenarioError, match="no Incus"):
        serve(guardian.orders(stage(), (on_host(tmp_path / "x"),)))
    assert guardian.record_path("unit").exists()


@pytest.mark.parametrize("lines", [(), ("done",)])
def test_a_run_that_ends_before_its_fault_needs_nothing(lines: tuple[str, ...]) -> None:
    assert serve(*lines) == (0, ["ready"])


RUNNER = """
import json, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may have it ignored (nohup)
from anycastlab.scenarios import guardian
from anycastlab.scenarios.actions import OnHost
from tests.unit.scenarios.test_guardian import stage
always = (OnHost(("touch", sys.argv[1] + " instruments")),)
with guardian.exclusive("unit", print) as lock, guardian.Guard(stage(), lock, always) as guard:
    guard.arm((OnHost(("touch", sys.argv[1])),))
    print("broken", flush=True)
    exec(sys.argv[2])
"""


def start_runner(marker: Path, then: str) -> subprocess.Popen[str]:
    """A process that has made a fault whose undo is `touch MARKER`, and then does `then`."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(marker), then],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "broken\n", process.communicate()
    return process


@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_runner_that_is_killed_in_mid_fault_leaves_nothing_broken(tmp_path: Path, number: signal.Signals) -> None:
    marker = tmp_path / "undone"
    runner = start_runner(marker, "time.sleep(600)")
    # given the undo is written down before the fault is made
    assert guardian.record_path("unit").exists()
    # when everything of the terminal gets the signal, as Ctrl-C and a closed window do it
    os.killpg(runner.pid, number)
    runner.communicate(timeout=60)
    # then the lock is free only when the fault is undone, so the next run finds a whole lab
    with guardian.exclusive("unit", print):
        assert marker.exists()
        assert not guardian.record_path("unit").exists()


@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize(
    ("before", "undone"),
    [("guard.arm(())", False), ("pass", True), ("guard.undo()", True)],
    ids=["calm", "hold", "after"],
)
def test_the_instruments_of_a_killed_runner_end_with_it(tmp_path: Path, before: str, undone: bool) -> None:
    """In the calm before the fault, while it holds, and in the calm after it."""
    marker, instruments = tmp_path / "undone", tmp_path / "undone instruments"
    runner = start_runner(marker, f"{before}; print('now', flush=True); time.sleep(600)")
    assert runner.stdout is not None
    assert runner.stdout.readline() == "now\n"
    assert not instruments.exists()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.communicate(timeout=60)
    with guardian.exclusive("unit", print):
        assert (marker.exists(), instruments.exists()) == (undone, True)
        assert not guardian.record_path("unit").exists()


@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize(("then", "code"), [("pass", 0), ("raise SystemExit(3)", 3), ("guard.undo()", 0)])
def test_a_runner_that_ends_undoes_by_itself(tmp_path: Path, then: str, code: int) -> None:
    marker = tmp_path / "undone"
    runner = start_runner(marker, then)
    _, complaints = runner.communicate(timeout=60)
    assert (runner.returncode, complaints) == (code, "")
    assert marker.exists()
    assert not (tmp_path / "undone instruments").exists()  # the runner has its own way to end them
    assert not guardian.record_path("unit").exists()


@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize(
    ("gone", "says"), [(False, "undone only later, by the guardian"), (True, "could not be undone")]
)
def test_what_the_runner_could_not_undo_is_said_as_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool, says: str
) -> None:
    """The connection is lost for the runner; the guardian's comes back, or never does."""
    monkeypatch.setattr(guardian.Guard, "_dismiss", _without_patience if gone else guardian.Guard._dismiss)
    marker = tmp_path / "undone"

    def lost(*_: object) -> None:
        raise ScenarioError("The fault could not be undone: connection lost.")

    monkeypatch.setattr(guardian, "undo", lost)
    refused = pytest.raises(ScenarioError, match=says)
    with guardian.exclusive("unit", print) as lock, refused, guardian.Guard(stage(), lock) as guard:
        guard.arm((OnHost(("touch", str(marker))),))
        guard.undo()
    assert marker.exists() is not gone


def _without_patience(guard: guardian.Guard) -> bool:
    guard._child.kill()
    return _DISMISS(guard)


_DISMISS = guardian.Guard._dismiss


def test_the_next_run_undoes_what_a_dead_machine_left(tmp_path: Path, on_host: Callable[[Path], OnHost]) -> None:
    fault, settings = tmp_path / "fault undone", tmp_path / "settings undone"
    guardian.write_record(guardian.record_path("unit"), guardian.orders(stage(), (on_host(fault),)))
    guardian.write_record(guardian.settings_path("unit"), guardian.orders(stage(), (on_host(settings),)))
    said: list[str] = []
    guardian.heal("unit", said.append)
    assert fault.exists()
    assert settings.exists()
    assert len(said) == 2
    guardian.heal("unit", said.append)
    assert len(said) == 2


def test_two_runs_in_one_lab_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "LOCK_LIMIT_S", 0.1)
    said: list[str] = []
    held = guardian.exclusive("unit", said.append)
    refused = pytest.raises(ScenarioError, match="Another scenario")
    with held, refused, guardian.exclusive("unit", said.append):
        pass
    with guardian.exclusive("other", said.append), guardian.exclusive("unit", said.append):
        pass
    assert len(said) == 1


def test_signals_wait_while_the_lab_is_put_back() -> None:
    done: list[str] = []

    def put_back() -> None:
        with guardian.undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            done.append("put back")

    # Whoever pressed Ctrl-C meant the run, which ends when it may.
    with pytest.raises(KeyboardInterrupt):
        put_back()
    assert done == ["put back"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_could_not_be_put_back_is_heard_before_a_signal() -> None:
    def put_back() -> None:
        with guardian.undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            raise ScenarioError("The fault could not be undone.")

    with pytest.raises(ScenarioError):
        put_back()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_does_not_reach_what_undoes(on_host: Callable[[Path], OnHost], tmp_path: Path) -> None:
    """The terminal sends it to its whole group; the undoing command is in another."""
    assert on_host(tmp_path)  # for its sudo
    lab: Any = stage()
    assert int(lab.on_host(("sh", "-c", "ps -o sid= -p $$"))) != os.getsid(0)


def test_a_damaged_record_is_named_with_the_way_out() -> None:
    path = guardian.record_path("unit")
    guardian.write_record(path, "{}")
    with pytest.raises(ScenarioError) as caught:
        guardian.heal("unit", print)
    assert str(path) in caught.value.problem
    assert "anycastlab up" in caught.value.hint


def test_a_state_directory_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path / "file"))
    with pytest.raises(ScenarioError, match="cannot be locked"), guardian.exclusive("unit", print):
        pass
    with pytest.raises(ScenarioError, match="nothing was broken"):
        guardian.write_record(guardian.record_path("unit"), "text")


def test_records_are_for_the_owner_alone() -> None:
    path = guardian.record_path("unit")
    guardian.write_record(path, "text")
    assert path.stat().st_mode & 0o777 == 0o600
