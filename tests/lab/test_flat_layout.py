"""Layout `flat`, nodes among the clients, beside `routed`: what a dead node costs a client warmed on the path.

The lab is built in `routed`, measured, moved to `flat`, and measured again. Then the two protections of `flat` are
taken away one at a time: the outage and the hang are there, so the tests that find none could have found them.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from anycastlab.incus.desired import host_interface
from anycastlab.incus.spec import Lab
from anycastlab.node.layout import RULE_PRIORITY
from anycastlab.paths import state_dir
from anycastlab.phone.records import Record, read_jsonl
from anycastlab.report.statistics import outages
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.credentials import credentials
from anycastlab.site.parts import Bfd
from tests.lab.conftest import RunningLab, changed_by

SERVICE = "10.1.9.53"
FLAT_ADDRESSES = {"node01": "10.1.1.11", "node02": "10.1.1.12"}
ROUTED = RunningLab("flat", inventory="tests/lab/inventories/lab.py")
FLAT = replace(ROUTED, data=("layout=flat",))

PHONE = "/usr/local/lib/anycastlab/phone.pyz"
# Questions per second, all on one socket: the client's kernel has every reason to remember a redirect.
RATE = 25
SAMPLE_S = 1.0
# Longest wait for what takes under a second on an idle machine.
PATIENCE_S = 10.0
# A client that clings to a dead node does so for five minutes; after this long without an answer the point is made.
CLINGS_S = 6.0
# What killing a node may cost beyond BFD's detection time on a busy machine: the router's own work, one interval.
ALLOWANCE_S = 1.0
MOST_OUTAGE_S = Bfd().detection_s + ALLOWANCE_S

# Asks over TCP or UDP from fresh sockets, and prints which nodes answered and how many questions had no answer.
ASK = """
import collections, json, sys
import dns.exception, dns.message, dns.query, dns.rdatatype
transport, server, name, kind, count = sys.argv[1:]
seen = collections.Counter()
for _ in range(int(count)):
    question = dns.message.make_query(name, kind)
    try:
        reply = getattr(dns.query, transport)(question, server, timeout=1)
        seen[reply.answer[0][0].to_text().split('"')[1]] += 1
    except (dns.exception.Timeout, OSError):
        seen["nobody"] += 1
print(json.dumps(seen))
"""
# As a stub resolver does: UDP first, TCP when the answer did not fit.
ASK_BIG = """
import dns.message, dns.query
reply, tcp = dns.query.udp_with_fallback(dns.message.make_query("big.lab.example", "TXT"), "10.1.9.53", timeout=3)
print(tcp, len(reply.to_wire()))
"""


@dataclass(frozen=True)
class Killed:
    """What the client had of a node's end; seconds."""

    node: str
    outage_s: float
    lost: int
    answered_by_others_after: bool


@pytest.fixture(scope="module")
def routed_outage_s() -> Iterator[float]:
    """A client's outage in the layout `routed`. The lab stays, with one node dead."""
    ROUTED.command("down", "-y", "-i", ROUTED.inventory, check=True)
    try:
        ROUTED.up()
        yield kill_the_serving_node(ROUTED).outage_s
    finally:
        ROUTED.command("down", "-y", "-i", ROUTED.inventory, check=True)


@pytest.fixture(scope="module")
def moved_lab(routed_outage_s: float) -> RunningLab:  # noqa: ARG001  (measured before the lab is moved)
    """The same lab after the change of layout that a person would make."""
    FLAT.up("--data", "rebuild=all")
    return FLAT


@pytest.fixture
def lab(moved_lab: RunningLab) -> RunningLab:
    """The lab in the layout `flat`, healthy before the test."""
    if not moved_lab.healthy():
        moved_lab.up()
    return moved_lab


# What a household gets ----------------------------------------------------------------------------------------------


def test_flat_is_healthy_and_a_second_run_changes_nothing(lab: RunningLab) -> None:
    status = lab.status()
    assert {node["name"]: node["address"] for node in status["nodes"]} == FLAT_ADDRESSES
    assert status["router"]["next_hops"] == list(FLAT_ADDRESSES.values())
    assert status["router"]["redirect_active"] is False
    assert changed_by(lab.up()) == []


