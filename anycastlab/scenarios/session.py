"""A lab in which scenarios are run one after another: healthy before each, with the settings that it wants.

with open_session(inventory, data, lab, say) as session:
    for run in session.runs(scenario, repeats): …
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anycastlab.errors import AnycastlabError
from anycastlab.host.interception import intercepted
from anycastlab.node import layout
from anycastlab.report.run import Run
from anycastlab.scenarios import guardian, timing
from anycastlab.scenarios.actions import Deploy
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.model import Scenario
from anycastlab.scenarios.read_site import read_site
from anycastlab.scenarios.recorder import Recorder
from anycastlab.scenarios.runner import Plan, run_once
from anycastlab.scenarios.stage import CLIENT, ROUTER, LabStage, open_stage
from anycastlab.site import Site
from anycastlab.site.settings import masked
from anycastlab.status.answer import Answer
from anycastlab.status.gather import gather
from anycastlab.status.model import Status
from anycastlab.status.router import read_router

Say = Callable[[str], None]

# Says `LEVEL` of the probe's hold-down; starts a probe whose memory of withdrawals is longer than one anew.
_FORGET = """
level=$(head -c 262144 /run/anycastlab/probe.json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["hold_down"]["level"])' || echo 1)
[ "$level" = 0 ] && exit 0
systemctl stop {unit} && rm -f /run/anycastlab/probe.json && systemctl start {unit} && echo forgotten
""".strip().replace("{unit}", layout.PROBE_UNIT)


@dataclass(frozen=True)
class StageMachines:
    """The lab's machines for `status.gather`, over the connection that scenarios use."""

    stage: LabStage

    @property
    def site(self) -> Site:
        return self.stage.site

    def run(self, machine: str, argv: Sequence[str]) -> Answer:
        """Never raises for a machine that does not answer."""
        try:
            result = self.stage.run(machine, argv, limit_s=timing.LOOK_LIMIT_S)
        except (AnycastlabError, OSError) as error:
            return Answer(None, stderr=str(error))
        return Answer(result.exit_code, result.text, result.stderr.decode("utf-8", "replace"))

    def run_on_client(self, argv: Sequence[str]) -> tuple[bool, str]:
        answer = self.run(CLIENT, argv)
        return answer.ok, answer.stdout if answer.ok else answer.stderr

    def run_all(self, commands: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
        with ThreadPoolExecutor() as pool:
            return dict(zip(commands, pool.map(self.run, commands, commands.values()), strict=True))


@dataclass
class Session:
    """One lab, held exclusively. `data` are the settings it has when no scenario wants others."""

    inventory: str
    data: Mapping[str, Any]
    stage: LabStage
    lock: int
    say: Say
    _extra: dict[str, Any] = field(default_factory=dict)  # settings of a scenario, in force now
    _checked: bool = False

    @property
    def nodes(self) -> int:
        """How many nodes the lab has."""
        return len(self.stage.site.nodes)

    def run(self, scenario: Scenario, lengths: timing.Lengths, rate: float, number: int) -> Run:
        """Run a scenario once. Raises AnycastlabError with everything undone but its settings, which `close` undoes."""
        self.configure(scenario.settings)
        status = self.make_healthy()
        self._refuse_interception()
        recorder = Recorder(self.stage, self.stage.rest)
        plan = Plan(
            scenario, rate, lengths, number, self._settings(), self._versions(status), self._machine()
        )  # fmt: skip
        guard = guardian.Guard(self.stage, self.lock, recorder.stops)
        return run_once(plan, self.stage, recorder, guard, self.say)

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Deploy the lab with these settings beside its own, if it is not deployed so."""
        if dict(settings) == self._extra:
            return
        path = guardian.settings_path(self.stage.lab.name)
        own = tuple((key, _text(value)) for key, value in self.data.items())
        if settings:
            # Written before the deploy: if we are killed in it, the next run puts the settings back.
            back = open_stage(self.stage.site, self.stage.lab.name, self.inventory, own)
            guardian.write_record(path, guardian.orders(back, (Deploy(),)))
        self._extra = dict(settings)  # also if the deploy fails: then the way back is to be gone
        words = ", ".join(f"{key}={_text(value)}" for key, value in settings.items()) or "its own settings"
        self.say(f"deploying the lab with {words}")
        wanted = {**self.data, **settings}
        self.stage.settings = tuple((key, _text(value)) for key, value in wanted.items())
        self.stage.do(Deploy())
        self.stage.site = read_site(self.inventory, wanted, environment(self.stage.lab.name))
        if not settings:
            path.unlink(missing_ok=True)

    def make_healthy(self) -> Status:
        """Wait until nothing is wrong with the lab, deploy it if that does not come; raises ScenarioError."""
        machines = (CLIENT, ROUTER, *(node.name for node in self.stage.site.nodes))
        if missing := [machine for machine in machines if self.stage.power_of(machine) == "Missing"]:
            self.say(f"the lab has no {missing[0]}; deploying it")
            self.stage.do(Deploy())
        self._forget()
        status = self._wait_healthy()
        if status.complaints():
            self.say(f"the lab is not healthy ({status.complaints()[0]}); deploying it")
            self.stage.do(Deploy())
            status = self._wait_healthy()
        if complaints := status.complaints():
            raise ScenarioError(
                f"The lab is not healthy, so nothing can be measured: {complaints[0]}",
                "`anycastlab status` shows all of it, `anycastlab up` builds or heals it.",
            )
        return status

    def _wait_healthy(self) -> Status:
        end = time.monotonic() + timing.HEALTHY_LIMIT_S
        while True:
            status = gather(StageMachines(self.stage), read_router)
            if not (complaints := status.complaints()) or time.monotonic() > end:
                return status
            if time.monotonic() > end - timing.HEALTHY_LIMIT_S + timing.HEALTHY_QUIET_S:
                self.say(f"waiting: {complaints[0]}")
            time.sleep(timing.HEALTHY_POLL_S)

    def _forget(self) -> None:
        """Give each node a probe without memory of the last run's withdrawals, one node after the other.

        A node that left often stays away longer each time. That is right in a home, and would make every repeat
        another experiment than the one before.
        """
        for node in self.stage.site.nodes:
            answer = StageMachines(self.stage).run(node.name, ["sh", "-c", _FORGET])
            if "forgotten" in answer.stdout:
                time.sleep(timing.PROBE_START_S)

    def _refuse_interception(self) -> None:
        if self._checked:
            return

        def run(argv: Sequence[str]) -> tuple[int, str]:
            answer = StageMachines(self.stage).run(CLIENT, argv)
            return 1 if answer.code is None else answer.code, answer.stdout

        if finding := intercepted(run):
            raise ScenarioError(finding.problem, finding.hint)
        self._checked = True

    def _settings(self) -> dict[str, Any]:
        site = self.stage.site
        return {
            "lab": self.stage.lab.name,
            "layout": site.layout,
            "nodes": len(site.nodes),
            "resolver": ", ".join(sorted({node.resolver for node in site.nodes})),
            "bfd_interval_ms": site.bfd.interval_ms,
            "bfd_multiplier": site.bfd.multiplier,
            **{key: _text(value) for key, value in masked({**self.data, **self._extra}).items()},
        }

    def _versions(self, status: Status) -> dict[str, str]:
        found = {f"{node.name} {node.resolver}": node.version for node in status.nodes}
        node = self.stage.site.nodes[0].name
        run = StageMachines(self.stage).run
        frr = run(node, ["dpkg-query", "-W", "-f", "${Version}", "frr"])
        bird = run(ROUTER, ["dpkg-query", "-W", "-f", "BIRD ${Version}", "bird2"])
        found |= {
            "RouterOS (stand-in)": status.router.version,
            "BGP and BFD of the stand-in": bird.stdout.strip() or None,
            "FRR": frr.stdout.strip() or None,
            "Incus": self.stage.rest.info.get("environment", {}).get("server_version"),
        }
        return {name: version for name, version in found.items() if version}

    @staticmethod
    def _machine() -> dict[str, str]:
        load = os.getloadavg()[0]
        return {
            "kernel": platform.release(),
            "machine": platform.machine(),
            "cpus": str(os.cpu_count()),
            "load before": f"{load:.1f}",
        }


@contextlib.contextmanager
def open_session(inventory: str, data: Mapping[str, Any], lab: str, say: Say) -> Iterator[Session]:
    """Hold the lab for scenarios; at the end it has its own settings again. Raises AnycastlabError."""
    with guardian.exclusive(lab, say) as lock, _held_session(inventory, data, lab, lock, say) as session:
        yield session


@contextlib.contextmanager
def _held_session(inventory: str, data: Mapping[str, Any], lab: str, lock: int, say: Say) -> Iterator[Session]:
    guardian.heal(lab, say)
    session = Session(inventory, data, _stage(inventory, data, lab), lock, say)
    try:
        yield session
    finally:
        with guardian.undisturbed():
            session.configure({})


def _stage(inventory: str, data: Mapping[str, Any], lab: str) -> LabStage:
    site = read_site(inventory, data, environment(lab))
    if site.lab is None:
        raise ScenarioError(
            f"{inventory} is a real home, and scenarios break things.", "They run in the embedded lab only."
        )
    return open_stage(site, lab, inventory, tuple((key, _text(value)) for key, value in data.items()))


@contextlib.contextmanager
def flat_lab(inventory: str, data: Mapping[str, Any], name: str, say: Say) -> Iterator[Session]:
    """A lab of its own in the layout `flat`, beside the lab `name`, built now and removed at the end.

    Held from before it is built until after it is removed, and never a lab that somebody else has built.
    """
    lab = flat_name(name)
    wanted = {**data, "layout": "flat"}
    with guardian.exclusive(lab, say) as lock:
        stage = _stage(inventory, wanted, lab)
        ours = guardian.flat_path(lab)
        if stage.power_of(CLIENT) != "Missing" and not ours.exists():
            raise ScenarioError(
                f"There is a lab {lab}, and this scenario would build one of that name and remove it.",
                f"Remove it (`ANYCASTLAB_LAB={lab} anycastlab down`), or use a lab of another name.",
            )
        guardian.write_record(ours, "")
        say(f"building the lab {lab} in the layout flat")
        try:
            stage.do(Deploy())
            with _held_session(inventory, wanted, lab, lock, say) as session:
                yield session
        finally:
            with guardian.undisturbed():
                say(f"removing the lab {lab}")
                stage.do(Deploy(file="teardown.py"))
                ours.unlink(missing_ok=True)


def flat_name(name: str) -> str:
    """The name of the lab in the layout `flat` beside the lab `name`: another one, and no longer than a name may be."""
    return f"{name[:7]}f" if name[7:] != "f" else f"{name[:7]}g"


def environment(lab: str) -> dict[str, str]:
    return {**os.environ, "ANYCASTLAB_LAB": lab}


def run_folder(out: Path, scenario: str, number: int) -> Path:
    """`runs/20260102-030405-kill-1`: sorts by time, and two runs never share one."""
    return out / f"{time.strftime('%Y%m%d-%H%M%S')}-{scenario}-{number}"


def _text(value: Any) -> str:
    """As pyinfra's `--data` reads it back."""
    return value if isinstance(value, str) else json.dumps(value)
