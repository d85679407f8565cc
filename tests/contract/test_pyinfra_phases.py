"""What the deploy relies on in pyinfra: when operations run, in which order, and what they see.

Whole `pyinfra` processes on `@fake` hosts, because order comes from line numbers and only exists in the command line.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Pyinfra = Callable[..., str]


@pytest.fixture
def pyinfra(tmp_path: Path) -> Pyinfra:
    """Runs a deploy file on `@fake` hosts in an empty folder; returns what it printed."""

    def run(deploy: str, *options: str, hosts: tuple[str, ...] = ("@fake/a", "@fake/b"), code: int = 0) -> str:
        (tmp_path / "inventory.py").write_text(f"hosts = {list(hosts)!r}\n")
        (tmp_path / "deploy.py").write_text(deploy)
        result = subprocess.run(
            [Path(sys.executable).with_name("pyinfra"), "inventory.py", "deploy.py", *(options or ("-y",))],
            cwd=tmp_path,
            env={**os.environ, "PYINFRA_FAKE_DELAY": "0", "PYINFRA_FAKE_DELAY_JITTER": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == code, result.stdout
        return result.stdout

    return run


def started(text: str) -> list[str]:
    """Names of the operations in the order they were executed."""
    return re.findall(r"Starting operation: (\w+)", text)


TRAP = """
from pyinfra import host
from pyinfra.api import operation
from pyinfra.operations import server

@operation()
def barrier():
    host.noop("phase")
    return
    yield

if host.name == "@fake/a":
    server.shell(name="prepare", commands=["true"])
    server.shell(name="create", commands=["true"])
{between}
if host.name == "@fake/b":
    server.shell(name="configure", commands=["true"])
"""


def test_order_in_the_file_does_not_order_operations_of_different_hosts(pyinfra: Pyinfra) -> None:
    # The trap: `configure` is written last, and runs before `create`.
    assert started(pyinfra(TRAP.format(between=""))) == ["prepare", "configure", "create"]


def test_an_operation_of_all_hosts_is_a_barrier_and_no_change(pyinfra: Pyinfra) -> None:
    text = pyinfra(TRAP.format(between='barrier(name="barrier")'))
    assert started(text) == ["prepare", "create", "barrier", "configure"]
    assert re.search(r"barrier +2 +- +- +2", text), text


GENERATOR = """
from pathlib import Path
from pyinfra import host, state
from pyinfra.api import FunctionCommand, operation

def note(state, host, word):
    say(word)
    return True

def say(word):
    with Path("said").open("a") as said:
        said.write(word + "\\n")

@operation()
def steps():
    say("before")
    yield FunctionCommand(note, ("first command",), {})
    say("between")
    yield FunctionCommand(note, ("second command",), {})

steps(name="steps")
"""


def test_preparing_runs_a_generator_only_to_its_first_yield(pyinfra: Pyinfra, tmp_path: Path) -> None:
    pyinfra(GENERATOR, "--dry", hosts=("@fake/a",))
    assert (tmp_path / "said").read_text().split("\n")[:-1] == ["before"]


def test_executing_runs_it_again_from_the_top(pyinfra: Pyinfra, tmp_path: Path) -> None:
    # Asked for with --yes only: a run that checks for changes first would say "before" twice.
    pyinfra(GENERATOR, "-y", hosts=("@fake/a",))
    said = (tmp_path / "said").read_text().split("\n")[:-1]
    assert said[-4:] == ["before", "first command", "between", "second command"]


FACTS = """
from pathlib import Path
from pyinfra import host
from pyinfra.facts.files import File
from pyinfra.facts.server import Which, LinuxName
Path("facts").write_text(repr((host.get_fact(File, path="/etc/x"), host.get_fact(Which, command="frr"),
                               host.get_fact(LinuxName))))
"""


def test_a_machine_that_answers_nothing_gives_every_fact_its_default(pyinfra: Pyinfra, tmp_path: Path) -> None:
    pyinfra(FACTS, "--dry", hosts=("@fake/a",))
    assert (tmp_path / "facts").read_text() == "(None, None, None)"


def test_facts_are_asked_each_time(pyinfra: Pyinfra) -> None:
    text = pyinfra(
        "from pyinfra import host\nfrom pyinfra.facts.server import Hostname\n"
        "for _ in range(3): host.get_fact(Hostname)\n",
        "--dry",
        "-vv",
        hosts=("@fake/a",),
    )
    assert text.count(">>> ") >= 3 or text.count("Loaded fact") >= 3, text


FALSE = """
from pyinfra.api import FunctionCommand, operation

def {name}(state, host):
    {body}

@operation()
def act():
    yield FunctionCommand({name}, (), {{}})

act(name="act")
"""


def test_a_function_that_answers_false_is_a_clean_failure(pyinfra: Pyinfra) -> None:
    text = pyinfra(FALSE.format(name="no", body="return False"), hosts=("@fake/a",), code=1)
    assert "Traceback" not in text
    assert "Error: executed 0 commands" in text


def test_a_function_that_raises_prints_a_traceback(pyinfra: Pyinfra) -> None:
    # Why our operations catch their own errors.
    text = pyinfra(FALSE.format(name="no", body="raise ValueError('x')"), hosts=("@fake/a",), code=1)
    assert "Traceback" in text


INSTANCE = """
from ipaddress import IPv4Address
from pyinfra import host
from anycastlab.incus.operations import instance
from anycastlab.incus.spec import InstanceSpec, Lab, Nic
lab = Lab("zz")
spec = InstanceSpec("node01", (Nic("eth0", lab.bridge("dns"), IPv4Address("10.1.2.11"), 24),))
instance(name="Instance", spec=spec, image="some-image", lab=lab)
"""


def test_our_instance_operation_plans_on_a_fake_host(pyinfra: Pyinfra) -> None:
    text = pyinfra(INSTANCE, "--dry", "--diff", hosts=("@fake/node01",))
    assert "Will create the container" in text
    assert "+ bridge zz-dns" in text