def test_local_names_are_asked_at_the_routers_address_among_the_clients(lab: RunningLab) -> None:
    for node, address in FLAT_ADDRESSES.items():
        probe = json.loads(lab.exec(node, "cat", "/etc/anycastlab/probe.json").stdout)
        assert (probe["address"], probe["router_dns"], probe["frr"]["neighbors"]) == (address, "10.1.1.1", ["10.1.1.1"])
        assert [peer["address"] for peer in probe["peers"]] == [a for a in FLAT_ADDRESSES.values() if a != address]
    assert who_answers(lab, "udp", 16).keys() == FLAT_ADDRESSES.keys()


def test_another_layout_without_a_rebuild_is_refused_in_one_sentence(lab: RunningLab) -> None:
    refused = ROUTED.command("up", "-i", ROUTED.inventory)
    output = refused.stdout + refused.stderr
    assert refused.returncode == 1
    assert output.count("node01 is on flat-lan and belongs on flat-dns") == 1
    assert "`--data rebuild=all`" in output
    assert lab.healthy()


def test_a_warmed_client_loses_no_more_than_in_routed(lab: RunningLab, routed_outage_s: float) -> None:
    killed = kill_the_serving_node(lab)
    assert killed.answered_by_others_after
    assert killed.outage_s <= MOST_OUTAGE_S, killed
    assert routed_outage_s <= MOST_OUTAGE_S


def test_tcp_and_large_answers_pass_the_stateful_router(lab: RunningLab) -> None:
    assert "nobody" not in who_answers(lab, "tcp", 16)
    assert who_answers(lab, "tcp", 16).keys() == FLAT_ADDRESSES.keys()
    for _ in range(6):
        tcp, size = lab.exec("client01", "python3", "-c", ASK_BIG).stdout.split()
        assert tcp == "True"
        assert int(size) > 2000
    # The rule is there to be broken: the router does drop what it has no whole connection of.
    assert "ct state invalid" in lab.exec("router", "nft", "list", "chain", "ip", "anycastlab", "filter_forward").stdout


# Without the protections --------------------------------------------------------------------------------------------


def test_control_with_redirects_on_the_warmed_client_stays_with_the_dead_node(lab: RunningLab) -> None:
    with redirects_on(lab):
        killed = kill_the_serving_node(lab, after_s=CLINGS_S + 2, directly=True)
        assert not killed.answered_by_others_after
        assert killed.outage_s >= CLINGS_S, killed


def test_control_without_policy_routing_udp_works_and_tcp_hangs(lab: RunningLab) -> None:
    with policy_routing_bypassed(lab):
        assert "nobody" not in who_answers(lab, "udp", 8)
        assert who_answers(lab, "tcp", 4) == {"nobody": 4}
        assert lab.exec("client01", "python3", "-c", ASK_BIG).returncode != 0
    assert "nobody" not in who_answers(lab, "tcp", 4)


# How ----------------------------------------------------------------------------------------------------------------


