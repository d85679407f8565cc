"""The first deploy of a node, killed at each of its steps: the next one makes the node whole.

The agent works in a folder instead of `/`. A simulated systemd remembers with which files a unit was started, so that
"whole" means: every file as planned, every unit enabled and running with exactly these files, no drain left.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Never

import pytest

from anycastlab.node import adguard_yaml, agent, apply, layout, plan, render
from anycastlab.node.facts import FileState, NodeState, UnitState
from tests.unit.node.homes import home

SITE = home()
PASSWORDS = adguard_yaml.Passwords(lambda plain, hashed: hashed == f"#{plain}", lambda plain: f"#{plain}")
PROGRAM = b"\x7fELF adguard home"


class Killed(BaseException):
    """SIGKILL: nothing of the program runs any more, no clean-up either."""


@dataclass
class Machine:
    """A node's systemd, kernel and FRR as far as the agent asks them."""

    root: Path
    files: tuple[str, ...]
    enabled: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=dict)
    loaded: dict[str, str] = field(default_factory=dict)
    """Unit files as systemd has read them."""
    settings: str = ""
    steps_left: int | None = None
    steps: int = 0
    dead: bool = False

    def step(self) -> None:
        """One more step of the agent, or its death."""
        if self.dead or self.steps_left == 0:
            self.dead = True
            raise Killed
        self.steps += 1
        if self.steps_left is not None:
            self.steps_left -= 1

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def all_files(self) -> str:
        """What is on the disk now."""
        return json.dumps({p: hashlib.sha256(self.path(p).read_bytes()).hexdigest() for p in self.files if self.has(p)})

    def has(self, path: str) -> bool:
        return self.path(path).exists()

    @property
    def link_up(self) -> bool:
        """The probe raises it where the resolver runs and nobody drained the node."""
        resolver = any(unit in self.started for unit in layout.RESOLVER_UNITS.values())
        wanted = resolver and layout.PROBE_UNIT in self.started and layout.LINK_UNIT in self.started
        return wanted and not self.has(layout.DRAINED) and self.has(layout.PROBE_CONFIG)

    def run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        self.step()
        line = " ".join(argv)
        if argv[:3] == ["ip", "-o", "link"]:
            return _said("up" if self.link_up else "")
        if argv[0] == "vtysh" and "advertised-routes" in line:
            routes = {"10.1.9.53/32": {}} if self.link_up else {}
            return _said(json.dumps({"advertisedRoutes": routes}))
        if argv[0] == "vtysh":
            return _said("{}")
        if argv[0] == "sysctl":
            assert argv == ["sysctl", "-q", "-p", str(self.path(layout.SYSCTL_CONFIG))]
            self.settings = self.path(layout.SYSCTL_CONFIG).read_text()
        if argv[:2] == ["systemctl", "daemon-reload"]:
            self.loaded = self.units_on_disk()
        if argv[:3] == ["systemctl", "-q", "is-active"]:
            return _said("", 0 if argv[3] in self.started else 3)
        units = [word for word in argv[2:] if not word.startswith("-")]
        if argv[:2] == ["systemctl", "enable"]:
            self.enabled |= {*units}
        if argv[:2] == ["systemctl", "stop"]:
            for unit in units:
                self.started.pop(unit, None)
        if argv[0] == "systemctl" and argv[1] in ("start", "restart"):
            for unit in units:
                assert self.loaded == self.units_on_disk(), "started before systemd reread its units"
                if argv[1] == "restart" or unit not in self.started:
                    self.started[unit] = self.all_files()
        return _said("")

    def units_on_disk(self) -> dict[str, str]:
        return {p: self.path(p).read_text() for p in self.files if p.startswith("/etc/systemd/system/") and self.has(p)}

    def state(self, wanted: plan.Wanted) -> NodeState:
        """What the fact would read here."""
        files = {}
        for file in wanted.files:
            if self.has(file.path):
                path = self.path(file.path)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                files[file.path] = FileState(path.stat().st_mode & 0o7777, file.owner, file.group, digest)
        if self.has(layout.ADGUARD_PROGRAM):
            digest = hashlib.sha256(self.path(layout.ADGUARD_PROGRAM).read_bytes()).hexdigest()
            files[layout.ADGUARD_PROGRAM] = FileState(0o755, "root", "root", digest)
        stale = self.loaded != self.units_on_disk()
        units = {
            unit: UnitState(
                "active" if unit in self.started else "inactive", "enabled" if unit in self.enabled else "disabled",
                "loaded", stale,
            )
            for unit in wanted.units
        }  # fmt: skip
        link = layout.LINK_UNIT in self.started
        return NodeState(
            present=True,
            hostname=wanted.name,
            files=files,
            units=units,
            packages=frozenset(wanted.packages),
            link_up=self.link_up,
            link_prefixes=wanted.link_prefixes if link else (),
            rules=wanted.rules if link else (),
            drained_by=self.path(layout.DRAINED).read_text().strip() if self.has(layout.DRAINED) else None,
            applied=json.loads(self.path(layout.APPLIED).read_text()) if self.has(layout.APPLIED) else {},
            adguard_yaml=self.path(layout.ADGUARD_CONFIG).read_text() if self.has(layout.ADGUARD_CONFIG) else None,
            running_config=json.loads(self.started[layout.FRR_UNIT]).get(layout.FRR_CONFIG, "")
            and self.path(layout.FRR_CONFIG).read_text()
            if layout.FRR_UNIT in self.started
            else "",
        )


