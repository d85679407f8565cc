"""The IPv6 twin of the service address, from the deploy to a client's answer, and back to a lab that has none of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from anycastlab.incus.spec import Lab
from anycastlab.paths import state_dir
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.credentials import credentials
from tests.lab.conftest import RunningLab, changed_by

T = TypeVar("T")

SERVICE, SERVICE6 = "10.1.9.53", "fd00:10:1:9::53"
NODES = {"node01": "fd00:10:1:2::11", "node02": "fd00:10:1:2::12", "node03": "fd00:10:1:2::13"}
FAMILIES = {"-4": SERVICE, "-6": SERVICE6}
PLAIN = RunningLab(f"six{os.environ.get('PYTEST_XDIST_WORKER', '')}", inventory="tests/lab/inventories/mixed/lab.py")
LAB = replace(PLAIN, data=(f"service_address6={SERVICE6}",))
# Longest wait for what takes a second or two on an idle machine.
PATIENCE_S = 20.0
# A dead node is out within BFD's time; BGP's hold time of 9 s would be the other way to notice it.
DEAD_S = 5.0

# Asks from fresh sockets, and prints who answered.
ASK = """
import json, sys
import dns.message, dns.query
transport, server, count = sys.argv[1:]
seen = set()
for _ in range(int(count)):
    reply = getattr(dns.query, transport)(dns.message.make_query("id.anycast.lan", "TXT"), server, timeout=2)
    seen.add(reply.answer[0][0].to_text().strip('"'))
print(json.dumps(sorted(seen)))
"""


@pytest.fixture(scope="module")
def built() -> Iterator[RunningLab]:
    """Built without the twin, then given it: as somebody does who has a lab."""
    down = ("down", "-y", "-i", PLAIN.inventory)
    PLAIN.command(*down, check=True)
    try:
        PLAIN.up()
        LAB.up()
        yield LAB
    finally:
        PLAIN.command(*down, check=True)


@pytest.fixture(scope="module")
def names(built: RunningLab) -> dict[str, str]:
    """Every address by which a route may name a node."""
    return {
        address["local"]: node
        for node in NODES
        for link in json.loads(built.exec(node, "ip", "-json", "address", "show", "dev", "eth0").stdout)
        for address in link["addr_info"]
    }


Hops = Callable[[], dict[str, set[str]]]


@pytest.fixture
def hops(built: RunningLab, names: dict[str, str]) -> Hops:
    """Nodes that the router's kernel sends each family to; at first all of them."""

    def seen() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for family, service in FAMILIES.items():
            shown = json.loads(built.exec("router", "ip", family, "-json", "route", "show", service).stdout or "[]")
            ways = [hop for route in shown for hop in route.get("nexthops", [route])]
            found[family] = {names[way["gateway"]] for way in ways}
        return found

    eventually(seen, everywhere(NODES))
    return seen


def everywhere(nodes: Iterable[str]) -> dict[str, set[str]]:
    return {family: set(nodes) for family in FAMILIES}


def eventually(look: Callable[[], T], wanted: T, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while (seen := look()) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)


def rows(lab: RunningLab, *words: str) -> list[dict[str, str]]:
    """Replies of the router's API."""
    user, password = credentials(lab.project, "anycastlab", state_dir())
    connection = Connection(Target("127.0.0.1", Lab(lab.name).api_port, user, password, tls=False))
    try:
        return [dict(row) for row in connection.call(*words)]
    finally:
        connection.close()


def who_answers(lab: RunningLab, transport: str, server: str = SERVICE6, count: int = 24) -> set[str]:
    shown = lab.exec("client01", "python3", "-c", ASK, transport, server, str(count))
    assert shown.returncode == 0, shown.stderr
    return set(json.loads(shown.stdout))


# With the twin ------------------------------------------------------------------------------------------------------


def test_a_client_is_answered_by_every_node_over_udp_and_tcp(built: RunningLab, hops: Hops) -> None:
    del hops
    eventually(lambda: who_answers(built, "udp"), set(NODES))
    eventually(lambda: who_answers(built, "tcp"), set(NODES))
    for node, address in NODES.items():
        assert who_answers(built, "udp", address, 1) == {node}


