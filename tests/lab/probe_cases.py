"""Real faults on real nodes: what the router's own table shows, and when.

The cases; `test_probe_unbound` and `test_probe_adguardhome` run them, each on a home of its own. The router's kernel is
the witness (`RouteWatch`), not the probe. Times are the promises of the probe; they hold on a busy machine too, because
every wait in it is a deadline and not a sum. What has nothing to do with the resolver is in `test_probe_machine`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from anycastlab import probe_control
from anycastlab.image.build import ensure
from anycastlab.site.parts import ResolverKind
from anycastlab.site.topology import ROUTER_DNS, UPSTREAM_WAN
from tests.lab.probe_lab import ROUTER, SERVICE, ProbeLab
from tests.lab.route_watch import RouteWatch

NODE = "node02"
PROGRAM = {"unbound": "unbound", "adguardhome": "AdGuardHome"}
STATE = "/run/anycastlab/probe.json"

# Asks `name` at `address`: each query from a new port, `rate` per second; prints how many of how many were answered.
ASKER = """
import json, select, socket, sys, time
import dns.message
address, name, rate, seconds, timeout = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
start, sent, answered, longest, open_ = time.monotonic(), 0, 0, 0.0, {}
poll = select.poll()
total = int(rate * seconds)
while sent < total or open_:
    now = time.monotonic()
    while sent < total and now >= start + sent / rate:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setblocking(False)
        query = dns.message.make_query(name.replace("*", "r%dx%d" % (sent, start * 1e6)), "A")
        try:
            s.connect((address, 53)); s.send(query.to_wire())
        except OSError:
            pass
        open_[s.fileno()] = (s, now); poll.register(s, select.POLLIN); sent += 1
    for number, _ in poll.poll(2):
        s, at = open_.pop(number); poll.unregister(number)
        try:
            reply = dns.message.from_wire(s.recv(2048))
            if reply.rcode() in (0, 3):
                answered += 1; longest = max(longest, time.monotonic() - at)
        except OSError:
            pass
        s.close()
    for number in [n for n, (_, at) in open_.items() if now - at > timeout]:
        s, _ = open_.pop(number); poll.unregister(number); s.close()
print(json.dumps([answered, sent, longest]))
"""

# Stands in front of the resolver, which does the work on its loopback address. `redirect` in the output chain means
# 127.0.0.1, in the prerouting chain the node's own address, and replies must come from the same.
IN_FRONT = """
import select, socket, sys, threading, time
import dns.message
address, port, delay, blocked = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
def serve(server, data, sender):
    query = dns.message.from_wire(data)
    if query.question[0].name.to_text().lower() == blocked:
        reply = dns.message.make_response(query).to_wire()
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(5); s.connect(("127.0.0.1", 53)); s.send(data)
            reply = s.recv(4096)
    time.sleep(delay)
    server.sendto(reply, sender)
servers = []
for host in ("127.0.0.1", address):
    servers.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    servers[-1].bind((host, port))
while True:
    for server in select.select(servers, [], [])[0]:
        threading.Thread(target=serve, args=(server, *server.recvfrom(4096)), daemon=True).start()
"""

# Lets a process run for a sixtieth of the time.
THROTTLE = """
import os, signal, sys, time
while True:
    os.kill(int(sys.argv[1]), signal.SIGSTOP); time.sleep(0.59)
    os.kill(int(sys.argv[1]), signal.SIGCONT); time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def home(request: pytest.FixtureRequest) -> Iterator[ProbeLab]:
    resolver: ResolverKind = request.module.RESOLVER
    lab = ProbeLab(name=f"probe{resolver[0]}", resolver=resolver, image=ensure())
    lab.remove()
    lab.build()
    yield lab
    lab.remove()


@pytest.fixture
def lab(home: ProbeLab) -> ProbeLab:
    """All nodes announce, with no memory of earlier tests' faults."""
    _heal(home)
    return home


def _heal(lab: ProbeLab) -> None:
    # A flap in one test must not hold the node down in the next.
    node = (
        "for p in zebra bgpd bfdd unbound AdGuardHome; do pkill -CONT -x $p; done; nft flush ruleset;"
        " umount /run/anycastlab 2>/dev/null; rm -f /var/lib/anycastlab/drained;"
        f" systemctl stop anycastlab-probe; rm -f {STATE}; systemctl reset-failed;"
        f" systemctl start {lab.resolver} frr anycastlab-probe"
    )
    router = "nft flush ruleset; systemctl reset-failed; systemctl start unbound frr"
    scripts = {**dict.fromkeys(lab.nodes, node), ROUTER: router}
    with ThreadPoolExecutor(len(scripts)) as pool:
        list(pool.map(lab.shell, scripts.keys(), scripts.values()))
    lab.wait_announced(timeout_s=60)
    time.sleep(1)