def _said(text: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, text, "")


def wanted_of(name: str) -> plan.Wanted:
    node = SITE.node(name)
    adguard = node.resolver == "adguardhome"
    return plan.Wanted(
        name=name,
        files=render.files(SITE, node, render.Machine(name)),
        units=plan_units(name),
        unwanted_units=layout.other_resolver_units(node.resolver),
        packages=layout.packages(node.resolver),
        program=plan.Program("v1", hashlib.sha256(PROGRAM).hexdigest()) if adguard else None,
        adguard=render.adguard(SITE, node, "secret") if adguard else None,
        link_prefixes=layout.link_prefixes(SITE.service),
        rules=layout.rules(SITE.service),
    )


def plan_units(name: str) -> tuple[str, ...]:
    return layout.wanted_units(SITE.node(name).resolver)


def up(machine: Machine, wanted: plan.Wanted, monkeypatch: pytest.MonkeyPatch) -> plan.Plan:
    """One deploy: look, plan, upload, and the agent, which may be killed on its way."""
    todo = plan.make(wanted, machine.state(wanted), PASSWORDS)
    order = json.loads(json.dumps(apply.order(SITE, SITE.node(wanted.name), todo)))
    order["limits"] = dict.fromkeys(order["limits"], 0.02) | {"poll_s": 0.001, "command_s": 5, "withdrawn_s": 0}
    if todo.program:
        staged = machine.path(apply.STAGED_PROGRAM)
        staged.parent.mkdir(parents=True, exist_ok=True)
        staged.write_bytes(PROGRAM)
    worker = agent.Agent(order, root=str(machine.root))
    worker._run = machine.run  # type: ignore[method-assign]
    with monkeypatch.context() as patch:
        for module, name in ((os, "replace"), (os, "unlink"), (os, "makedirs"), (os, "open")):
            patch.setattr(module, name, _stepping(machine, getattr(module, name)))
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(agent, "ask_txt", lambda *_: order["resolver"]["answer"])
        with contextlib.suppress(Killed):
            worker.run()
    machine.steps_left, machine.dead = None, False
    return todo


def _stepping(machine: Machine, function: Any) -> Any:
    def stepping(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path).startswith(str(machine.root)):
            machine.step()
        return function(path, *arguments, **options)

    return stepping


def fresh(tmp_path: Path, name: str, wanted: plan.Wanted) -> Machine:
    root = tmp_path / name
    (root / "tmp").mkdir(parents=True)
    return Machine(root, tuple(file.path for file in wanted.files))


