"""Whether the lab is built, and what of it its inventory forgot. Nothing that is not the lab's is ever touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anycastlab.errors import AnycastlabError
from anycastlab.incus.errors import IncusError, MissingError
from anycastlab.incus.spec import Lab
from anycastlab.status import built
from tests.unit.site.test_load import build, lab

ROOT = Path(__file__).parents[3]
LAB = Lab("lab")
INVENTORY = {"node01", "router"}


@dataclass
class Server:
    """An Incus server with the lab's project, in which `instances` (name → owner) run."""

    instances: dict[str, str] = field(default_factory=dict)
    project: bool = True
    log: list[str] = field(default_factory=list)

    def in_project(self, _: str | None) -> Server:
        return self

    def find(self, path: str) -> Any:
        if path == f"/projects/{LAB.project}":
            return {"config": {"user.anycastlab": "lab"}} if self.project else None
        return self._instance(path.rpartition("/")[2])

    def get(self, path: str, **_: str) -> Any:
        assert path == "/instances"
        return [self._instance(name) for name in self.instances]

    def _instance(self, name: str) -> dict[str, Any] | None:
        if name not in self.instances:
            return None
        return {"name": name, "status": "Running", "config": {"user.anycastlab": self.instances[name]}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server({"node01": "lab", "router": "lab", "node04": "lab", "mine": "", "theirs": "other"})
    monkeypatch.setattr(built, "connect", lambda *_: made)
    monkeypatch.setattr(built.instances, "delete", lambda _, name: made.log.append(f"delete {name}"))

    def execute(_: Any, name: str, argv: list[str], **__: Any) -> Any:
        made.log.append(f"{name}: {argv[-1]}")
        return SimpleNamespace(exit_code=1, text="")

    monkeypatch.setattr(built, "execute", execute)
    return made


@pytest.mark.usefixtures("server")
def test_a_lab_with_instances_is_built() -> None:
    built.require_built(build(lab()))


@pytest.mark.parametrize("state", [{"project": False}, {"instances": {}}, {"instances": {"mine": ""}}])
def test_a_lab_without_any_is_not_and_says_what_to_do(server: Server, state: dict[str, Any]) -> None:
    vars(server).update(state)
    with pytest.raises(built.NotBuiltError) as caught:
        built.require_built(build(lab()))
    assert str(caught.value) == "The lab lab is not built. Run `make lab`, or `anycastlab up`."


def test_a_real_home_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built, "connect", lambda *_: pytest.fail("asked"))
    built.require_built(build(lab()).model_copy(update={"lab": None}))


@pytest.mark.usefixtures("server")
def test_what_the_inventory_forgot_is_only_what_is_the_labs() -> None:
    assert built.forgotten(LAB, INVENTORY) == ["node04"]
    assert "`anycastlab down node04`" in built.reminder("node04")


def test_machines_are_known_by_their_instance_and_by_their_node() -> None:
    hosts: Any = [
        SimpleNamespace(name="@incus/attic:one", data={"node_name": "node01"}),
        SimpleNamespace(name="@incus/router", data={}),
        SimpleNamespace(name="192.0.2.11", data={"node_name": "board01"}),
    ]
    assert built.names_in(hosts) >= {"one", "node01", "router", "board01"}


def test_a_forgotten_node_leaves_service_before_it_is_deleted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def drain(_: Any, nodes: list[str], node: str, *, force: bool) -> None:
        server.log.append(f"drain {node} of {nodes} {force}")
        raise AnycastlabError("it does not obey")  # and goes all the same

    monkeypatch.setattr(built.probe_control, "drain", drain)
    monkeypatch.setattr(built, "execute", lambda *_, **__: SimpleNamespace(exit_code=0, text=""))
    built.remove_forgotten(LAB, "node04", INVENTORY)
    assert server.log == ["drain node04 of ['node04'] True", "delete node04"]


def test_a_machine_that_is_no_node_is_just_deleted(server: Server) -> None:
    built.remove_forgotten(LAB, "node04", INVENTORY)
    assert server.log == ["node04: test -e /run/anycastlab/probe.json", "delete node04"]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("node01", IncusError, "node01 is in the inventory"),
        ("mine", IncusError, "was not made by lab lab"),
        ("theirs", IncusError, "was not made by lab lab"),
        ("node05", MissingError, "has no instance node05"),
    ],
)
def test_nothing_else_is_deleted(server: Server, name: str, error: type[IncusError], said: str) -> None:
    with pytest.raises(error, match=said):
        built.remove_forgotten(LAB, name, INVENTORY)
    assert server.log == []


def without_a_daemon(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "INCUS_SOCKET": "/nonexistent/incus.socket"}
    program = str(Path(sys.executable).with_name("anycastlab"))
    return subprocess.run([program, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_without_a_daemon_there_is_one_sentence_and_still_json() -> None:
    status = without_a_daemon("status")
    assert (status.returncode, status.stdout.count("\n"), status.stderr) == (2, 1, "")
    assert "No Incus daemon listens" in status.stdout
    document = json.loads(without_a_daemon("status", "--json").stdout)
    assert "No Incus daemon listens" in document["problem"]
    assert [node["name"] for node in document["nodes"]] == ["node01", "node02", "node03"]
    probe = without_a_daemon("probe", "--json")
    assert probe.returncode == 2
    assert {(node["state"], "No Incus daemon listens" in node["reason"]) for node in json.loads(probe.stdout)} == {
        ("unknown", True)
    }


@pytest.mark.parametrize("command", [("drain", "node01"), ("router", "plan"), ("router", "verify")])
def test_what_makes_no_sense_without_a_lab_is_an_error(command: tuple[str, ...]) -> None:
    result = without_a_daemon(*command)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: No Incus daemon listens on this machine")
    assert result.stderr.count("\n") == 1
