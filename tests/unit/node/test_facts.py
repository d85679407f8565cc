"""The state of a node, read from a machine as it was printed there; and the script itself, on this machine."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from anycastlab.node import facts, layout
from anycastlab.node.facts import NodeFact, NodeState
from anycastlab.shell_answer import BEGIN, END


def b64(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


ELF_ARM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00"
PRINTED = [
    "present\t1",
    "hostname\tnode01",
    "ipv4_forwarding\t0",
    "ipv6_forwarding\t1",
    "kernel_arch\tx86_64",
    "modalias\t",
    "cpuinfo\t",
    f"elf\t{b64(ELF_ARM)}",
    "stat\t640 frr frr /etc/frr/frr.conf",
    f"sha256\t{'a' * 64} /etc/frr/frr.conf",
    "unit\tId=frr.service",
    "unit\tLoadState=loaded",
    "unit\tActiveState=active",
    "unit\tUnitFileState=enabled",
    "unit\tNeedDaemonReload=yes",
    "unit\t",
    "unit\tId=unbound.service",
    "unit\tLoadState=not-found",
    "unit\tActiveState=inactive",
    "unit\tUnitFileState=",
    "unit\tNeedDaemonReload=no",
    "package\tfrr installed",
    "package\tunbound not-installed",
    "link\tup",
    "prefix\t10.1.9.53/32",
    "rule\tfrom 10.1.9.53 lookup 953",
    "way\t10.1.2.1 eth0",
    "interface\teth0",
    "interface\tlo",
    "address\teth0 10.1.2.11/24",
    "frr_own\t" + b64("hostname pi\nno ip forwarding"),
    "drained\tdeploy",
    "applied\t" + b64('{"frr.service": "d1"}'),
    f"adguard\t{b64('schema_version: 34')}",
    f"running\t{b64('frr version 10.3')}",
]


def test_everything_is_read() -> None:
    state = facts.parse(PRINTED)
    assert state.hostname == "node01"
    assert (state.ipv4_forwarding, state.ipv6_forwarding) == (False, True)
    assert (state.evidence.kernel, state.evidence.userland) == ("x86_64", "aarch64")
    assert state.files["/etc/frr/frr.conf"] == facts.FileState(0o640, "frr", "frr", "a" * 64)
    assert state.unit("frr.service") == facts.UnitState("active", "enabled", "loaded", True)
    assert not state.unit("unbound.service").running
    assert state.packages == {"frr"}
    assert state.link_prefixes == ("10.1.9.53/32",)
    assert state.rules == ("from 10.1.9.53 lookup 953",)
    assert state.ways == ("10.1.2.1 eth0",)
    assert state.interfaces == {"eth0", "lo"}
    assert state.addresses == (("eth0", "10.1.2.11/24"),)
    assert state.frr_own == "hostname pi\nno ip forwarding"
    assert state.drained_by == "deploy"
    assert state.applied == {"frr.service": "d1"}
    assert state.adguard_yaml == "schema_version: 34"
    assert state.running_config == "frr version 10.3"


def test_a_machine_that_is_not_there_is_empty() -> None:
    assert facts.parse([]) == NodeState() == NodeFact.default()
    assert not NodeState().serving


def test_serving_needs_a_resolver_and_the_link() -> None:
    up = facts.UnitState("active", "enabled", "loaded", False)
    assert NodeState(link_up=True, units={"adguardhome.service": up}).serving
    assert NodeState(link_up=True, units={"unbound.service": up}).serving
    assert not NodeState(link_up=False, units={"unbound.service": up}).serving
    assert not NodeState(link_up=True).serving


def test_garbage_is_a_fact_error() -> None:
    with pytest.raises(facts.FactProcessError):
        NodeFact().process([BEGIN, "present\t1", "hostname\tx", "applied\tbm90IGpzb24=", f"{END} 0"])


def test_an_endless_file_of_adguard_home_is_refused_and_never_cut() -> None:
    huge = b64("#" * ((8 << 20) + 1))
    with pytest.raises(facts.FactProcessError, match=r"AdGuardHome\.yaml is damaged: it is larger than 8 MiB"):
        NodeFact().process([BEGIN, *PRINTED[:-2], f"adguard\t{huge}", f"{END} 0"])


def test_the_script_runs_on_a_machine_that_is_no_node(tmp_path: Path) -> None:
    # given a file that is there, one that is not, and no unit, link or package of ours
    file = tmp_path / "there"
    file.write_text("x")
    script = facts.script((str(file), str(tmp_path / "gone")), ("no-such.service",), ("no-such-package",))
    # when the script runs under this machine's own shell
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    # then it says what is there and nothing else
    state = facts.parse(done.stdout.splitlines())
    assert state.present
    assert list(state.files) == [str(file)]
    assert state.files[str(file)].sha256 == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert state.packages == frozenset()
    assert state.evidence.kernel == state.evidence.userland
    assert "lo" in state.interfaces
    assert ("lo", "127.0.0.1/8") in state.addresses


def test_a_kernel_without_ipv6_forwards_none_and_frr_says_nothing_of_it() -> None:
    state = facts.parse([line.replace("ipv6_forwarding\t1", "ipv6_forwarding\t") for line in PRINTED])
    assert state.ipv6_forwarding


def test_the_fact_asks_for_what_it_is_given() -> None:
    command = str(NodeFact().command(("/etc/a b",), layout.UNITS, ("frr",)))
    assert "'/etc/a b'" in command
    assert "anycast0.service" in command


@pytest.mark.parametrize(
    ("address", "there"), [("127.0.0.1", True), ("127.0.0.2", False), ("127.0.0", False), ("27.0.0.1", False)]
)
def test_an_address_is_recognised_whole(address: str, there: bool) -> None:
    fact = facts.HasAddressFact()
    command = fact.command(address).get_raw_value()
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert fact.process(result.stdout.splitlines()) is there