def assert_whole(machine: Machine, wanted: plan.Wanted, step: int) -> None:
    todo = plan.make(wanted, machine.state(wanted), PASSWORDS)
    assert not todo.changes, f"after a death at step {step}: {todo.reasons}"
    for file in wanted.files:
        assert machine.path(file.path).read_bytes() == file.content, file.path
    assert {*wanted.units} <= machine.enabled
    now = json.loads(machine.all_files())
    for unit in wanted.units:
        with_files = json.loads(machine.started[unit])
        for file in wanted.files:
            if unit in file.restarts:
                assert with_files.get(file.path) == now[file.path], f"{unit} runs with an old {file.path} ({step})"
    assert machine.settings == machine.path(layout.SYSCTL_CONFIG).read_text()
    assert machine.link_up, f"after a death at step {step} nobody is served"
    left = [path for path in machine.root.rglob(f"*{agent.FRESH}") if path.parent != machine.path(layout.STATE)]
    assert left == [], step


@pytest.mark.parametrize("name", ["node01", "node02"], ids=["adguardhome", "unbound"])
def test_a_first_deploy_killed_at_each_of_its_steps_is_healed_by_one_more(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_of(name)
    unharmed = fresh(tmp_path, "unharmed", wanted)
    up(unharmed, wanted, monkeypatch)
    assert_whole(unharmed, wanted, -1)
    assert unharmed.steps > 60
    for step in range(unharmed.steps):
        machine = fresh(tmp_path, f"killed-{step}", wanted)
        machine.steps_left = step
        up(machine, wanted, monkeypatch)
        up(machine, wanted, monkeypatch)
        assert_whole(machine, wanted, step)


def test_a_disk_that_is_full_at_any_write_is_one_sentence_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever folder is full, of the state, of AdGuard Home's data or of /etc: it shows before anything stops."""
    wanted = wanted_of("node01")
    machine = fresh(tmp_path, "full", wanted)
    up(machine, wanted, monkeypatch)
    changed = home(resolver={"upstreams": ("203.0.113.53",), "stale_ttl_s": 9, "cache_bytes": 1 << 20})
    target = plan.Wanted(
        **{
            **vars(wanted),
            "files": render.files(home(bgp={"hold_s": 12, "keepalive_s": 4}), SITE.node("node01"), render.Machine("x")),
            "adguard": render.adguard(changed, SITE.node("node01"), "secret"),
        }
    )
    before, services = machine.all_files(), dict(machine.started)
    for folder in ("/etc/frr", layout.ADGUARD_STATE, layout.STATE):
        todo = plan.make(target, machine.state(target), PASSWORDS)
        assert todo.interrupts
        assert {layout.FRR_CONFIG} <= {file.path for file in todo.files}
        order = json.loads(json.dumps(apply.order(SITE, SITE.node("node01"), todo)))
        worker = agent.Agent(order, root=str(machine.root))
        worker._run = machine.run  # type: ignore[method-assign]
        full = str(machine.path(folder))

        def fsync(descriptor: int, full: str = full) -> None:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(full):
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(agent.StepFailed, match=rf"node01: {folder}/.* cannot be written: No space left on device"):
            worker.run()
        monkeypatch.undo()
        assert machine.all_files() == before
        assert machine.started == services
        assert machine.link_up
        assert not machine.has(layout.DRAINED)
        assert not list(machine.root.rglob(f"*{agent.FRESH}"))


def test_whatever_else_the_system_refuses_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: agent.Agent) -> Never:
        raise PermissionError(13, "Permission denied", "/tmp/x")

    order = {"limits": {}, "name": "node01"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent.Agent, "run", refuse)
        assert agent.main(order) == 1
    assert capsys.readouterr().err == "node01: the deploy stopped at /tmp/x: Permission denied.\n"


def test_the_flag_in_the_order_is_whole() -> None:
    file = agent._ours(layout.DRAINED, layout.DRAINED_BY_DEPLOY)
    assert base64.b64decode(file["content"]) == b"deploy\n"
