"""The main job on a real lab: it comes up, stays as it is, heals, is rebuilt while it answers, leaves no trace."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anycastlab.incus.spec import Lab
from anycastlab.paths import state_dir
from tests.lab.conftest import ROOT, RunningLab, changed_by

NODES = ("node01", "node02", "node03")
NODE_ADDRESSES = ["10.1.2.11", "10.1.2.12", "10.1.2.13"]

ASK = """
import sys, dns.message, dns.query, dns.rcode
server, name, kind = sys.argv[1:]
reply, tcp = dns.query.udp_with_fallback(dns.message.make_query(name, kind, want_dnssec=True), server, timeout=3)
print(dns.rcode.to_text(reply.rcode()), tcp, *[r.to_text() for s in reply.answer for r in s])
"""


def ask(lab: RunningLab, server: str, name: str, kind: str = "A") -> str:
    result = lab.exec("client01", "python3", "-c", ASK, server, name, kind)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def started_at(lab: RunningLab) -> dict[str, str]:
    """When each service of each machine was started: the witness that nothing was restarted."""
    units = {
        **dict.fromkeys(NODES, "adguardhome frr anycastlab-probe"),
        "router": "anycastlab-router bird",
        "upstream": "knot dnsdist",
    }
    show = "systemctl show -p ActiveEnterTimestampMonotonic,MainPID "
    return {machine: lab.exec(machine, "sh", "-c", show + names).stdout for machine, names in units.items()}


# What a household gets ----------------------------------------------------------------------------------------------


def test_status_of_a_finished_lab(seen_lab: RunningLab) -> None:
    status = seen_lab.status()
    assert [node["name"] for node in status["nodes"]] == list(NODES)
    for node in status["nodes"]:
        assert (node["bgp"], node["bfd"], node["announced"], node["answers"]) == ("Established", "up", True, True)
        assert node["resolver"] == "adguardhome"
        assert node["version"].startswith("v0.107.")
        assert node["architecture"] == os.uname().machine
    assert status["router"]["next_hops"] == NODE_ADDRESSES
    assert status["router"]["redirect_active"] is False
    assert status["service"]["address"] == "10.1.9.53"
    assert status["service"]["answered_by"] in NODES


@pytest.mark.parametrize("server", ["10.1.9.53", *NODE_ADDRESSES])
def test_every_way_in_gives_the_same_real_answers(seen_lab: RunningLab, server: str) -> None:
    assert ask(seen_lab, server, "www.lab.example") == "NOERROR False 198.18.0.10"
    assert ask(seen_lab, server, f"x{time.time_ns()}.rnd.lab.example") == "NOERROR False 198.18.1.1"
    assert ask(seen_lab, server, "nas.lan") == "NOERROR False 10.1.1.20"
    assert ask(seen_lab, server, f"x{time.time_ns()}.lan").startswith("NXDOMAIN")
    assert ask(seen_lab, server, "20.1.1.10.in-addr.arpa", "PTR") == "NOERROR False nas.lan."
    assert ask(seen_lab, server, "ads.lab.example") == "NOERROR False 0.0.0.0"
    big = ask(seen_lab, server, "big.lab.example", "TXT")
    assert big.startswith("NOERROR True")
    assert len(big) > 2000
    assert "RRSIG" in ask(seen_lab, server, "www.signed.example") or " 13 " in ask(
        seen_lab, server, "www.signed.example"
    )


def test_the_routers_kernel_spreads_over_three_nodes(seen_lab: RunningLab) -> None:
    route = seen_lab.exec("router", "ip", "route", "show", "10.1.9.53").stdout
    assert sorted(re.findall(r"via (\S+)", route)) == NODE_ADDRESSES
    seen = {ask(seen_lab, "10.1.9.53", "id.anycast.lan", "TXT").split('"')[1] for _ in range(24)}
    assert seen == set(NODES)


def test_the_last_resort_answers_when_all_nodes_are_stopped(lab: RunningLab) -> None:
    for node in NODES:
        lab.incus("stop", "--force", node)
    deadline = time.monotonic() + 30
    while not lab.status()["router"]["redirect_active"] and time.monotonic() < deadline:
        time.sleep(0.5)
    assert ask(lab, "10.1.9.53", "nas.lan") == "NOERROR False 10.1.1.20"
    assert ask(lab, "10.1.9.53", "www.lab.example") == "NOERROR False 198.18.0.10"
    assert lab.status()["service"]["answered_by"] == "router"


def test_shell_passes_input_output_and_exit_code(seen_lab: RunningLab) -> None:
    result = seen_lab.command("shell", "node02", "--", "sh", "-c", "hostname; exit 7")
    assert (result.stdout, result.returncode) == ("node02\n", 7)
    unknown = seen_lab.command("shell", "node99", "--", "true")
    assert unknown.returncode == 1
    assert "node99" in unknown.stderr


def test_nothing_leaves_the_lab(seen_lab: RunningLab) -> None:
    for bridge in (f"{seen_lab.name}-wan", f"{seen_lab.name}-lan", f"{seen_lab.name}-dns"):
        addresses = subprocess.run(["ip", "-j", "address", "show", bridge], capture_output=True, text=True, check=True)
        scopes = [a["scope"] for link in json.loads(addresses.stdout) for a in link["addr_info"]]
        assert "global" not in scopes
    nobody = seen_lab.exec("client01", "python3", "-c", ASK, "198.51.100.53", "www.lab.example", "A")
    assert nobody.returncode != 0


# Again --------------------------------------------------------------------------------------------------------------


def test_a_second_run_changes_and_restarts_nothing(seen_lab: RunningLab) -> None:
    before = started_at(seen_lab)
    result = seen_lab.up()
    assert changed_by(result) == [], result.stdout + result.stderr
    # One sentence: who answers, and that nothing changed. Nothing else was to be said.
    assert re.match(r"10\.1\.9\.53 answered by node0[123]; nothing changed\.$", result.stdout.splitlines()[0])
    assert result.stderr == ""
    assert started_at(seen_lab) == before


def test_plan_of_a_finished_lab_is_empty(seen_lab: RunningLab) -> None:
    result = seen_lab.command("plan")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing to do." in result.stdout


def test_drift_is_shown_and_healed_and_a_plan_changes_nothing(lab: RunningLab) -> None:
    lab.exec("node02", "sh", "-c", "echo '! touched' >> /etc/frr/frr.conf")
    lab.exec("node03", "systemctl", "disable", "--now", "anycastlab-probe")
    lab.exec("upstream", "sh", "-c", "rm /etc/dnsdist/dnsdist.conf")
    plan = lab.command("plan")
    assert plan.returncode == 2, plan.stdout + plan.stderr
    # A summary, in the order in which machines are always shown.
    assert [line.split()[0] for line in plan.stdout.splitlines()[:-1]] == ["upstream", "node02", "node03"]
    assert plan.stdout.endswith("3 of 6 machines would change. `--diff` shows every line of it.\n")
    assert "! touched" not in plan.stdout
    whole = lab.command("plan", "--diff")
    assert whole.stdout.startswith("\n".join(plan.stdout.splitlines()[:-1]))
    assert "-! touched" in whole.stdout
    assert "! touched" in lab.exec("node02", "cat", "/etc/frr/frr.conf").stdout
    assert lab.exec("upstream", "test", "-e", "/etc/dnsdist/dnsdist.conf").returncode != 0
    lab.up()
    assert lab.command("plan").returncode == 0
    assert lab.healthy()


@pytest.mark.parametrize("gone", [NODES, ("router",)], ids=["all nodes", "the router"])
def test_deleted_machines_come_back(lab: RunningLab, gone: tuple[str, ...]) -> None:
    for name in gone:
        lab.incus("delete", "--force", name)
    lab.up()
    assert lab.healthy()
    assert lab.command("plan").returncode == 0


def test_a_run_killed_half_way_is_healed_by_the_next(lab: RunningLab) -> None:
    lab.incus("delete", "--force", "node01")
    lab.incus("delete", "--force", "node03")
    anycastlab = str(Path(sys.executable).with_name("anycastlab"))
    for seconds in (1.5, 3.0, 5.0):
        process = subprocess.Popen(
            [anycastlab, "up"],
            cwd=ROOT,
            env=lab.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lab.up()
    assert lab.healthy()
    assert lab.command("plan").returncode == 0


def test_an_upstream_with_one_wrong_digit_ends_the_run_at_the_first_node_and_is_told_everywhere(
    lab: RunningLab,
) -> None:
    before = started_at(lab)
    result = lab.command("up", "--data", 'upstreams=["203.0.113.35"]')
    output = result.stdout + result.stderr
    assert result.returncode == 1, output
    assert "No internet name resolves through node01." in output
    assert "Traceback" not in output
    # the household still has two nodes that resolve
    after = started_at(lab)
    assert [after[name] == before[name] for name in ("node02", "node03")] == [True, True]
    assert lab.command("status").returncode == 2
    status = lab.status()
    assert [node["internet"] for node in status["nodes"]] == [False, True, True]
    assert any(complaint.startswith("No internet name resolves through node01.") for complaint in status["household"])
    assert lab.command("router", "verify").returncode == 2
    until(lambda: lab.command("probe").returncode == 2, 30, "the probe sees it")
    output = lab.up().stdout
    assert "Internet, local, reverse and blocked names are answered as they should be." in output


# As ufw leaves a node: what is BGP's, BFD's and SSH's is let in, and DNS was forgotten.
FIREWALL = """
nft add table inet forgot
nft add chain inet forgot in '{ type filter hook input priority 0; policy drop; }'
nft add rule inet forgot in iif lo accept
nft add rule inet forgot in ct state established,related accept
nft add rule inet forgot in tcp dport '{ 22, 179 }' accept
nft add rule inet forgot in udp dport 3784 accept
"""


def test_a_node_whose_firewall_forgot_dns_leaves_and_is_named(lab: RunningLab) -> None:
    assert lab.exec("node03", "sh", "-e", "-c", FIREWALL).returncode == 0
    try:
        # the peers see what no look from within does, and the node leaves while they stay
        until(lambda: lab.status()["router"]["next_hops"] == NODE_ADDRESSES[:2], 20, "node03 withdraws")
        assert "node03: no other node gets an answer from the resolver here, is there a firewall?" in (
            lab.command("probe").stdout
        )
        result = lab.command("up")
        output = result.stdout + result.stderr
        assert result.returncode == 1, output
        assert "node03 gives other machines no answer at 10.1.2.13, port 53 over UDP and TCP." in output
        assert "`ufw allow 53`" in output
    finally:
        lab.exec("node03", "nft", "delete", "table", "inet", "forgot")
    until(lambda: lab.status()["router"]["next_hops"] == NODE_ADDRESSES, 30, "node03 is back")


def until(holds: Callable[[], bool], limit_s: float, what: str) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, f"not within {limit_s} s: {what}"
        time.sleep(0.5)


def heard_during(lab: RunningLab, work: Callable[[], object]) -> dict[str, int]:
    """What a phone that asks the service address 20 times a second counted while `work` went on."""
    phone = subprocess.Popen(
        [
            *("incus", "exec", "--project", lab.project, "client01", "--"),
            *("python3", "/usr/local/lib/anycastlab/phone.pyz"),
            *("--server", "10.1.9.53", "--rate", "20", "--duration", "120", "--json-summary", "/tmp/heard.json"),
        ],
        cwd=ROOT,
        env=lab.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        work()
        lab.exec("client01", "pkill", "-INT", "-f", "phone.pyz")
        phone.wait(timeout=30)
    finally:
        phone.kill()
        phone.wait()
    counts: dict[str, int] = json.loads(lab.exec("client01", "cat", "/tmp/heard.json").stdout)["counts"]
    return counts


def test_rebuild_of_all_nodes_while_the_address_keeps_answering(lab: RunningLab) -> None:
    before = {node: json.loads(lab.incus("list", node, "--format", "json"))[0]["created_at"] for node in NODES}
    counts = heard_during(lab, lambda: lab.up("--data", "rebuild=all"))
    after = {node: json.loads(lab.incus("list", node, "--format", "json"))[0]["created_at"] for node in NODES}
    assert all(before[node] != after[node] for node in NODES)
    assert counts["sent"] > 100
    assert (counts["lost"], counts["servfail"]) == (0, 0), counts
    assert lab.healthy()


def test_a_home_of_one_node_grows_while_that_node_keeps_answering(lab: RunningLab, tmp_path: Path) -> None:
    one = tmp_path / "lab.py"
    text = (ROOT / lab.inventory).read_text(encoding="utf-8")
    one.write_text(text.replace('    "node02",\n    "node03",\n', ""), encoding="utf-8")
    lab.command("up", "-i", str(one), check=True)
    lab.command("down", "-y", "-i", str(one), "node02", "node03", check=True)
    assert lab.status()["router"]["next_hops"] == NODE_ADDRESSES[:1]

    counts = heard_during(lab, lab.up)

    assert lab.status()["router"]["next_hops"] == NODE_ADDRESSES
    assert counts["sent"] > 100
    assert (counts["lost"], counts["servfail"]) == (0, 0), counts
    assert lab.healthy()


def test_a_node_is_not_deleted_before_its_replacement_is_sure(seen_lab: RunningLab) -> None:
    before = json.loads(seen_lab.incus("list", "node01", "--format", "json"))[0]["created_at"]
    for environment, setting, sentence in (
        ({"ANYCASTLAB_CACHE": "/dev/null/cache"}, "rebuild=node01", "AdGuard Home cannot be kept in /dev/null/cache"),
        (
            {},
            "adguardhome_source=file:/nowhere",
            "adguardhome_source of node01 names /nowhere, and there",
        ),
        ({}, "stale_ttl_s=99999999999999999", "AdGuard Home refuses its new configuration, the old one stays: "),
    ):
        anycastlab = str(Path(sys.executable).with_name("anycastlab"))
        result = subprocess.run(
            [anycastlab, "up", "--data", "rebuild=node01", "--data", setting],
            cwd=ROOT, env={**seen_lab.environment, **environment}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        output = result.stdout + result.stderr
        assert result.returncode == 1, output
        assert sentence in output
        assert "Traceback" not in output
    # it is the same machine, in service
    assert json.loads(seen_lab.incus("list", "node01", "--format", "json"))[0]["created_at"] == before
    assert seen_lab.healthy()


# From nothing, and back ---------------------------------------------------------------------------------------------


def test_dry_run_on_an_empty_lab_shows_everything_and_makes_nothing() -> None:
    empty = RunningLab("empty")
    before = _incus_inventory()
    result = empty.pyinfra("inventory/lab.py", "deploy.py", "--dry", "--diff")
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    for part in ("+ project anycastlab-empty", "instance node01", "instance router", "frr.conf", "AdGuardHome.yaml"):
        assert part in output, part
    for part in ("anycastlab:connection:node03", "anycastlab:redirect:udp", "anycastlab:netwatch"):
        assert part in output, part
    assert empty.command("plan").returncode == 2
    status = empty.command("status")
    assert (status.returncode, status.stdout.count("\n")) == (2, 1)
    assert "The lab empty is not built." in status.stdout
    assert not empty.status()["service"]["answers"]
    assert _incus_inventory() == before


def test_what_is_in_the_way_is_seen_before_anything_is_made() -> None:
    empty = RunningLab("empty")
    port = Lab("empty").api_port
    bridge = ["incus", "network", "create", "empty-dns", "ipv4.address=none", "ipv6.address=none"]
    subprocess.run(bridge, check=True, capture_output=True)
    try:
        before = _incus_inventory()
        foreign = "The Incus network empty-dns exists and was not made by lab empty; it is left alone."
        for command in ("plan", "up"):
            result = empty.command(command)
            assert (result.returncode, result.stderr.count(foreign)) == (1, 1), result.stdout + result.stderr
        doctor = empty.command("doctor")
        assert (doctor.returncode, foreign in doctor.stdout) == (1, True)
        assert _incus_inventory() == before
    finally:
        subprocess.run(["incus", "network", "delete", "empty-dns"], check=True, capture_output=True)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        before = _incus_inventory()
        result = empty.command("up")
        said = f"Port {port} on 127.0.0.1, which leads to the lab's router, is in use by "
        assert (result.returncode, result.stderr.count(said)) == (1, 1), result.stdout + result.stderr
        assert f"(process {os.getpid()})" in result.stderr
        assert _incus_inventory() == before


def test_a_limit_by_the_name_in_every_table_and_nodes_that_know_what_they_were_deployed_with(lab: RunningLab) -> None:
    run = lab.up("--limit", "node02", "--data", "stale_ttl_s=31")
    assert "node02: configuring: done" in run.stdout + run.stderr
    assert "node01" not in run.stdout + run.stderr
    note = "node02 was deployed with stale_ttl_s=31, the files say 30"
    assert note in lab.command("status", check=True).stdout
    assert note in lab.command("probe", check=True).stdout
    assert "deployed with stale_ttl_s=31, this run has 30" in lab.command("plan", "--limit", "node0?").stdout
    refused = lab.command("up", "--limit", "nosuch")
    assert (refused.returncode, "--limit nosuch: the inventory has no machine" in refused.stderr) == (1, True)


def test_teardown_leaves_no_trace_and_touches_nothing_foreign(tmp_path: Path) -> None:
    small = RunningLab("gone", inventory="tests/lab/inventories/lab.py")
    foreign = ["incus", "project", "create", "somebody-elses"]
    subprocess.run(foreign, check=True, capture_output=True)
    try:
        before = _incus_inventory()
        small.command("up", "-i", small.inventory, check=True)
        assert _incus_inventory() != before
        assert _kept(small)
        _forget_a_node(small, tmp_path / "lab.py")
        stranger = ["stranger", "--project", small.project]
        subprocess.run(
            ["incus", "create", *stranger, "--empty", "--storage", "anycastlab"], check=True, capture_output=True
        )
        refused = small.command("down", "-y", "-i", small.inventory)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert (
            "Not all of lab gone could be removed: stranger in or beside its project anycastlab-gone" in refused.stderr
        )
        subprocess.run(["incus", "delete", *stranger], check=True, capture_output=True)
        done = small.command("down", "-y", "-i", small.inventory, check=True)
        assert done.stdout == "The lab gone is removed.\n"
        assert _incus_inventory() == before
        assert not _kept(small)
        again = small.command("down", "-y", "-i", small.inventory, check=True)
        assert again.stdout == "There was nothing to remove.\n"
    finally:
        subprocess.run(["incus", "project", "delete", "somebody-elses"], check=True, capture_output=True)


def _forget_a_node(lab: RunningLab, inventory: Path) -> None:
    """The second node's line goes: a run mentions its container, and only that can be removed by name."""
    text = (ROOT / lab.inventory).read_text(encoding="utf-8")
    inventory.write_text(text.replace('    lab.node("node02", resolver="unbound"),\n', ""), encoding="utf-8")
    reminder = "`anycastlab down node02` removes it."
    assert reminder not in lab.command("plan", "-i", lab.inventory).stderr
    assert reminder in lab.command("plan", "-i", str(inventory)).stderr
    refused = lab.command("down", "-y", "-i", str(inventory), "node01")
    assert (refused.returncode, "node01 is in the inventory" in refused.stderr) == (1, True)
    assert lab.command("down", "-y", "-i", str(inventory), "node02", check=True).stdout == "node02 is removed.\n"
    assert reminder not in lab.command("plan", "-i", str(inventory)).stderr


def _kept(lab: RunningLab) -> bool:
    """Whether this machine still knows the password of the lab's router."""
    path = state_dir() / "router-credentials.json"
    return path.exists() and lab.project in json.loads(path.read_text(encoding="utf-8"))


def _incus_inventory() -> str:
    """Everything Incus has, images aside: those are the cache that makes the next lab quick."""
    parts = (("project", "list"), ("network", "list"), ("storage", "list"), ("list", "--all-projects"))
    listings = [
        subprocess.run(["incus", *part, "--format", "csv"], capture_output=True, text=True, check=True)
        for part in parts
    ]
    lines = [line for listing in listings for line in listing.stdout.splitlines()]
    # Only what these tests make, and what must not be touched: other labs may come and go meanwhile.
    ours = re.compile(r"gone|empty|somebody-elses|^default|^anycastlab,")
    return "\n".join(re.sub(r",\d+(?=,|$)", "", line) for line in lines if ours.search(line))
