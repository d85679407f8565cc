"""Which lab, which settings, which order; and settings of a scenario are never left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anycastlab.commands.options import parse_data
from anycastlab.incus.spec import Lab as Topology
from anycastlab.report.reading import read
from anycastlab.report.run import Verdict
from anycastlab.scenarios import campaign, catalog, guardian, priority, session, timing
from anycastlab.scenarios.actions import Action, Deploy
from anycastlab.scenarios.campaign import Options, run_all
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.model import Scenario
from anycastlab.scenarios.session import Session, run_folder
from anycastlab.scenarios.stage import open_stage
from tests.unit.node.homes import home
from tests.unit.scenarios.test_command import recorded


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    return tmp_path


# Settings -------------------------------------------------------------------------------------------------------------


class Lab:
    """A lab that can only be deployed: remembers with which settings, and what was written down at that moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deployed: list[tuple[dict[str, str], bool]] = []
        self.fails = False
        self.stage = open_stage(home(), "unit", "inventory/lab.py")
        monkeypatch.setattr(self.stage, "do", self._do)
        monkeypatch.setattr(session, "read_site", lambda *_: home())
        self.session = Session("inventory/lab.py", {"bfd_interval_ms": 300}, self.stage, 0, lambda _: None)

    def _do(self, *actions: Action) -> None:
        assert actions == (Deploy(),)
        self.deployed.append((dict(self.stage.settings), guardian.settings_path("unit").exists()))
        if self.fails:
            raise ScenarioError("The deploy failed.")


OWN, OTHER = {"bfd_interval_ms": "300"}, {"bfd_interval_ms": "300", "serve_stale": "false"}


def test_the_lab_is_deployed_only_where_settings_change(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch)
    for settings in ({}, {"serve_stale": False}, {"serve_stale": False}, {}, {}):
        lab.session.configure(settings)
    # The way back is written down before the deploy, and gone only after the one that goes back.
    assert lab.deployed == [(OTHER, True), (OWN, True)]
    assert not guardian.settings_path("unit").exists()


def test_the_way_back_leads_to_the_labs_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    Lab(monkeypatch).session.configure({"serve_stale": False})
    stage, actions = guardian.parse(guardian.settings_path("unit").read_text())
    assert (dict(stage.settings), actions) == (OWN, (Deploy(),))


def test_after_a_deploy_that_failed_the_lab_still_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch)
    lab.fails = True
    with pytest.raises(ScenarioError):
        lab.session.configure({"serve_stale": False})
    lab.fails = False
    lab.session.configure({})
    assert [settings for settings, _ in lab.deployed] == [OTHER, OWN]


@pytest.mark.parametrize(
    "value", [True, False, None, 300, 1.5, ["ads.example", "tracker.example"], "tls://dns.example"]
)
def test_settings_reach_the_deploy_as_they_were_given(value: object) -> None:
    assert parse_data((f"key={session._text(value)}",)) == {"key": value}


# Campaigns ------------------------------------------------------------------------------------------------------------


class FakeSession:
    def __init__(self, name: str) -> None:
        self.name = name
        self.ran: list[tuple[str, int, timing.Lengths]] = []
        self.nodes = 3

    def run(self, scenario: Scenario, lengths: timing.Lengths, rate: float, number: int) -> Any:  # noqa: ARG002
        self.ran.append((scenario.name, number, lengths))
        return recorded(scenario, number, Verdict.OK)


def scenario(name: str, **changes: Any) -> Scenario:
    return Scenario(f"Title of {name}", lambda _: None, name=name, **changes)  # type: ignore[arg-type, return-value]


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    made: list[FakeSession] = []

    @contextlib.contextmanager
    def opened(kind: str) -> Iterator[FakeSession]:
        made.append(FakeSession(kind))
        yield made[-1]

    monkeypatch.setattr(campaign, "open_session", lambda *_: opened("own"))
    monkeypatch.setattr(campaign, "flat_lab", lambda *_: opened("flat"))
    return made


def test_each_layout_has_its_lab_and_changed_settings_come_last(labs: list[FakeSession], tmp_path: Path) -> None:
    chosen = [
        scenario("flat", layout="flat"),
        scenario("stale", settings={"serve_stale": False}),
        scenario("kill"),
        scenario("short", quick=timing.Lengths(1, 2, 3)),
    ]
    options = Options("inventory/lab.py", {}, "unit", repeat=2, quick=True, out=tmp_path)
    folders = [folder for _, folder in run_all(chosen, options, lambda _: None)]
    own, flat = labs
    assert [(name, number) for name, number, _ in own.ran] == [
        (name, number) for name in ("kill", "short", "stale") for number in (1, 2)
    ]
    assert [name for name, _, _ in flat.ran] == ["flat", "flat"]
    assert {name: lengths for name, _, lengths in own.ran} == {
        "kill": timing.QUICK,
        "short": timing.Lengths(1, 2, 3),
        "stale": timing.QUICK,
    }
    # Each run is on disk when it is told of, in a folder of its own.
    assert [(read(folder).scenario, read(folder).number) for folder in folders][:2] == [("kill", 1), ("kill", 2)]
    assert len(set(folders)) == 8


