"""Odd but legal machines: what a deploy does with them, step by step, on this one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from anycastlab.node import apply, layout, operations, plan, timing
from anycastlab.node.agent import Agent
from anycastlab.node.errors import NodeError
from anycastlab.node.facts import NodeState
from tests.unit.node.homes import home

NODE = home().node("node01")

_APT = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
*update*)
  if [ $(grep -c update {log}) -le {held} ]; then
    echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)" >&2; exit 100
  fi
  {dead} ;;
esac
"""


@pytest.mark.parametrize(
    ("held", "dead", "updates"),
    [(0, ":", 1), (2, ":", 3), (0, "echo 'E: The repository has no Release file.' >&2; exit 100", 1)],
    ids=["as always", "lists held", "dead source"],
)
def test_packages_are_installed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, dead: str, updates: int
) -> None:
    monkeypatch.setattr(timing, "APT_LISTS_WAIT_S", 0.01)
    log = tmp_path / "log"
    (tmp_path / "apt-get").write_text(_APT.format(log=log, held=held, dead=dead))
    (tmp_path / "apt-get").chmod(0o755)
    script = operations._install(("frr", "python3"))
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = log.read_text().splitlines()
    assert [("update" in call, "install" in call) for call in calls] == [(True, False)] * updates + [(False, True)]
    assert calls[-1].endswith("install --no-install-recommends frr python3")
    assert ("Release" in done.stderr) == ("Release" in dead)  # told, should the package be missed


def test_apts_lists_are_waited_for_longer_than_others_hold_them() -> None:
    assert timing.APT_LISTS_TRIES * timing.APT_LISTS_WAIT_S > 60
    assert timing.APT_LISTS_TRIES * timing.APT_LISTS_WAIT_S < timing.PACKAGES_LIMIT_S


@pytest.mark.parametrize("umask", [0o027, 0o077])
def test_a_program_of_ours_makes_folders_that_daemons_may_read(tmp_path: Path, umask: int) -> None:
    """The whole program as a node runs it; it fails at its first file, whose user is not there."""
    todo = plan.Plan(reasons=("x",), stamps={"a": "b"}, write_stamps=True)
    order = {**apply.order(home(), NODE, todo), "applied": str(tmp_path / "made" / "deep" / "applied.json")}
    order["folders"] = []
    program = apply.standalone(Path(apply.__file__).with_name("agent.py").read_text(), order)
    subprocess.run(["python3", "-I", "-"], input=program, umask=umask, capture_output=True, text=True, check=False)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "made" / "deep").stat().st_mode & 0o777 == 0o755


def test_a_folder_that_somebody_shut_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / layout.LIB.lstrip("/")
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    agent = Agent(apply.order(home(), NODE, plan.Plan()), root=str(tmp_path))
    agent._open_folders()
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("interfaces", "addresses", "hint"),
    [
        ({"lo", "end0", "wlan0", "anycast0"}, (("end0", "10.1.2.11/24"),), "to end0, which has 10.1.2.11"),
        ({"lo"}, (), "in the inventory;"),
    ],
)
def test_an_interface_that_is_not_there(
    interfaces: set[str], addresses: tuple[tuple[str, str], ...], hint: str
) -> None:
    state = NodeState(present=True, interfaces=frozenset(interfaces), addresses=addresses)
    with pytest.raises(NodeError) as error:
        operations._require_interface(NODE, state)
    assert error.value.problem.startswith("node01 has no interface eth0; it has ")
    assert hint in error.value.hint
    assert "anycast0" not in str(error.value)


def test_an_interface_that_is_there_or_a_machine_that_is_not_yet() -> None:
    operations._require_interface(NODE, NodeState(present=True, interfaces=frozenset({"lo", "eth0"})))
    operations._require_interface(NODE, NodeState())


def test_the_link_is_made_by_a_kernel_without_ipv6(tmp_path: Path) -> None:
    """`ip` that refuses everything of IPv6, as with ipv6.disable=1."""
    log = tmp_path / "log"
    (tmp_path / "ip").write_text(
        f'#!/bin/sh\necho "$@" >> {log}\n'
        'case "$*" in *addrgenmode*|*-6*|*del*priority*) echo unsupported >&2; exit 2;; esac\n'
    )
    (tmp_path / "sysctl").write_text("#!/bin/sh\nexit 255\n")
    for name in ("ip", "sysctl"):
        (tmp_path / name).chmod(0o755)
    from anycastlab.node import render

    made = render.files(home(), NODE, render.Machine("node01"))
    script = next(file.content for file in made if file.path == layout.LINK_SCRIPT)
    (tmp_path / "anycast0").write_bytes(script)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", str(tmp_path / "anycast0"), "make"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "address replace 10.1.9.53/32 dev anycast0" in log.read_text()


def test_a_host_that_carries_the_lab_and_is_a_node_has_two_files_of_kernel_settings() -> None:
    from anycastlab.host import kernel_limits

    assert str(kernel_limits.FILE) != layout.SYSCTL_CONFIG
