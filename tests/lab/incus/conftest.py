"""One small instance for all tests of this folder that only need some machine, in a lab of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from anycastlab.image.build import ensure
from anycastlab.incus import exec as incus_exec
from anycastlab.incus import instances, labs
from anycastlab.incus.rest import Rest, connect
from anycastlab.incus.spec import InstanceSpec, Lab, Nic

LAB = Lab(f"tb{os.environ.get('PYTEST_XDIST_WORKER', '')}")  # one per worker
RUN_TIMEOUT_S = 120


def spec_of(name: str, octet: int) -> InstanceSpec:
    return InstanceSpec(name, (Nic("eth0", LAB.bridge("dns"), IPv4Address(f"10.1.2.{octet}"), 24),), memory_mib=256)


@pytest.fixture(scope="session")
def image() -> str:
    return ensure()


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    """The API, in the project of a lab that is empty before and after."""
    rest = connect(None, LAB.project)
    labs.clear_lab(rest, LAB)
    yield rest
    incus_exec.flush()
    labs.clear_lab(rest, LAB)
    assert labs.survey(rest, LAB) == labs.Inventory()


@pytest.fixture(scope="module")
def box(rest: Rest, image: str) -> str:
    """Name of a running instance."""
    spec = spec_of("box", 200)
    labs.ensure_lab_networks(rest, LAB)
    instances.create(rest, spec, LAB, image)
    instances.start(rest, spec.name)
    instances.wait_booted(rest, spec.name)
    return spec.name


@dataclass(frozen=True)
class Run:
    """A finished pyinfra process: `text` is what the person saw."""

    code: int
    text: str

    def count(self, column: str) -> int:
        """A number of the last table's grand total: Hosts, Success, Error or No Change."""
        total = next(line for line in reversed(self.text.splitlines()) if "Grand total" in line).split()[2:]
        value = total[("Hosts", "Success", "Error", "No Change").index(column)]
        return 0 if value == "-" else int(value)


@pytest.fixture
def pyinfra(tmp_path: Path, image: str) -> Callable[..., Run]:
    """Runs pyinfra with an inventory of host names and the text of a deploy file."""

    def run(hosts: list[str], deploy: str, *options: str, environment: dict[str, str] | None = None) -> Run:
        (tmp_path / "inventory.py").write_text(f"hosts = {hosts!r}\n")
        (tmp_path / "deploy.py").write_text(f"IMAGE = {image!r}\n{deploy}")
        result = subprocess.run(
            [Path(sys.executable).with_name("pyinfra"), "inventory.py", "deploy.py", *options],
            cwd=tmp_path,
            env={**os.environ, "ANYCASTLAB_LAB": LAB.name, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        return Run(result.returncode, result.stdout)

    return run