def test_a_lab_that_is_flat_needs_no_other(labs: list[FakeSession], tmp_path: Path) -> None:
    options = Options("inventory/lab.py", {"layout": "flat"}, "unit", out=tmp_path)
    list(run_all([scenario("flat", layout="flat")], options, lambda _: None))
    assert [lab.name for lab in labs] == ["own"]


def test_a_place_that_cannot_be_written_is_known_before_anything_is_broken(
    labs: list[FakeSession], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    options = Options("inventory/lab.py", {}, "unit", out=tmp_path / "file" / "runs")
    with pytest.raises(ScenarioError, match=r"Runs cannot be written to .*/file/runs"):
        list(run_all([scenario("kill")], options, lambda _: None))
    assert labs == []


def test_a_disk_that_is_full_at_the_end_is_one_sentence_with_the_verdict(
    labs: list[FakeSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(campaign.records, "write", full)
    options = Options("inventory/lab.py", {}, "unit", out=tmp_path)
    with pytest.raises(ScenarioError, match=r"kill 1 was OK, and could not be written .*: No space left on device"):
        list(run_all([scenario("kill")], options, lambda _: None))
    assert len(labs) == 1


@pytest.mark.usefixtures("labs")
def test_a_connection_that_breaks_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ConnectionResetError("connection reset")

    monkeypatch.setattr(FakeSession, "run", broken)
    options = Options("inventory/lab.py", {}, "unit", out=tmp_path)
    with pytest.raises(ScenarioError, match="kill was broken off: connection reset"):
        list(run_all([scenario("kill")], options, lambda _: None))


# The lab beside -------------------------------------------------------------------------------------------------------


class Beside:
    """The second lab, in the layout flat: what is deployed into it, and whether it was locked then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, bool]] = []
        self.there = False
        monkeypatch.setattr(session, "read_site", lambda *_: home())
        monkeypatch.setattr(session.LabStage, "do", self._do)
        monkeypatch.setattr(session.LabStage, "power_of", lambda *_: "Running" if self.there else "Missing")
        monkeypatch.setattr(timing, "LOCK_LIMIT_S", 0.01)

    def _do(self, *actions: Any) -> None:
        try:
            with guardian.exclusive("unitf", lambda _: None):
                locked = False
        except ScenarioError:
            locked = True
        self.done.append((actions[-1].file, locked))

    def use(self) -> None:
        with session.flat_lab("inventory/lab.py", {}, "unit", lambda _: None):
            self.there = True


def test_the_second_lab_is_held_from_its_building_to_its_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(monkeypatch)
    beside.use()
    assert beside.done == [("deploy.py", True), ("teardown.py", True)]


def test_a_second_lab_in_use_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of flat scenarios at once: the later one must not remove the lab in which the first one measures."""
    beside = Beside(monkeypatch)
    with guardian.exclusive("unitf", lambda _: None), pytest.raises(ScenarioError, match="Another scenario"):
        beside.use()
    assert beside.done == []


def test_a_lab_of_that_name_that_a_person_has_built_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(monkeypatch)
    beside.there = True
    with pytest.raises(ScenarioError, match="There is a lab unitf"):
        beside.use()
    assert beside.done == []


def test_a_second_lab_that_a_killed_run_left_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(monkeypatch)
    beside.there = True
    guardian.write_record(guardian.flat_path("unitf"), "")
    beside.use()
    assert [file for file, _ in beside.done] == ["deploy.py", "teardown.py"]
    assert not guardian.flat_path("unitf").exists()


@pytest.mark.parametrize("name", ["lab", "a", "sevenxx", "eightxxx", "eightxxf", "f"])
def test_the_second_lab_has_another_name_that_is_one(name: str) -> None:
    other = session.flat_name(name)
    assert other != name
    assert Topology(other).name == other


def test_folders_sort_by_time_and_name_their_run() -> None:
    folder = run_folder(Path("runs"), "wan-down", 3)
    assert folder.parent == Path("runs")
    assert folder.name[8] == "-"
    assert folder.name.endswith("-wan-down-3")


# The instrument's priority --------------------------------------------------------------------------------------------


def test_the_phones_process_is_found_by_its_unit_and_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_PROC", tmp_path)
    for number, group, command in (
        ("1", "0::/init.scope", "init"),
        ("7", "0::/lxc/system.slice/phone-x.service", "systemd-executor"),
        ("8", "0::/lxc/system.slice/phone-x.service", "python3\0/phone.pyz"),
        ("9", "0::/lxc/system.slice/phone-y.service", "python3\0/phone.pyz"),
    ):
        (tmp_path / number).mkdir()
        (tmp_path / number / "cgroup").write_text(group)
        (tmp_path / number / "cmdline").write_text(command)
    (tmp_path / "10").mkdir()  # has ended
    (tmp_path / "meminfo").write_text("")
    assert priority.find("phone-x.service", "/phone.pyz") == 8
    assert priority.find("phone-z.service", "/phone.pyz") is None


def test_without_rights_the_phone_goes_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority.os, "geteuid", lambda: 1000)
    assert priority.prefer("phone-x.service", "/phone.pyz", 1.0) is False


def test_groups_without_real_time_get_a_share_from_the_top_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cpu"
    monkeypatch.setattr(priority, "_PROC", proc)
    monkeypatch.setattr(priority, "_CPU_GROUPS", groups)
    (proc / "8").mkdir(parents=True)
    (proc / "8" / "cgroup").write_text("4:memory:/lxc/a\n1:cpu:/lxc/a\n0::/lxc/a\n")
    (groups / "lxc" / "a").mkdir(parents=True)
    (groups / "lxc" / "cpu.rt_runtime_us").write_text("950000\n")
    (groups / "lxc" / "a" / "cpu.rt_runtime_us").write_text("0\n")
    priority._allow(8, priority.RT_RUNTIME_US)
    assert (groups / "lxc" / "cpu.rt_runtime_us").read_text() == "950000\n"
    assert int((groups / "lxc" / "a" / "cpu.rt_runtime_us").read_text()) == priority.RT_RUNTIME_US


def test_only_the_bfd_daemons_of_this_labs_router_and_nodes_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priority, "_PROC", tmp_path)
    monkeypatch.setattr(priority.os, "geteuid", lambda: 0)
    for number, machine, command in (
        ("11", "anycastlab_router", "/usr/lib/frr/bfdd\0-d"),
        ("12", "anycastlab_node01", "/usr/lib/frr/bfdd\0-d"),
        ("13", "anycastlab_node01", "/usr/lib/frr/bgpd\0-d"),
        ("14", "anycastlab-b_node01", "/usr/lib/frr/bfdd\0-d"),
        ("15", "anycastlab_node012", "/usr/lib/frr/bfdd\0-d"),
        ("16", "anycastlab_router", "/usr/sbin/bird\0-f"),
    ):
        (tmp_path / number).mkdir()
        (tmp_path / number / "cgroup").write_text(f"0::/lxc.payload.{machine}/system.slice/frr.service\n")
        (tmp_path / number / "cmdline").write_text(command)
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(priority, "_raise", lambda process, us: raised.append((process, us)) or True)

    assert priority.prefer_bfd("anycastlab", "router", ["node01", "node02"]) == 3
    router, node = priority.BFD_RUNTIME_US, priority.NODE_BFD_RUNTIME_US
    assert sorted(raised) == [(11, router), (12, node), (16, router)]


def test_every_thread_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    monkeypatch.setattr(priority, "_allow", lambda *_: None)
    monkeypatch.setattr(os, "sched_setscheduler", lambda thread, *_: raised.append(thread))
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        assert priority._raise(os.getpid(), priority.BFD_RUNTIME_US)
        assert {os.getpid(), other.native_id} <= set(raised)
    finally:
        end.set()
        other.join()


def test_a_scenario_that_is_about_more_nodes_than_there_are_is_one_sentence_before_anything_is_broken() -> None:
    with pytest.raises(ScenarioError) as caught:
        campaign.require_nodes(catalog.find("two-of-three-dead"), 1)
    assert caught.value.problem == "two-of-three-dead needs at least 2 nodes, and this lab has 1."
    for name in ("all-dead", "wan-down", "router-dns-down"):
        campaign.require_nodes(catalog.find(name), 1)
    campaign.require_nodes(catalog.find("two-of-three-dead"), 2)


def test_all_are_looked_at_before_the_first_is_run(labs: list[FakeSession], tmp_path: Path) -> None:
    some = [scenario("kill", least_nodes=1), scenario("other", least_nodes=9)]
    with pytest.raises(ScenarioError, match="other needs at least 9 nodes"):
        list(run_all(some, Options("inventory/lab.py", {}, "unit", out=tmp_path), lambda _: None))
    assert [session.ran for session in labs] == [[]]