def kill_the_serving_node(lab: RunningLab, after_s: float = 2.5, directly: bool = False) -> Killed:
    """A phone asks over one flow; the node that serves it loses its power; the phone goes on for `after_s`.

    `directly`: waits until the client's kernel has learned to go straight to a node. Otherwise it must not have.
    """
    duration_s = 3 * PATIENCE_S + after_s
    argv = ["--server", SERVICE, "--rate", str(RATE), "--duration", str(duration_s), "--one-flow", "--quiet"]
    argv += ["--timeout", "1", "--late-window", "0.1", "--jsonl", "/tmp/flow.jsonl", "--normal-priority"]
    argv += ["--no-interception-check"]
    phone = subprocess.Popen(
        ["incus", "exec", "--project", lab.project, "client01", "--", "python3", PHONE, *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: serving_node(lab) is not None, "no node got the phone's questions")
        if directly:
            eventually(lambda: way_of(lab) in FLAT_ADDRESSES.values(), "the client was told no shorter way")
        else:
            assert way_of(lab) == "10.1.1.1"
        node = serving_node(lab)
        assert node is not None
        lab.incus("stop", "--force", node)
        time.sleep(after_s)
        lab.exec("client01", "pkill", "-INT", "-f", "flow.jsonl")
        phone.wait(PATIENCE_S)
    finally:
        phone.kill()
        phone.wait()
    records = list(read_jsonl(lab.exec("client01", "cat", "/tmp/flow.jsonl").stdout.splitlines()))
    return judged(node, records)


def judged(node: str, records: list[Record]) -> Killed:
    """The flow was served by `node` until it died: a proof that the fault hit this very client."""
    found = outages(records)
    worst = max(found, key=lambda stretch: stretch.seconds, default=None)
    # A router that is quick enough loses no question of the flow; then it is the first answer of another node.
    moved = (record.intended_ns for record in records if record.node not in (node, "", None))
    began_ns = worst.began_ns if worst else next(moved, records[-1].intended_ns)
    before = {record.node for record in records if record.intended_ns < began_ns and record.node}
    assert before == {node}, f"{node} was killed, but the flow was served by {before}"
    after = {r.node for r in records if r.intended_ns >= began_ns and r.latency_ms is not None}
    assert worst or node not in after, f"{node} was killed, and answered on"
    return Killed(node, worst.seconds if worst else 0.0, sum(s.bad for s in found), bool(after - {node, ""}))


def serving_node(lab: RunningLab) -> str | None:
    """The node that the phone's packets go to; None when no node gets so many more than the others."""

    def packets() -> dict[str, int]:
        ends = {node: host_interface(Lab(lab.name), node, "eth0") for node in FLAT_ADDRESSES}
        return {n: int(Path(f"/sys/class/net/{end}/statistics/tx_packets").read_text()) for n, end in ends.items()}

    before = packets()
    time.sleep(SAMPLE_S)
    *_, second, first = sorted((count - before[node], node) for node, count in packets().items())
    return first[1] if first[0] - second[0] >= RATE * SAMPLE_S else None


def way_of(lab: RunningLab) -> str:
    """Whom the client's kernel hands a packet for the service address: the router, or a node it was told of."""
    shown = lab.exec("client01", "ip", "route", "get", SERVICE).stdout
    found = re.search(r"via (\S+)", shown)
    assert found, shown
    return found[1]


def who_answers(lab: RunningLab, transport: str, count: int) -> dict[str, int]:
    argv = ["python3", "-c", ASK, transport, SERVICE, "id.anycast.lan", "TXT", str(count)]
    return dict(json.loads(lab.exec("client01", *argv).stdout))


@contextmanager
def redirects_on(lab: RunningLab) -> Iterator[None]:
    """The router tells of shorter ways, set behind the deploy's back; afterwards not, and the client forgets."""
    user, password = credentials(lab.project, "anycastlab", state_dir())
    connection = Connection(Target("127.0.0.1", Lab(lab.name).api_port, user, password, tls=False))
    try:
        connection.call("/ip/settings/set", "=send-redirects=yes")
        yield
    finally:
        connection.call("/ip/settings/set", "=send-redirects=no")
        connection.close()
        lab.exec("client01", "ip", "route", "flush", "cache")


@contextmanager
def policy_routing_bypassed(lab: RunningLab) -> Iterator[None]:
    """Nodes answer the shortest way, past the router: a rule ahead of theirs, which they would put back at once."""
    rule = ("priority", str(RULE_PRIORITY - 1), "from", SERVICE, "lookup", "main")
    try:
        for node in FLAT_ADDRESSES:
            assert lab.exec(node, "ip", "rule", "add", *rule).returncode == 0
        yield
    finally:
        for node in FLAT_ADDRESSES:
            lab.exec(node, "ip", "rule", "del", *rule)


def eventually(good: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not good():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.1)