def watch(lab: ProbeLab) -> RouteWatch:
    return RouteWatch(["incus", "--project", lab.lab.project, "exec", "-T", ROUTER, "--"], str(SERVICE))


def do(lab: ProbeLab, machine: str, script: str) -> float:
    """Run it; the machine's own time just before."""
    return float(lab.shell(machine, f"date +%s.%N; {script}").split()[0])


def signal(lab: ProbeLab, name: str, program: str = "") -> str:
    return f"pkill -{name} -x {program or PROGRAM[lab.resolver]}"


def state(lab: ProbeLab, node: str = NODE) -> dict[str, Any]:
    return dict(json.loads(lab.exec(node, "cat", STATE, check=True).stdout))


def cause(lab: ProbeLab, node: str = NODE) -> str:
    return str(state(lab, node)["cause"])


def gone_after(lab: ProbeLab, script: str, within_s: float = 8) -> float:
    with watch(lab) as router:
        at = do(lab, NODE, script)
        gone = router.gone_at(lab.address(NODE), at, within_s)
    assert gone is not None, f"{NODE} is still in the router's table {within_s} s after: {script}"
    return gone - at


def silence(address: object) -> str:
    """DNS answers from there are lost. (Queries dropped in the output chain would be an error to who sends them.)"""
    return (
        "nft 'table inet fault { chain in { type filter hook input priority 0;"
        f" ip saddr {address} udp sport 53 counter drop; ip saddr {address} tcp sport 53 counter drop; }}; }}'"
    )


@contextmanager
def in_front(lab: ProbeLab, *nodes: str, delay_s: float = 0, blocked: str = "") -> Iterator[float]:
    """On these nodes the resolver's answers are late, or a name has no record. Gives the time of the last change."""
    port, at = 5355, 0.0
    try:
        for node in nodes:
            address = lab.address(node)
            rule = f"ip daddr {address} udp dport 53 redirect to :{port}"
            lab.push(node, "/root/in_front.py", IN_FRONT.encode())
            lab.shell(
                node,
                f"systemd-run --quiet --unit=in-front python3 /root/in_front.py {address} {port} {delay_s} '{blocked}.'"
                f"; until ss -lun | grep -q {address}:{port}; do sleep 0.1; done",
            )
            at = do(
                lab,
                node,
                f"nft 'table ip in_front {{ chain out {{ type nat hook output priority -100; {rule}; }};"
                f" chain in {{ type nat hook prerouting priority -100; {rule}; }}; }}'",
            )
        yield at
    finally:
        for node in nodes:
            lab.shell(node, "nft flush ruleset; systemctl stop in-front")


# The four questions


def test_a_killed_resolver_is_gone_at_once_and_comes_back(lab: ProbeLab) -> None:
    until(lambda: state(lab)["process_watched"], 3)
    gone_after(lab, signal(lab, "KILL"))
    # Never by its questions, which need 1.2 s: the kernel tells, however busy the machine is.
    assert state(lab)["cause"] in ("resolver-dead", "lowered")
    lab.wait_announced(timeout_s=30)


def test_a_hung_resolver_is_gone_in_time(lab: ProbeLab) -> None:
    gone_after(lab, signal(lab, "STOP"))
    assert cause(lab) == "resolver-silent"
    lab.shell(NODE, signal(lab, "CONT"))
    lab.wait_announced(timeout_s=30)


def test_a_lost_local_path_is_seen_through_a_warm_cache_and_its_repair_too(lab: ProbeLab) -> None:
    # Given a cache that knows the names people ask
    for name in ("nas.lan", "router.lan", "www.lab.example"):
        assert answered(lab, NODE, lab.address(NODE), name) == 1
    with watch(lab) as router:
        cut = do(lab, NODE, silence(ROUTER_DNS))
        lost = router.gone_at(lab.address(NODE), cut, 8)
        assert lost is not None
        # Stale or cached answers keep coming, and fool nobody
        assert answered(lab, NODE, lab.address(NODE), "nas.lan") == 1
        assert cause(lab) == "local-path"
        packets = lab.shell(NODE, "nft list table inet fault")
        assert "packets 0 bytes 0 drop" not in packets.splitlines()[3], packets
        time.sleep(1)
        repaired = do(lab, NODE, "nft delete table inet fault")
        found = router.present_at(lab.address(NODE), repaired, 15)
        assert found is not None


