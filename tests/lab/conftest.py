"""One real lab for all tests that need one: built once per run by the real deploy, in a project of its own.

It is called `test`, so it never meets a person's lab. Each test gets it healthy; one that broke it is
followed by a deploy that heals it, which is itself the product's promise.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# One lab per worker that needs one: `test` alone, `testgw0` … side by side.
LAB_NAME = f"test{os.environ.get('PYTEST_XDIST_WORKER', '')}"
# Seconds until a command is taken to hang; a build of the image on a slow machine is the longest.
COMMAND_TIMEOUT_S = 600


@dataclass(frozen=True)
class RunningLab:
    """The lab as its user has it: through the `anycastlab` command."""

    name: str
    inventory: str = "inventory/lab.py"
    data: tuple[str, ...] = ()  # settings of this lab, such as "layout=flat"

    def command(
        self, *arguments: str, check: bool = False, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run `anycastlab ARGUMENTS…` for this lab; with `check`, a failure raises with what it printed."""
        result = subprocess.run(
            [str(Path(sys.executable).with_name("anycastlab")), *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and result.returncode != 0:
            raise AssertionError(
                f"anycastlab {' '.join(arguments)} exited {result.returncode}\n{result.stdout}\n{result.stderr}"
            )
        return result

    def pyinfra(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `pyinfra ARGUMENTS…` in the product's folder."""
        return subprocess.run(
            [str(Path(sys.executable).with_name("pyinfra")), *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ANYCASTLAB_LAB": self.name, "CI": "true"}

    def status(self) -> dict[str, Any]:
        result = self.command("status", "--json", *self._settings)
        assert result.returncode in (0, 2), result.stderr
        return dict(json.loads(result.stdout))

    def healthy(self) -> bool:
        return self.command("status", "--json", *self._settings).returncode == 0

    def up(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self.command("up", *self._settings, *options, check=True)

    @property
    def _settings(self) -> tuple[str, ...]:
        return ("-i", self.inventory, *(part for setting in self.data for part in ("--data", setting)))

    def exec(self, machine: str, *argv: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine of the lab, through Incus' own client: quick, and an independent witness."""
        return subprocess.run(
            ["incus", "exec", "--project", self.project, machine, "--", *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def incus(self, *arguments: str) -> str:
        """Incus' own client; a failure raises."""
        command = ["incus", "--project", self.project, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    @property
    def project(self) -> str:
        return "anycastlab" if self.name == "lab" else f"anycastlab-{self.name}"


def changed_by(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The machines that an `anycastlab up` says it changed, by its closing sentence."""
    (said,) = re.findall(r"(?:; |^)(?:changed: (.*)|nothing changed)\.$", result.stdout, re.MULTILINE | re.IGNORECASE)
    return said.split(", ") if said else []


@dataclass
class Health:
    """What is known of the shared lab. To look at it takes seconds, and so does every machine that nobody needs."""

    there: bool = False
    known: bool = False
    """It was seen healthy, and nothing was done to it since."""


HEALTH = Health()


@pytest.fixture(scope="session")
def health() -> Health:
    return HEALTH


@pytest.fixture(scope="session")
def built_lab(health: Health) -> Iterator[RunningLab]:
    lab = RunningLab(LAB_NAME)
    lab.command("down", "-y", check=True)
    health.there = True
    lab.up()
    yield lab
    if health.there:
        lab.command("down", "-y", check=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """The lab goes as soon as the next test needs none: its machines would compete with those of other tests."""
    yield
    if HEALTH.there and nextitem is not None and "built_lab" not in getattr(nextitem, "fixturenames", ()):
        HEALTH.there = HEALTH.known = False
        RunningLab(LAB_NAME).command("down", "-y", check=True)


@pytest.fixture
def seen_lab(built_lab: RunningLab, health: Health) -> RunningLab:
    """The lab, healthy before the test, which only looks at it."""
    if not health.known and not built_lab.healthy():
        built_lab.up()
    health.there = health.known = True
    return built_lab


@pytest.fixture
def lab(seen_lab: RunningLab, health: Health) -> RunningLab:
    """The lab, healthy before the test, which may do anything to it: the next one has it healed."""
    health.known = False
    return seen_lab