def test_the_router_shows_sessions_bfd_and_next_hops_of_both_families(built: RunningLab, hops: Hops) -> None:
    del hops
    sessions = {row["remote.address"]: row["established"] for row in rows(built, "/routing/bgp/session/print")}
    assert {sessions[address] for address in NODES.values()} == {"true"}
    assert len(sessions) == 2 * len(NODES)
    bfd = {row["remote-address"]: row["state"] for row in rows(built, "/routing/bfd/session/print")}
    assert {bfd[address] for address in NODES.values()} == {"up"}
    every = rows(built, "/routing/route/print", f"?dst-address={SERVICE6}/128")
    routes = [row for row in every if "blackhole" not in row]  # that one is of last choice
    assert len(every) == len(routes) + 1
    assert {row["gateway"] for row in routes} == set(NODES.values())
    assert {(row["afi"], row["bgp"], row["active"], row["ecmp"]) for row in routes} == {
        ("ipv6", "true", "true", "true")
    }
    verified = built.command("router", "verify", *built._settings, check=True).stdout
    for node in NODES:
        assert f"ok    {node} bfd over IPv6: up" in verified
    status = built.status()
    assert set(status["router"]["next_hops6"]) == set(NODES.values())
    assert status["service6"]["answered_by"] in NODES


def test_a_second_run_changes_nothing(built: RunningLab) -> None:
    assert changed_by(built.up()) == []


def test_a_drained_node_leaves_both_families_and_keeps_its_address(built: RunningLab, hops: Hops) -> None:
    built.command("drain", "node02", *built._settings, check=True)
    try:
        eventually(hops, everywhere(["node01", "node03"]))
        assert f"{SERVICE6}/128" in built.exec("node02", "ip", "-6", "address", "show", "dev", "anycast0").stdout
        assert who_answers(built, "udp") == {"node01", "node03"}
    finally:
        built.command("undrain", "node02", *built._settings, check=True)
    eventually(hops, everywhere(NODES))


def test_a_frozen_node_leaves_both_families_by_bfd(built: RunningLab, hops: Hops) -> None:
    built.incus("pause", "node01")
    try:
        eventually(hops, everywhere(["node02", "node03"]), DEAD_S)
        assert who_answers(built, "udp") == {"node02", "node03"}
    finally:
        built.incus("resume", "node01")
    eventually(hops, everywhere(NODES))


def test_a_killed_node_leaves_both_families_and_comes_back_with_both(built: RunningLab, hops: Hops) -> None:
    built.incus("stop", "--force", "node03")
    try:
        eventually(hops, everywhere(["node01", "node02"]), DEAD_S)
        assert who_answers(built, "tcp") == {"node01", "node02"}
    finally:
        built.incus("start", "node03")
    eventually(hops, everywhere(NODES))


# And back -----------------------------------------------------------------------------------------------------------


def test_without_the_setting_nothing_of_it_is_left(built: RunningLab, hops: Hops) -> None:
    del hops
    PLAIN.up()
    assert PLAIN.healthy()
    for machine in (*NODES, "router", "client01"):
        assert "fd00:" not in built.exec(machine, "ip", "-6", "address").stdout
        assert "fd00:" not in built.exec(machine, "ip", "-6", "route", "show", "table", "all").stdout
        assert "fd00:" not in built.exec(machine, "ip", "-6", "rule").stdout
        assert built.exec(machine, "grep", "-rl", "--exclude=*.sav", "fd00:", "/etc").stdout == ""
    for menu in ("bgp/connection", "filter/rule", "bfd/configuration"):
        for row in rows(PLAIN, f"/routing/{menu}/print"):
            assert not any("fd00:" in value for value in row.values()), row
    assert not any("anycastlab" in row.get("comment", "") for row in rows(PLAIN, "/ipv6/firewall/filter/print"))
    assert rows(PLAIN, "/ipv6/settings/print")[0]["multipath-hash-policy"] == "l3"
    assert changed_by(PLAIN.up()) == []