@pytest.mark.parametrize("seconds", [0.2, 1.8])
def test_a_slow_resolver_is_withdrawn_in_time(lab: ProbeLab, seconds: float) -> None:
    with watch(lab) as router, in_front(lab, NODE, delay_s=seconds) as at:
        assert router.gone_at(lab.address(NODE), at, 10) is not None
        # Too late for any check, or just too late: both are told apart from a dead one
        time.sleep(3)
        assert cause(lab) == ("slow" if seconds < 0.3 else "resolver-silent")
    lab.wait_announced(timeout_s=30)


def test_a_resolver_without_processor_time_is_withdrawn(lab: ProbeLab) -> None:
    # Given a resolver that runs for 10 ms of every 600 (a quota of the kernel's, where no cgroup can give it)
    lab.push(NODE, "/root/throttle.py", THROTTLE.encode())
    with watch(lab) as router:
        at = do(
            lab,
            NODE,
            f"systemd-run --quiet --unit=throttle python3 /root/throttle.py $(pgrep -x {PROGRAM[lab.resolver]})",
        )
        gone = router.gone_at(lab.address(NODE), at, 10)
        seen = cause(lab)
        lab.shell(NODE, f"systemctl stop throttle; {signal(lab, 'CONT')}")
    assert gone is not None
    assert seen in ("slow", "resolver-silent", "local-path")
    lab.wait_announced(timeout_s=40)


def test_a_dead_provider_is_reported_and_withdraws_nobody(lab: ProbeLab) -> None:
    # Given a provider that swallows everything, and a household that asks 50 new names a second for a minute
    lab.push(ROUTER, "/root/asker.py", ASKER.encode())
    assert answered(lab, ROUTER, str(SERVICE), "www.lab.example") == 1
    until(lambda: all(state(lab, node)["questions"]["wan"]["good"] for node in lab.nodes), 5)
    assert probe_control.table(probe_control.probe_states(runner(lab), lab.nodes)).count(" BAD") == 0
    for node in lab.nodes:
        assert answered(lab, node, lab.address(node), "www.lab.example") == 1
        lab.shell(node, silence(UPSTREAM_WAN))
    seconds = 60
    with watch(lab) as router:
        start = time.time()
        lab.shell(
            ROUTER,
            f"python3 /root/asker.py {SERVICE} '*.rnd.example' 50 {seconds} 0.5 >/dev/null & "
            f"python3 /root/asker.py {SERVICE} '*.lan' 20 {seconds} 1 >/root/local; "
            f"python3 /root/asker.py {SERVICE} www.lab.example 20 5 1 >/root/cached; wait",
            timeout_s=seconds + 60,
        )
        changes = [has for node in lab.nodes for _, has in router.changes(start, lab.address(node))]
    # Then local names were answered all the while, cached ones still are, and no route moved
    local, local_sent, _ = json.loads(lab.exec(ROUTER, "cat", "/root/local").stdout)
    cached, cached_sent, _ = json.loads(lab.exec(ROUTER, "cat", "/root/cached").stdout)
    assert local == local_sent == 20 * seconds
    assert cached == cached_sent
    assert changes == []
    assert lab.next_hops() == set(lab.nodes)
    found = probe_control.probe_states(runner(lab), lab.nodes)
    assert [(node.state, node.cause, node.questions["wan"].good) for node in found] == [
        ("announcing", "healthy", False)
    ] * 3
    assert probe_control.table(found).count("BAD") == 3


# Never all at once


def test_a_dead_router_dns_withdraws_nobody(lab: ProbeLab) -> None:
    with watch(lab) as router:
        at = do(lab, ROUTER, "pkill -STOP -x unbound")
        deadline = time.time() + 10
        while time.time() < deadline:
            time.sleep(0.5)
            # One node may leave for a moment when it sees it first; the last one never
            assert lab.next_hops()
        causes = [cause(lab, node) for node in lab.nodes]
        lab.shell(ROUTER, "pkill -CONT -x unbound")
        tables = {moment for node in lab.nodes for moment, _ in router.changes(at, lab.address(node))}
    assert causes == ["nobody-else"] * 3
    # Nobody flaps while it lasts
    assert len(tables) <= 2


