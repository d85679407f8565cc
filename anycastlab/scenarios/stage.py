"""The lab as scenarios reach it: run something on a machine, cut its power, ask the router, look at the clock."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from anycastlab.incus import desired
from anycastlab.incus.errors import IncusError
from anycastlab.incus.exec import Result, execute
from anycastlab.incus.rest import Rest, connect
from anycastlab.incus.spec import Lab
from anycastlab.routeros.control import router_session
from anycastlab.run_lock import WAIT_VARIABLE
from anycastlab.scenarios import timing
from anycastlab.scenarios.actions import Action, Api, Deploy, On, OnHost, Power
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.site import Site

CLIENT, ROUTER, UPSTREAM = "client01", "router", "upstream"


def open_stage(site: Site, lab: str, inventory: str, settings: tuple[tuple[str, str], ...] = ()) -> LabStage:
    """The lab of that name on this machine's Incus server; nothing is asked yet."""
    named = Lab(lab)
    return LabStage(site, named, connect(project=named.project), inventory, settings)


class Stage(Protocol):
    """What faults and proofs may use. Times are CLOCK_MONOTONIC, which containers share with the host."""

    site: Site
    lab: Lab

    def do(self, *actions: Action) -> None: ...
    def run(self, machine: str, argv: Sequence[str], limit_s: float = timing.ACTION_LIMIT_S) -> Result: ...
    def power_of(self, machine: str) -> str: ...
    def on_host(self, argv: Sequence[str]) -> str: ...
    def host_interface(self, machine: str) -> str: ...
    def serving_node(self) -> str: ...
    def now_ns(self) -> int: ...


@dataclass
class LabStage:
    """The real one. `inventory`, `settings` and `folder` (where deploy.py lies) are for actions that deploy."""

    site: Site
    lab: Lab
    rest: Rest
    inventory: str
    settings: tuple[tuple[str, str], ...] = ()
    folder: str = field(default_factory=os.getcwd)
    sleep: Callable[[float], None] = time.sleep

    def do(self, *actions: Action) -> None:
        """Carry out actions in order, except that machines lose and get power together: a power cut takes a moment for
        each, and "all dead" must not mean one after the other. Raises ScenarioError, IncusError, RouterError, OSError.
        """
        for together, group in itertools.groupby(actions, lambda action: isinstance(action, Power)):
            if not together:
                for action in group:
                    self._do(action)
                continue
            with ThreadPoolExecutor() as pool:
                jobs = [pool.submit(self._do, action) for action in group]
            for job in jobs:
                job.result()

    def _do(self, action: Action) -> None:
        match action:
            case On(machine, argv, strict, limit_s):
                result = self.run(machine, argv, limit_s or timing.ACTION_LIMIT_S)
                if strict and not result.ok:
                    raise ScenarioError(f"{' '.join(argv)} on {machine} failed: {result.complaint}.")
            case OnHost(argv, strict):
                try:
                    self.on_host(argv)
                except ScenarioError:
                    if strict:
                        raise
            case Power():
                self._power(action)
            case Api():
                self._api(action)
            case Deploy(data, file):
                self._deploy(dict((*self.settings, *data)), file)

    def run(self, machine: str, argv: Sequence[str], limit_s: float = timing.ACTION_LIMIT_S) -> Result:
        return execute(self.rest, machine, list(argv), timeout_s=limit_s)

    def power_of(self, machine: str) -> str:
        """Incus' word for the state of an instance: `Running`, `Stopped`, `Frozen`."""
        found = self.rest.find(f"/instances/{machine}")
        return "Missing" if found is None else str(found["status"])

    def on_host(self, argv: Sequence[str]) -> str:
        """Run `argv` on this machine as root and return what it printed."""
        privilege = [] if os.geteuid() == 0 else ["sudo", "-n"]
        words = [word.replace("{lab}", self.lab.name) for word in argv]
        try:
            # A session of its own: Ctrl-C is for us alone, also while we undo something.
            result = subprocess.run(
                [*privilege, *words], capture_output=True, text=True, start_new_session=True, check=False
            )
        except OSError as error:
            raise ScenarioError(
                f"{' '.join(words[:3])} … on this machine failed: {error}.", "Run it as root."
            ) from None
        if result.returncode != 0:
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ScenarioError(f"{' '.join(words[:3])} … on this machine failed: {reason}.", "Run it as root.")
        return result.stdout

    def host_interface(self, machine: str) -> str:
        """The host's end of a machine's first interface, where its packets can be counted and dropped."""
        nic = "eth0" if machine != ROUTER else "lan"
        for node in self.site.nodes:
            if node.name == machine:
                nic = node.interface
        return desired.host_interface(self.lab, machine, nic)

    def serving_node(self) -> str:
        """The node that gets most of the packets right now: with one flow, the one that serves it."""
        before = self._packets()
        self.sleep(timing.SERVING_SAMPLE_S)
        after = self._packets()
        return max(after, key=lambda name: (after[name] - before.get(name, 0), name))

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def _packets(self) -> dict[str, int]:
        counts = {}
        for node in self.site.nodes:
            path = Path("/sys/class/net") / self.host_interface(node.name) / "statistics/tx_packets"
            if path.exists():
                counts[node.name] = int(path.read_text())
        if not counts:
            raise ScenarioError("No node of the lab is running.", "`anycastlab up` starts them.")
        return counts

    def _power(self, action: Power) -> None:
        wanted = {"stop": "Stopped", "start": "Running", "freeze": "Frozen", "unfreeze": "Running"}.get(action.state)
        if self.power_of(action.machine) == wanted:
            return
        body = {"action": action.state, "force": action.force, "timeout": int(timing.ACTION_LIMIT_S)}
        try:
            self.rest.run("put", f"/instances/{action.machine}/state", body)
        except IncusError:
            if self.power_of(action.machine) != wanted:
                raise

    def _api(self, action: Api) -> None:
        with router_session(self.site.router) as connection:
            words = [f"={key}={value}" for key, value in action.arguments]
            if action.tagged is not None:
                rows = connection.print(action.menu, [".id", "comment"])
                ids = [row[".id"] for row in rows if row.get("comment", "").split(" ")[0] == action.tagged]
                if not ids:
                    raise ScenarioError(f"The router has no row {action.tagged} in {action.menu}.", "Deploy first.")
                words.append(f"=numbers={','.join(ids)}")
            connection.call(f"{action.menu}/{action.verb}", *words)

    def _deploy(self, data: dict[str, str], file: str) -> None:
        options = [part for key, value in data.items() for part in ("--data", f"{key}={value}")]
        words = ["down", "-y"] if file == "teardown.py" else ["up"]
        command = [sys.executable, "-m", "anycastlab", *words, *options, "-i", self.inventory]
        # The deploy that was the fault may still be at work when a runner was killed.
        wait = {WAIT_VARIABLE: str(timing.LONG_ACTION_LIMIT_S)}
        environment = {**os.environ, "ANYCASTLAB_LAB": self.lab.name, **wait}
        # A session of its own: Ctrl-C must not tear a deploy that puts the lab back.
        result = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
        if result.returncode != 0:
            errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
            reason = (errors or ["no reason given"])[0].removeprefix("Error: ")
            raise ScenarioError(f"{file} of the lab failed: {reason}", "Run `anycastlab up` to see all of it.")
