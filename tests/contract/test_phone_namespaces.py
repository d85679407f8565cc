"""What the phone relies on in a real kernel, in network namespaces of the test: nothing leaves them.

client ── router ══ two nodes        equal-cost routes to one service address, spread by flow
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from anycastlab.phone.__main__ import ERROR, LATE, OK
from anycastlab.phone.records import Outcome, Record, read_csv

SERVICE = "10.1.9.53"
ROOT = Path(__file__).resolve().parents[2]

# Answers every name, its own identity included, and writes down what it was asked. An argument makes it lose all
# ordinary queries: a gray node.
NODE = """
import socket, struct, sys
name, log, gray = sys.argv[1].encode(), open(sys.argv[3], "w", buffering=1), len(sys.argv) > 4
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[2], 53))
print("ready", flush=True)
while True:
    query, peer = server.recvfrom(4096)
    identity = b"\\x02id\\x07anycast" in query
    log.write(("identity" if identity else query[13:13 + query[12]].decode()) + "\\n")
    if gray and not identity:
        continue
    kind, data = (16, bytes([len(name)]) + name) if identity else (1, bytes([192, 0, 2, 1]))
    record = b"\\xc0\\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data
    server.sendto(query[:2] + b"\\x81\\x80\\0\\1\\0\\1\\0\\0\\0\\0" + query[12:] + record, peer)
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass
class Namespaces:
    """Namespaces of this test process, by role."""

    prefix: str

    def name(self, role: str) -> str:
        return f"{self.prefix}-{role}"

    def command(self, role: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.name(role), *command]

    def add(self, role: str) -> None:
        ip("netns", "add", self.name(role))
        ip("-n", self.name(role), "link", "set", "lo", "up")

    def wire(self, one: str, one_address: str, other: str, other_address: str) -> None:
        """A cable between two namespaces; each end is named after the other side."""
        ip("link", "add", other, "netns", self.name(one), "type", "veth", "peer", one, "netns", self.name(other))
        for role, link, address in ((one, other, one_address), (other, one, other_address)):
            ip("-n", self.name(role), "address", "add", f"{address}/24", "dev", link)
            ip("-n", self.name(role), "link", "set", link, "up")


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    made = Namespaces(f"phone{os.getpid()}")
    roles = ("client", "router", "node01", "node02")
    try:
        for role in roles:
            made.add(role)
        made.wire("client", "10.1.1.101", "router", "10.1.1.1")
        for number, role in ((11, "node01"), (12, "node02")):
            made.wire(role, f"10.1.{number}.2", "router", f"10.1.{number}.1")
            ip("-n", made.name(role), "address", "add", f"{SERVICE}/32", "dev", "lo")
            ip("-n", made.name(role), "route", "add", "default", "via", f"10.1.{number}.1")
        ip("-n", made.name("client"), "route", "add", "default", "via", "10.1.1.1")
        hops = [word for n in (11, 12) for word in ("nexthop", "via", f"10.1.{n}.2")]
        ip("-n", made.name("router"), "route", "add", f"{SERVICE}/32", *hops)
        for setting in ("net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1"):
            subprocess.run(made.command("router", "sysctl", "-q", "-w", setting), check=True)
        yield made
    finally:
        for role in roles:
            subprocess.run(["ip", "netns", "delete", made.name(role)], check=False, capture_output=True)


@pytest.fixture
def names(tmp_path: Path) -> Path:
    file = tmp_path / "names"
    file.write_text("{random}.example\n")
    return file


def start_node(namespaces: Namespaces, role: str, address: str, log: Path, *gray: str) -> subprocess.Popen[str]:
    command = namespaces.command(role, sys.executable, "-c", NODE, role, address, str(log), *gray)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def run_phone(namespaces: Namespaces, *options: str) -> subprocess.CompletedProcess[str]:
    command = namespaces.command("client", sys.executable, "-m", "anycastlab.phone", "--server", SERVICE, *options)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)


def measure(namespaces: Namespaces, folder: Path, names: Path, *gray: str) -> tuple[list[Record], dict[str, str]]:
    """Records of a run of 200 queries, and which node each label really went to."""
    logs = {role: folder / role for role in ("node01", "node02")}
    nodes = [
        start_node(namespaces, role, SERVICE, log, *(gray if role == "node01" else ())) for role, log in logs.items()
    ]
    out = folder / "q.csv"
    try:
        done = run_phone(
            namespaces, "--rate", "100", "--duration", "2", "--mix", str(names), "--csv", str(out),
            "--timeout", "0.5", "--stall", "0.4", "--late-window", "0.5", "--quiet",
        )  # fmt: skip
    finally:
        for node in nodes:
            node.terminate()
            node.communicate(timeout=10)
    assert done.returncode in (OK, LATE), done.stderr
    went = {line: role for role, log in logs.items() for line in log.read_text().split() if line != "identity"}
    return list(read_csv(out.read_text().splitlines(keepends=True))), went


def test_the_identity_query_reaches_the_node_that_serves_the_ordinary_one(
    namespaces: Namespaces, tmp_path: Path, names: Path
) -> None:
    records, went = measure(namespaces, tmp_path, names)

    assert {r.outcome for r in records} == {Outcome.ANSWERED}
    wrong = [r for r in records if r.node != went[r.name.partition(".")[0]]]
    assert wrong == []
    # and the flows were spread, so that this could have failed
    assert min(Counter(r.node for r in records).values()) > 40


def test_a_gray_node_is_named_by_the_identity_query(namespaces: Namespaces, tmp_path: Path, names: Path) -> None:
    records, went = measure(namespaces, tmp_path, names, "gray")

    lost = [r for r in records if r.outcome is Outcome.LOST]
    assert len(lost) > 40
    assert {r.node for r in lost} == {"node01"}
    assert {went[r.name.partition(".")[0]] for r in lost} == {"node01"}


def redirect_port_53(namespaces: Namespaces) -> None:
    """What an intercepting router does: every query, wherever it goes, ends at node01."""
    rules = "add table ip x; add chain ip x p { type nat hook prerouting priority -100; };"
    rules += "add rule ip x p udp dport 53 dnat to 10.1.11.2"
    subprocess.run(namespaces.command("router", "nft", rules), check=True)


@pytest.mark.parametrize("intercepted", [True, False])
def test_an_intercepting_router_is_refused_and_an_honest_one_is_not(
    namespaces: Namespaces, tmp_path: Path, names: Path, intercepted: bool
) -> None:
    node = start_node(namespaces, "node01", "10.1.11.2", tmp_path / "log")
    out = tmp_path / "s.json"
    try:
        if intercepted:
            redirect_port_53(namespaces)
        began = time.monotonic()
        done = run_phone(
            namespaces, "--rate", "20", "--duration", "0.2", "--mix", str(names), "--json-summary", str(out),
            "--timeout", "0.2", "--stall", "0.1", "--late-window", "0.1", "--quiet",
        )  # fmt: skip
        took_s = time.monotonic() - began
    finally:
        node.terminate()
        node.communicate(timeout=10)

    if intercepted:
        assert done.returncode == ERROR
        assert done.stderr.startswith("error: Port 53 is intercepted: a query to 192.0.2.53, where nothing lives,")
        assert out.read_text() == ""
    else:
        assert done.returncode in (OK, LATE), done.stderr
        assert json.loads(out.read_text())["counts"]["sent"] == 4
    assert took_s < 20