def test_nodes_that_start_while_the_routers_dns_is_down_announce(lab: ProbeLab) -> None:
    lab.shell(ROUTER, "systemctl stop unbound")
    for node in lab.nodes:
        lab.shell(node, f"systemctl stop anycastlab-probe; rm -f {STATE}")
    assert lab.next_hops() == set()
    for node in lab.nodes:
        lab.shell(node, "systemctl start anycastlab-probe")
    lab.wait_announced(timeout_s=10)
    assert [cause(lab, node) for node in lab.nodes] == ["nobody-else"] * 3


def test_a_probe_name_that_is_blocked_everywhere_withdraws_nobody(lab: ProbeLab) -> None:
    # The same list reaches all nodes, a moment apart
    with in_front(lab, *lab.nodes, blocked="id.anycast.lan"):
        time.sleep(6)
        assert lab.next_hops() == set(lab.nodes)
        assert [cause(lab, node) for node in lab.nodes] == ["nobody-else"] * 3


def test_a_probe_name_that_is_blocked_on_one_node_withdraws_that_one(lab: ProbeLab) -> None:
    with in_front(lab, NODE, blocked="id.anycast.lan"):
        lab.wait_announced("node01", "node03", timeout_s=5)
        time.sleep(2)
        assert cause(lab) == "resolver-wrong"
    lab.wait_announced(timeout_s=10)


# Effect, not command


@pytest.mark.parametrize("daemons", ["zebra", "bgpd", "zebra bgpd"])
def test_frozen_daemons_do_not_keep_a_hung_node_announced(lab: ProbeLab, daemons: str) -> None:
    freeze = "; ".join(f"pkill -STOP -x {daemon}" for daemon in daemons.split())
    lab.shell(NODE, freeze)
    time.sleep(1)
    gone_after(lab, signal(lab, "STOP"))
    # The probe has FRR started afresh, so that a healed resolver is announced again without a person
    lab.shell(NODE, signal(lab, "CONT"))
    lab.wait_announced(timeout_s=60)


def test_a_frozen_bfdd_is_cured(lab: ProbeLab) -> None:
    lab.shell(NODE, "pkill -STOP -x bfdd")
    lab.wait_announced("node01", "node03", timeout_s=5)
    lab.wait_announced(timeout_s=45)


def test_a_frozen_container_is_gone_and_comes_back(lab: ProbeLab) -> None:
    with watch(lab) as router:
        at = time.time()
        lab.incus("pause", NODE)
        assert router.gone_at(lab.address(NODE), at, 5) is not None
        time.sleep(4)
        thawed = time.time()
        lab.incus("resume", NODE)
        assert router.present_at(lab.address(NODE), thawed, 30) is not None
    lab.wait_announced(timeout_s=30)


def test_nobody_else_can_raise_the_link_of_a_withdrawn_node(lab: ProbeLab) -> None:
    lab.shell(NODE, "echo operator >/var/lib/anycastlab/drained")
    lab.wait_announced("node01", "node03", timeout_s=5)
    with watch(lab) as router:
        at = do(lab, NODE, "for i in 1 2 3; do ip link set anycast0 up; sleep 0.3; done")
        lab.shell(NODE, "systemctl restart systemd-networkd; systemctl restart anycast0; sleep 1")
        assert not any(has for _, has in router.changes(at, lab.address(NODE)))
    assert "UP" not in lab.shell(NODE, "ip -brief link show anycast0").split("<")[1].split(">")[0].split(",")


# The probe's own death


def test_a_killed_probe_is_withdrawn_and_back(lab: ProbeLab) -> None:
    gone_after(lab, "systemctl kill --signal=KILL --kill-whom=main anycastlab-probe")
    lab.wait_announced(timeout_s=20)


def test_a_frozen_probe_is_caught(lab: ProbeLab) -> None:
    gone_after(lab, "systemctl kill --signal=STOP --kill-whom=main anycastlab-probe")
    lab.wait_announced(timeout_s=20)


