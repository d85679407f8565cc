"""The probe on a machine that misbehaves: its clock, its disk, a deploy's own work, a link that others touch.

With AdGuard Home, which writes more than unbound does; nothing else here depends on the resolver.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest

from anycastlab import probe_control
from anycastlab.image.build import ensure
from anycastlab.incus import files
from anycastlab.node import apply, layout
from anycastlab.node.plan import Plan
from anycastlab.probe.config import Effect
from anycastlab.site.model import Site
from anycastlab.site.parts import ResolverKind
from anycastlab.site.topology import ROUTER_DNS
from tests.lab import probe_cases
from tests.lab.probe_cases import NODE, answered, cause, do, gone_after, runner, signal, silence, state, until, watch
from tests.lab.probe_lab import PASSWORD, ROUTER, SERVICE, ProbeLab

RESOLVER: ResolverKind = "adguardhome"
lab = probe_cases.lab

DAY_S = 86400.0
FAKED_CLOCK = "/usr/local/lib/libfaketime.so.1"
CLOCK = "/run/faketime"
CLOCK_ENVIRONMENT = (
    f"LD_PRELOAD={FAKED_CLOCK} FAKETIME_TIMESTAMP_FILE={CLOCK} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1"
)
SMALL_POOL = "probem-small"

# What the query log and the statistics of AdGuard Home hold: names, and how many questions were counted.
SEEN = """
import base64, json, ssl, sys, urllib.request
address, password = sys.argv[1:]
def get(path):
    request = urllib.request.Request(f"https://{address}:3443/control/{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(f"admin:{password}".encode()).decode())
    return json.load(urllib.request.urlopen(request, timeout=5, context=ssl._create_unverified_context()))
stats = get("stats")
print(json.dumps({
    "logged": [entry["question"]["name"] for entry in get("querylog?limit=500")["data"]],
    "counted": [name for top in stats["top_queried_domains"] for name in top],
    "queries": stats["num_dns_queries"],
}))
"""

# Leaves no byte on the root file system: first the room for data, then that for names and small files.
FILL = """
import os, errno
os.makedirs("/fill", exist_ok=True)
def fill(name, size):
    with open(f"/fill/{name}", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * size)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
free = os.statvfs("/")
with open("/fill/most", "wb") as file:
    try:
        os.posix_fallocate(file.fileno(), 0, max(4096, free.f_bavail * free.f_frsize - (16 << 20)))
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
for size in (1 << 20, 1 << 16, 1 << 12):
    fill(f"rest{size}", size)
    os.sync()
full = 0
for number in range(200000):
    try:
        with open(f"/fill/small{number}", "wb", buffering=0) as file:
            file.write(b"x" * 2000)
        full = 0
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        full += 1
        if full == 3:
            break
        os.sync()
"""


@pytest.fixture(scope="module")
def home() -> Iterator[ProbeLab]:
    """One node has a disk of its own, of a gigabyte: it can be filled without anybody else noticing."""
    lab = ProbeLab(name="probem", resolver=RESOLVER, image=ensure(), pools={NODE: SMALL_POOL})
    _remove(lab)
    subprocess.run(["incus", "storage", "create", SMALL_POOL, "btrfs", "size=1GiB"], capture_output=True, check=True)
    lab.build()
    yield lab
    _remove(lab)


def _remove(lab: ProbeLab) -> None:
    lab.remove()
    subprocess.run(["incus", "storage", "delete", SMALL_POOL], capture_output=True, check=False)


# Sends what a probe would say to its peers, from the address of another: what a host anywhere can do that forges its
# source, without the home's key. Some of it is sealed with a key of its own, some is a message of the right form.
FORGER = """
import hashlib, hmac, json, socket, sys, time
target, name = sys.argv[1], sys.argv[2]
peers = dict(pair.split("=") for pair in sys.argv[3:])
end = time.monotonic() + 4
sockets = {}
for peer, address in peers.items():
    sockets[peer] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sockets[peer].setsockopt(socket.SOL_IP, 19, 1)  # IP_TRANSPARENT, ip(7)
    sockets[peer].bind((address, 9153))
sent = 0
while time.monotonic() < end:
    for peer, sock in sockets.items():
        for version, op in ((1, "revoke"), (1, "stay?"), (2, "revoke"), (2, "stay?")):
            body = {"v": version, "op": op, "from": peer, "to": name, "nonce": "00", "ailment": "local", "fresh": ""}
            text = json.dumps(body).encode()
            code = hmac.new(b"?" * 32, text, hashlib.sha256).hexdigest()[:32].encode()
            for data in (text, b"\\n" + text, code + b"\\n" + text):
                sock.sendto(data, (target, 9153))
                sent += 1
    time.sleep(0.05)
print(sent)
"""


# What others see of it


def test_who_forges_its_address_neither_binds_a_node_nor_keeps_a_sick_one_in_service(lab: ProbeLab) -> None:
    # Given a sick node that is out because the others stay
    address = {node: lab.address(node) for node in lab.nodes}
    others = [node for node in lab.nodes if node != NODE]
    lab.shell(NODE, silence(ROUTER_DNS))
    lab.wait_announced(*others, timeout_s=10)
    until(lambda: state(lab)["relies_on"] == others, 5)
    # When a host of another subnet speaks in its peers' names, and in its own name to one of them
    lab.push(ROUTER, "/root/forger.py", FORGER.encode())
    with watch(lab) as router:
        began = do(lab, NODE, "true")
        as_others = " ".join(f"{node}={address[node]}" for node in others)
        sent = lab.shell(ROUTER, f"python3 /root/forger.py {address[NODE]} {NODE} {as_others}")
        assert int(sent) > 500
        back = router.present_at(address[NODE], began, 0.5)
    # Then it stays out, and its probe says what goes on
    assert back is None
    until(lambda: "do not bear this home's key" in state(lab)["problems"].get("peers", ""), 7)
    assert state(lab)["cause"] == "local-path"
    lab.shell(NODE, "nft flush ruleset")
    lab.wait_announced(timeout_s=20)
    lab.shell(ROUTER, f"python3 /root/forger.py {address[others[0]]} {others[0]} {NODE}={address[NODE]}")
    assert state(lab, others[0])["relied_on_by"] == []


def test_a_new_key_that_goes_from_node_to_node_costs_nothing_and_no_hearing(lab: ProbeLab) -> None:
    # Given a new key on the first node only, which accepts the old one for a while
    first, others = lab.nodes[0], [node for node in lab.nodes if node != NODE]
    started = lab.shell(first, "systemctl show -p MainPID --value anycastlab-probe")
    lab.shell(first, f"{{ echo {'7b' * 32}; echo '{'5a' * 32} until {2**32}'; }} >/etc/anycastlab/probe.key; sleep 5.5")
    assert state(lab, first)["problems"] == {}
    # When another one is sick, then it goes, for both of its peers stay
    lab.shell(NODE, silence(ROUTER_DNS))
    lab.wait_announced(*others, timeout_s=10)
    until(lambda: state(lab)["relies_on"] == others, 5)
    lab.shell(NODE, "nft flush ruleset")
    lab.wait_announced(timeout_s=20)
    # And with the new key alone on the first one they hear each other no more: nobody leaves as the last
    lab.shell(first, f"echo {'7b' * 32} >/etc/anycastlab/probe.key; sleep 5.5")
    for node in others[1:]:
        lab.shell(node, "mv /etc/anycastlab/probe.key /root/; sleep 5.5")
        assert "cannot talk" in state(lab, node)["problems"]["peers"]
    lab.shell(NODE, silence(ROUTER_DNS))
    until(lambda: cause(lab) == "nobody-else", 10)
    assert lab.next_hops() == set(lab.nodes)
    # And when all have it they do
    lab.shell(NODE, f"nft flush ruleset; echo {'7b' * 32} >/etc/anycastlab/probe.key")
    for node in others[1:]:
        lab.shell(node, f"mv /root/probe.key /etc/anycastlab/; echo {'7b' * 32} >/etc/anycastlab/probe.key; sleep 5.5")
    lab.shell(NODE, silence(ROUTER_DNS))
    lab.wait_announced(*others, timeout_s=10)
    assert lab.shell(first, "systemctl show -p MainPID --value anycastlab-probe") == started
    lab.shell(NODE, "nft flush ruleset")
    for node in lab.nodes:
        lab.shell(node, f"echo {'5a' * 32} >/etc/anycastlab/probe.key")


def test_its_questions_are_in_no_query_log_and_no_statistics(lab: ProbeLab) -> None:
    lab.push(NODE, "/root/seen.py", SEEN.encode())
    assert answered(lab, NODE, lab.address(NODE), "www.lab.example") == 1
    # Given a hundred questions of the probe's, and one for the WAN
    until(lambda: sum(question["counts"].get("ok", 0) for question in state(lab)["questions"].values()) > 100, 60)
    assert state(lab)["questions"]["wan"]["good"] is True
    seen = json.loads(lab.exec(NODE, "python3", "/root/seen.py", lab.address(NODE), PASSWORD, check=True).stdout)
    # Then AdGuard Home tells of what people asked and of nothing else
    assert "www.lab.example" in seen["logged"]
    assert "www.lab.example" in seen["counted"]
    assert [name for name in seen["logged"] + seen["counted"] if "anycast" in name] == []
    assert 1 <= seen["queries"] <= 20


# Prints the figures that are served there, or why there are none.
READER = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(f"http://{sys.argv[1]}:9153/metrics", timeout=3).read().decode())
except OSError as error:
    print("none:", error)
"""


def test_its_figures_are_on_the_nodes_own_address_and_on_no_other(lab: ProbeLab) -> None:
    lab.push(ROUTER, "/root/reader.py", READER.encode())
    told = lab.exec(ROUTER, "python3", "/root/reader.py", lab.address(NODE), check=True).stdout
    assert "\nanycastlab_probe_effective 1\n" in told
    assert lab.exec(ROUTER, "python3", "/root/reader.py", str(SERVICE), check=True).stdout.startswith("none:")


# Its clock


@pytest.fixture
def faked_clock(lab: ProbeLab) -> Iterator[None]:
    [library] = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    lab.push(NODE, FAKED_CLOCK, library.read_bytes(), mode=0o755)
    drop_in = "/run/systemd/system/anycastlab-probe.service.d/clock.conf"
    lab.push(NODE, drop_in, f"[Service]\nEnvironment={CLOCK_ENVIRONMENT}\n".encode())
    set_clock(lab, "+0d")
    lab.shell(NODE, "systemctl daemon-reload; systemctl restart anycastlab-probe")
    lab.wait_announced(timeout_s=20)
    yield
    lab.shell(NODE, f"rm {drop_in}; systemctl daemon-reload; systemctl restart anycastlab-probe; rm {FAKED_CLOCK}")


def set_clock(lab: ProbeLab, jump: str) -> None:
    """From now on the probe's wall clock is that far off; in one step, so that no half-written file is read."""
    lab.shell(NODE, f"echo '{jump}' >{CLOCK}.new; mv {CLOCK}.new {CLOCK}")


@pytest.mark.usefixtures("faked_clock")
def test_jumps_of_the_wall_clock_change_no_mind(lab: ProbeLab) -> None:
    def run(node: str, argv: Sequence[str]) -> tuple[int | None, str]:
        # On a machine whose clock has jumped, whoever looks sees the same clock.
        result = lab.exec(node, "env", *CLOCK_ENVIRONMENT.split(), *argv)
        return result.returncode, result.stdout

    for jump, off_s in (("+1d", DAY_S), ("-1d", -DAY_S)):
        changes = state(lab)["changes"]
        with watch(lab) as router:
            at = time.time()
            set_clock(lab, jump)
            time.sleep(3)
            assert router.changes(at, lab.address(NODE)) == []
        # It did jump under the probe
        assert state(lab)["written"] - time.time() == pytest.approx(off_s, abs=10)
        # and no mind was changed, nor is anything about it nonsense
        assert state(lab)["changes"] == changes
        seen = probe_control.read_state(run, NODE)
        assert (seen.state, seen.cause) == ("announcing", "healthy")
        assert seen.since_s is not None
        assert 0 < seen.since_s < 120
        # and what is to be noticed is noticed as soon as ever, and its end too
        gone_after(lab, signal(lab, "STOP"))
        lab.shell(NODE, signal(lab, "CONT"))
        lab.wait_announced(timeout_s=20)


# Its disk


@pytest.fixture
def full_disk(lab: ProbeLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not a byte is left on the node's root file system, nor in the folder of the probe's state."""
    recorded = lab.exec

    def through_memory(machine: str, *argv: str, **how: Any) -> subprocess.CompletedProcess[str]:
        # Incus records a command's output on the instance's own disk.
        done = recorded(machine, "sh", "-c", '"$@" >/run/said', "sh", *argv, **how)
        done.stdout = files.get(lab.rest, machine, "/run/said").decode()
        return done

    monkeypatch.setattr(lab, "exec", through_memory)
    lab.push(NODE, "/run/fill.py", FILL.encode())
    lab.exec(NODE, "python3", "/run/fill.py", check=True, timeout_s=120)
    for folder in ("/var/lib/anycastlab", "/var/log", "/root"):
        assert lab.exec(NODE, "sh", "-c", f"head -c 4000 /dev/urandom >{folder}/full").returncode != 0
    lab.shell(NODE, "mount -t tmpfs -o size=4k,nr_inodes=1 none /run/anycastlab")
    yield
    lab.shell(NODE, "rm -rf /fill; umount /run/anycastlab", check=False)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_does_not_stop_the_probe(lab: ProbeLab) -> None:
    # Given a machine that could write nothing for a while
    with watch(lab) as router:
        at = time.time()
        time.sleep(3)
        assert router.changes(at, lab.address(NODE)) == []
    assert lab.next_hops() == set(lab.nodes)
    # Then a hung resolver is noticed as ever, and so is its recovery
    gone_after(lab, signal(lab, "STOP"))
    lab.shell(NODE, signal(lab, "CONT"))
    lab.wait_announced(timeout_s=20)
    # and the node is drained, for which an empty file will do, or a person is told in one sentence that it is not
    lab.shell(NODE, "umount /run/anycastlab")
    told = ""
    try:
        probe_control.drain(runner(lab), lab.nodes, NODE)
    except probe_control.DrainError as refused:
        told = refused.problem
    assert told in ("", cannot_drain("No space left on device"))
    assert lab.next_hops() == ({*lab.nodes} if told else {"node01", "node03"})
    assert probe_control.undrain(runner(lab), lab.nodes, NODE).announced
    # and a killed one is gone at once, and back when there is room (AdGuard Home does not start without)
    gone_after(lab, signal(lab, "KILL"))
    lab.shell(NODE, "rm -rf /fill")
    lab.wait_announced(timeout_s=60)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        # As an SD card does at the end of its life
        ("mount --bind {0} {0}; mount -o remount,ro,bind {0}", "Read-only file system"),
        ("mount -t tmpfs -o nr_inodes=1 none {0}", "No space left on device"),
    ],
    ids=["read-only", "no-room"],
)
def test_a_disk_that_takes_no_file_is_one_sentence(lab: ProbeLab, how: str, why: str) -> None:
    lab.shell(NODE, how.format(layout.STATE))
    try:
        with pytest.raises(probe_control.DrainError) as refused:
            probe_control.drain(runner(lab), lab.nodes, NODE)
    finally:
        lab.shell(NODE, f"umount {layout.STATE}")
    assert refused.value.problem == cannot_drain(why)
    assert lab.next_hops() == set(lab.nodes)


def cannot_drain(why: str) -> str:
    return f"{NODE} could not be drained: {layout.DRAINED} cannot be written there ({why})."


# A person's work


def test_a_deploys_work_does_not_make_the_next_one_slower(lab: ProbeLab) -> None:
    # Given what a deploy does to a node whose resolver and probe have new files: withdraw, restart, wait, resume
    site = lab.site
    plan = Plan(restart=(layout.resolver_unit(RESOLVER), layout.PROBE_UNIT), reasons=("new files",))
    program = apply.program(site, site.node(NODE), plan, must_serve=True)
    lab.push(NODE, "/root/deploy.py", program.encode())
    for _ in range(5):
        lab.exec(NODE, "python3", "-I", "/root/deploy.py", check=True, timeout_s=120)
    # Then the fifth in a row waits for as little as the first
    assert state(lab)["hold_down"]["level"] == 0
    # and a crash is a crash
    gone_after(lab, signal(lab, "KILL"))
    assert state(lab)["hold_down"]["level"] == 1


def test_an_upgrade_of_frr_and_of_the_resolver_loses_no_query(lab: ProbeLab) -> None:
    # Given what their packages do, one right after the other
    lab.push(ROUTER, "/root/asker.py", probe_cases.ASKER.encode())
    lab.shell(
        ROUTER,
        "systemd-run --quiet --collect --unit=asker --property=StandardOutput=file:/root/asked "
        f"python3 /root/asker.py {SERVICE} nas.lan 100 8 1",
    )
    time.sleep(1)
    with watch(lab) as router:
        at = time.time()
        lab.shell(NODE, f"systemctl restart frr; systemctl restart {RESOLVER}")
        assert router.gone_at(lab.address(NODE), at, 5) is not None
        assert router.present_at(lab.address(NODE), at, 15) is not None
    until(lambda: lab.shell(ROUTER, "cat /root/asked").strip() != "", 15)
    answers, sent, _ = json.loads(lab.shell(ROUTER, "cat /root/asked"))
    assert (answers, sent) == (800, 800)


def test_a_resolver_that_ends_by_itself_is_held_down_however_well_it_says_goodbye(lab: ProbeLab) -> None:
    # systemd runs the same commands for it as for a planned stop
    for times in (1, 2):
        gone_after(lab, signal(lab, "TERM"))
        lab.wait_announced(timeout_s=20)
        assert state(lab)["hold_down"]["level"] == times


# Its link


def test_a_link_that_is_deleted_is_withdrawn_and_no_fault_of_frr(lab: ProbeLab) -> None:
    bgpd = lab.shell(NODE, "pgrep -x bgpd")
    gone_after(lab, "ip link delete anycast0")
    # The node can be drained all the same, and FRR is left alone beyond the time it has to know a route
    assert probe_control.drain(runner(lab), lab.nodes, NODE).state == "withdrawn"
    lab.shell(NODE, "rm /var/lib/anycastlab/drained")
    time.sleep(Effect().present_s + 2)
    assert lab.shell(NODE, "pgrep -x bgpd") == bgpd
    assert "there is no link anycast0" in state(lab)["problems"].values()
    # Once there is one again, it serves, and nothing is said any more
    lab.shell(NODE, "systemctl restart anycast0")
    lab.wait_announced(timeout_s=20)
    until(lambda: state(lab)["problems"] == {}, 10)


def twin(site: Site) -> Site:
    """The same home with an IPv6 service address."""
    nodes = [
        {**node.model_dump(), "address6": f"fd53:2::{index + 11}", "gateway6": "fd53:2::1"}
        for index, node in enumerate(site.nodes)
    ]
    service = {**site.service.model_dump(), "address6": IPv6Address("fd53:9::53")}
    return Site.model_validate({**site.model_dump(), "nodes": nodes, "service": service})


@pytest.fixture
def twin_node(lab: ProbeLab) -> Iterator[None]:
    lab.set_up_node(NODE, twin(lab.site))
    lab.wait_announced(timeout_s=30)
    yield
    lab.set_up_node(NODE)
    lab.wait_announced(timeout_s=60)


def link(lab: ProbeLab) -> tuple[bool, set[str]]:
    """Whether it is up, and its addresses."""
    [found] = json.loads(lab.shell(NODE, "ip -json address show dev anycast0"))
    addresses = {f"{entry['local']}/{entry['prefixlen']}" for entry in found["addr_info"]}
    return "UP" in found["flags"], addresses


def in_bgp(lab: ProbeLab) -> bool:
    """Whether FRR would tell a router about the IPv6 service address."""
    found = json.loads(lab.shell(NODE, "vtysh -c 'show bgp ipv6 unicast fd53:9::53/128 json'") or "{}")
    return bool(found.get("paths"))


@pytest.mark.usefixtures("twin_node")
def test_the_service_addresses_survive_whatever_happens_to_their_link(lab: ProbeLab) -> None:
    both = {"10.1.9.53/32", "fd53:9::53/128"}
    flag = "/var/lib/anycastlab/drained"
    assert link(lab) == (True, both)
    until(lambda: in_bgp(lab), 5)
    # The probe's own way down and up again
    lab.shell(NODE, f"echo operator >{flag}")
    lab.wait_announced("node01", "node03", timeout_s=5)
    assert link(lab) == (False, both)
    until(lambda: not in_bgp(lab), 2)
    # Nobody else raises it, whatever they do, and nobody takes its addresses
    works = ("systemctl restart systemd-networkd", "networkctl reload", "systemctl restart anycast0")
    upgrades = ("systemctl restart frr", f"systemctl restart {RESOLVER}")
    for work in (*works, *upgrades):
        lab.shell(NODE, f"{work}; sleep 0.5")
        assert link(lab) == (False, both), work
    lab.incus("restart", NODE)
    time.sleep(5)
    assert link(lab) == (False, both)
    lab.shell(NODE, f"rm {flag}")
    lab.wait_announced(timeout_s=30)
    assert link(lab) == (True, both)
    until(lambda: in_bgp(lab), 5)
    # Others' ways down, while it announces
    for work in ("ip link set anycast0 down; sleep 0.2", "systemctl restart systemd-networkd; sleep 0.5"):
        lab.shell(NODE, work)
        assert link(lab)[1] == both, work
        lab.wait_announced(timeout_s=20)
        until(lambda: link(lab) == (True, both) and in_bgp(lab), 5)
