"""A mistake in an inventory or in group_data is one sentence with file and line, whoever reads the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GOOD = 'nodes = ["@local"]\nrouter = ["@routeros/192.0.2.1"]\n'


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a process: reading an inventory replaces the standard library's sockets, which no test may suffer."""
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that names what is wrong; there is nothing else but pyinfra's own progress."""
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("-->")]
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    (tmp_path / "group_data").mkdir()
    path = tmp_path / "mine.py"
    path.write_text(GOOD, encoding="utf-8")
    return path


CASES = {
    "syntax": (b"nodes = [\n", ".py, line 1: this is not Python: '[' was never closed."),
    "name": (b"x = 1\nnodes = nodez\n", ".py, line 2: name 'nodez' is not defined."),
    "file": (b"\nopen('keys.txt')\n", ".py, line 2: No such file or directory: keys.txt."),
    "import": (b"import nowhere\n", ".py, line 1: No module named 'nowhere'."),
    "deeper": (b"import json\n\njson.loads('')\n", ".py, line 3: JSONDecodeError: Expecting value:"),
    "key": (b"{}['node01']\n", ".py, line 1: KeyError: 'node01'."),
    "connector": (b'nodes = ["@nowhere/x"]\n', ".py cannot be read: Invalid connector: nowhere."),
    "shape": (b'nodes = ["a", ("b", "c")]\n', ".py: ('b', 'c') in the group 'nodes' is no machine."),
    "triple": (b'nodes = ([("a", {}, 1)], {})\n', ".py: ('a', {}, 1) in the group 'nodes' is no machine."),
    "twice": (b'nodes = ["a", ("b", {}), ("a", {"x": 1})]\n', ".py: a stands twice in the group 'nodes'."),
    "nameless": (b'nodes = ["a", ("", {})]\n', ".py: a machine of the group 'nodes' has no name."),
    "exit": (
        b"import sys\nsys.exit(3)\n",
        ".py, line 2: it ends the program (sys.exit), and a file that is read must not",
    ),
    "end": (b"class End(BaseException): ...\nraise End('now')\n", ".py, line 2: End: now."),
    "bytes": (b"\xff\xfe", ".py cannot be read: UnicodeDecodeError:"),
    "ours": (
        b'from anycastlab.lab import machines as lab\nnodes = lab.nodes("node01", "node01")\n',
        "The inventory names node01 twice.",
    ),
}
READ = """
import sys
import pyinfra_cli
from pyinfra.api import State
from pyinfra.context import ctx_state
from anycastlab.errors import AnycastlabError
from anycastlab.inventory_file import read
for path in sys.argv[1:]:
    try:
        with ctx_state.use(State()):
            print(read(path))
    except AnycastlabError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said about each case."""
    folder = tmp_path_factory.mktemp("inventories")
    paths = [folder / f"{name}.py" for name in CASES]
    for path in paths:
        path.write_bytes(CASES[path.stem][0])
    result = run("python", "-c", READ, *map(str, paths))
    assert result.returncode == 0, result.stderr
    return dict(zip(CASES, result.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("case", list(CASES))
def test_a_mistake_in_the_inventory(sentences: dict[str, str], case: str) -> None:
    said = CASES[case][1]
    assert (f"{case}{said}" if said.startswith(".py") else said) in sentences[case]


@pytest.mark.parametrize(
    "command",
    [
        ("anycastlab", "probe", "-i", "INVENTORY"),
        ("anycastlab", "plan", "-i", "INVENTORY"),
        ("anycastlab", "up", "-i", "INVENTORY"),
        ("pyinfra", "INVENTORY", "deploy.py", "--dry"),
    ],
    ids=["probe", "plan", "up", "pyinfra"],
)
def test_a_mistake_in_group_data(inventory: Path, command: tuple[str, ...]) -> None:
    (inventory.parent / "group_data/all.py").write_text("a = 1\nbfd_interval_ms == 100\n", encoding="utf-8")
    program, *arguments = (str(inventory) if word == "INVENTORY" else word for word in command)
    said = "group_data/all.py, line 2: name 'bfd_interval_ms' is not defined."
    assert said in complaint(run(program, *arguments))


def test_a_syntax_error_in_group_data(inventory: Path) -> None:
    (inventory.parent / "group_data/all.py").write_text("a = 1\nresolver = 'unbound\n", encoding="utf-8")
    said = "group_data/all.py, line 2: this is not Python: unterminated string literal"
    assert said in complaint(run("pyinfra", str(inventory), "deploy.py", "--dry"))


REFUSED = {
    "a group data that exits": (("deploy.py", "--dry"), "raise SystemExit\n", "line 1: it ends the program (sys.exit)"),
    "a secret": (("deploy.py", "--dry", "--data", "bgp_password=hush"), "", "bgp_password is a secret, and every user"),
    "an unknown setting": (
        ("deploy.py", "--dry", "--data", "dns_rewrites=x"),
        "",
        "the unknown setting 'dns_rewrites'",
    ),
    "a connector's type": (
        ("teardown.py", "--dry"),
        'ssh_port = "22"\n',
        "The setting 'ssh_port' of 192.0.2.11 is '22'",
    ),
    "a limit": (("deploy.py", "--dry", "--limit", "nosuch"), "", "--limit nosuch: the inventory has no machine and no"),
    "a limit without a name": (("deploy.py", "--dry", "--limit", ""), "", "--limit '': the inventory has no machine"),
    "a program that is not there": (
        ("deploy.py", "--dry", "--data", "adguardhome_source=file:/nonexistent"),
        "",
        "adguardhome_source of node01 names /nonexistent, and there is no such file.",
    ),
    "an exclusion": (
        ("deploy.py", "--dry", "--exclude", "nosuch"),
        "",
        "--exclude nosuch: the inventory has no machine",
    ),
    "a router by SSH": (
        ("deploy.py", "--dry", "--data", "router_tls=maybe"),
        "",
        "The setting 'router_tls' of the router",
    ),
}
BOARD = """
node = {"node_name": "node01", "address": "192.0.2.11", "prefix_length": 24, "gateway": "192.0.2.1",
        "router_id": "192.0.2.1", "router_dns": "192.0.2.1", "lan_networks": ["192.0.2.0/24"],
        "wan_interface": "ether1", "upstreams": ["192.0.2.2"], "service_address": "10.1.9.53"}
nodes = [("192.0.2.11", node)]
router = [("@routeros/192.0.2.1", node)]
"""


@pytest.mark.parametrize("case", list(REFUSED))
def test_plain_pyinfra_is_stopped_before_it_reaches_a_machine(inventory: Path, case: str) -> None:
    options, group_data, said = REFUSED[case]
    inventory.write_text(BOARD, encoding="utf-8")
    (inventory.parent / "group_data/all.py").write_text(group_data, encoding="utf-8")
    result = run("pyinfra", str(inventory), *options)
    assert said in complaint(result)
    assert "hush" not in result.stderr
    assert "Connecting" not in result.stderr


def test_files_without_a_mistake_go_on_to_pyinfra(inventory: Path) -> None:
    # As group_data may: it asks pyinfra about the inventory that is being read.
    (inventory.parent / "group_data/all.py").write_text(
        "from pyinfra import inventory\ncount = len(inventory.hosts)\n", encoding="utf-8"
    )
    result = run("pyinfra", str(inventory), "debug-inventory", "--json")
    assert result.returncode == 0, result.stderr
    assert '"count": 2' in result.stdout
    # What it asks a person, it asks once.
    (inventory.parent / "group_data/all.py").write_text("secret = input('password?')\n", encoding="utf-8")
    command = [str(Path(sys.executable).with_name("pyinfra")), str(inventory), "debug-inventory"]
    asked = subprocess.run(command, cwd=ROOT, input="x\ny\n", capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.count("password?") == 1
    by_name = run("pyinfra", "@local", "debug-inventory")
    assert by_name.returncode == 0, by_name.stderr