def test_a_crash_looping_probe_stays_withdrawn(lab: ProbeLab) -> None:
    config = "/etc/anycastlab/probe.json"
    lab.shell(
        NODE,
        f"cp {config} /root/kept; echo '{{' >{config}; systemctl kill --signal=KILL --kill-whom=main anycastlab-probe",
    )
    try:
        lab.wait_announced("node01", "node03", timeout_s=5)
        time.sleep(5)
        assert lab.next_hops() == {"node01", "node03"}
        assert "probe configuration is not JSON" in lab.shell(NODE, "journalctl -u anycastlab-probe -n 20")
    finally:
        lab.shell(NODE, f"cp /root/kept {config}")
    lab.wait_announced(timeout_s=20)


# Planned work loses nothing


@pytest.mark.parametrize("work", ["restart of the resolver", "restart of the probe", "reboot"])
def test_planned_work_loses_no_query(lab: ProbeLab, work: str) -> None:
    lab.push(ROUTER, "/root/asker.py", ASKER.encode())
    script = {
        "restart of the resolver": f"systemctl restart {lab.resolver}",
        "restart of the probe": "systemctl restart anycastlab-probe",
        "reboot": "systemctl reboot",
    }[work]
    seconds = 15
    lab.shell(
        ROUTER,
        "rm -f /root/asked;"  # what another case was told
        " systemd-run --quiet --collect --unit=asker --property=StandardOutput=file:/root/asked "
        f"python3 /root/asker.py {SERVICE} nas.lan 100 {seconds} 1",
    )
    time.sleep(1)
    with watch(lab) as router:
        at = time.time()
        lab.exec(NODE, "sh", "-c", script, timeout_s=60)
        # The node was out while it lasted
        assert router.gone_at(lab.address(NODE), at, 5) is not None
    until(lambda: lab.shell(ROUTER, "cat /root/asked").strip() != "", seconds + 10)
    answered_, sent, _ = json.loads(lab.exec(ROUTER, "cat", "/root/asked").stdout)
    assert sent == 100 * seconds
    assert answered_ == sent
    lab.wait_announced(timeout_s=60)


def test_drained_survives_a_reboot_and_the_last_one_is_refused(lab: ProbeLab) -> None:
    run = runner(lab)
    drained = probe_control.drain(run, lab.nodes, NODE)
    assert (drained.state, drained.cause) == ("withdrawn", "drained")
    assert lab.next_hops() == {"node01", "node03"}
    lab.incus("restart", NODE)
    time.sleep(8)
    assert lab.next_hops() == {"node01", "node03"}
    probe_control.drain(run, lab.nodes, "node03")
    with pytest.raises(probe_control.DrainError, match="last node"):
        probe_control.drain(run, lab.nodes, "node01")
    for node in (NODE, "node03"):
        assert probe_control.undrain(run, lab.nodes, node).announced
    assert lab.next_hops() == set(lab.nodes)


# What it costs


def test_the_probe_is_small(lab: ProbeLab) -> None:
    pid = lab.shell(NODE, "systemctl show --value --property=MainPID anycastlab-probe").strip()
    ticks = f"cut -d' ' -f14,15 /proc/{pid}/stat"
    before = sum(map(int, lab.shell(NODE, ticks).split()))
    time.sleep(10)
    after = sum(map(int, lab.shell(NODE, ticks).split()))
    resident_kb = int(lab.shell(NODE, f"awk '/VmRSS/ {{print $2}}' /proc/{pid}/status"))
    assert resident_kb <= 30 * 1024
    # Of one core of this machine; a small board's core is about a fifth of it.
    assert (after - before) / 100 / 10 <= 0.02
    status = lab.shell(NODE, f"cat /proc/{pid}/status")
    assert "CapEff:\t0000000000001000" in status  # CAP_NET_ADMIN and nothing else
    assert "Uid:\t0" not in status
    # systemd's own account, of 10: what is left are the capability, the sockets and FRR's group
    lab.shell(NODE, "systemd-analyze security --no-pager --threshold=20 anycastlab-probe.service")


def until(holds: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.2)


def runner(lab: ProbeLab) -> probe_control.Run:
    """How `anycastlab probe`, `drain` and `undrain` reach these nodes."""

    def run(node: str, argv: Sequence[str]) -> tuple[int | None, str]:
        result = lab.exec(node, *argv)
        return result.returncode, result.stdout

    return run


def answered(lab: ProbeLab, machine: str, address: str, name: str) -> int:
    """1 if one query is answered."""
    lab.push(machine, "/root/asker.py", ASKER.encode())
    return int(json.loads(lab.shell(machine, f"python3 /root/asker.py {address} {name} 10 0.1 1"))[0])
