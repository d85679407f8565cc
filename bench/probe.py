"""How fast the probe is: real faults on one of three real nodes, the router's kernel table as the witness.

Each figure is the median (and the worst) of `REPEATS` faults, each from a healthy home without memory of earlier ones.
Beside it stands the floor:

* `withdraw_floor_s`: from "link down" to the router's table, what even an all-knowing probe must wait;
* `first_sign_s`: from the fault to the first query that could have told of it, as sent by the probe. What lies between
  is the price of not believing one lost packet.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

from anycastlab.image.build import ensure
from anycastlab.site.topology import ROUTER_DNS
from tests.lab.probe_lab import ROUTER, SERVICE, ProbeLab
from tests.lab.route_watch import RouteWatch

LAB = "bprobe"
NODE = "node02"
REPEATS = 11
WITHIN_S = 15.0  # a fault that is not seen by then is no detection
STATE = "/run/anycastlab/probe.json"
# Answers from the router are lost; dropping the queries on their way out would be an error to who sends them.
_CUT = (
    "nft 'table inet fault { chain in { type filter hook input priority 0; "
    f"ip saddr {ROUTER_DNS} udp sport 53 drop; }}; }}'"
)
# One socket for redirected queries of the node itself (127.0.0.1) and one for those from outside.
_SLOW = """
import select, socket, sys, threading, time
def serve(server, data, sender):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5); s.connect(("127.0.0.1", 53)); s.send(data)
        reply = s.recv(4096); time.sleep(0.2); server.sendto(reply, sender)
servers = []
for host in ("127.0.0.1", sys.argv[1]):
    servers.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)); servers[-1].bind((host, 5354))
while True:
    for server in select.select(servers, [], [])[0]:
        threading.Thread(target=serve, args=(server, *server.recvfrom(4096)), daemon=True).start()
"""


@dataclass(frozen=True)
class Fault:
    """`make` breaks it, `repair` heals it; `question` is the one whose first failure is the first sign."""

    name: str
    make: str
    repair: str
    question: str = ""


def _faults(program: str, address: str) -> list[Fault]:
    redirect = f"ip daddr {address} udp dport 53 redirect to :5354;"
    slow = (
        f"nft 'table ip slow {{ chain out {{ type nat hook output priority -100; {redirect} }};"
        f" chain in {{ type nat hook prerouting priority -100; {redirect} }}; }}'"
    )
    return [
        Fault("killed_resolver", f"pkill -KILL -x {program}", "true"),
        Fault("hung_resolver", f"pkill -STOP -x {program}", f"pkill -CONT -x {program}", "resolver"),
        Fault("local_path_lost", _CUT, "nft delete table inet fault", "local"),
        Fault("slow_200ms", slow, "nft delete table ip slow"),
        Fault("killed_probe", "systemctl kill --signal=KILL --kill-whom=main anycastlab-probe", "true"),
        Fault("frozen_probe", "systemctl kill --signal=STOP --kill-whom=main anycastlab-probe", "true"),
    ]


def run() -> dict[str, Any]:
    lab = ProbeLab(name=LAB, resolver="adguardhome", image=ensure())
    lab.remove()
    try:
        lab.build()
        lab.push(NODE, "/root/slow.py", _SLOW.encode())
        lab.shell(NODE, f"systemd-run --quiet --unit=slow python3 /root/slow.py {lab.address(NODE)}")
        figures: dict[str, Any] = {"withdraw_floor_s": _floor(lab)}
        for fault in _faults("AdGuardHome", lab.address(NODE)):
            figures[fault.name] = _measure(lab, fault)
        figures |= _cost(lab)
        return figures
    finally:
        lab.remove()


def _fresh(lab: ProbeLab) -> None:
    lab.shell(
        NODE,
        f"systemctl stop anycastlab-probe; rm -f {STATE}; systemctl reset-failed; systemctl start anycastlab-probe",
    )
    lab.wait_announced(timeout_s=60)
    time.sleep(1)


def _watch(lab: ProbeLab) -> RouteWatch:
    return RouteWatch(["incus", "--project", lab.lab.project, "exec", "-T", ROUTER, "--"], str(SERVICE))


def _do(lab: ProbeLab, script: str) -> float:
    return float(lab.shell(NODE, f"date +%s.%N; {script}").split()[0])


def _floor(lab: ProbeLab) -> float:
    times = []
    for _ in range(REPEATS):
        _fresh(lab)
        with _watch(lab) as router:
            at = _do(lab, "ip link set anycast0 down")
            gone = router.gone_at(lab.address(NODE), at, WITHIN_S)
        times.append((gone or at + WITHIN_S) - at)
    return statistics.median(times)


def _measure(lab: ProbeLab, fault: Fault) -> dict[str, float]:
    gone, back, signs = [], [], []
    for _ in range(REPEATS):
        _fresh(lab)
        with _watch(lab) as router:
            at = _do(lab, fault.make)
            left = router.gone_at(lab.address(NODE), at, WITHIN_S)
            gone.append((left or at + WITHIN_S) - at)
            if fault.question:
                time.sleep(0.5)
                signs.append(_first_sign(lab, fault.question, at) - at)
            repaired = _do(lab, fault.repair)
            seen = router.present_at(lab.address(NODE), max(repaired, left or repaired), 2 * WITHIN_S)
            back.append((seen or repaired + 2 * WITHIN_S) - (repaired if fault.repair != "true" else at))
    figures = {"gone_s": statistics.median(gone), "gone_worst_s": max(gone), "back_s": statistics.median(back)}
    if signs:
        figures["first_sign_s"] = statistics.median(signs)
    return figures


def _first_sign(lab: ProbeLab, question: str, after: float) -> float:
    """When the first of the queries was sent that led to "not good": the probe's own journal, counted back."""
    asked = getattr(lab.probe_config(NODE).questions, question)
    journal = lab.shell(NODE, "journalctl -u anycastlab-probe -o short-unix -n 40 --no-pager")
    for line in journal.splitlines():
        if f"event=question question={question} good=false" in line and (at := float(line.split()[0])) > after:
            return at - asked.timeout_s - (asked.fall - 1) * asked.interval_s
    raise RuntimeError(f"the probe did not notice that {question} failed")


def _cost(lab: ProbeLab) -> dict[str, float]:
    pid = lab.shell(NODE, "systemctl show --value --property=MainPID anycastlab-probe").strip()
    ticks = f"cut -d' ' -f14,15 /proc/{pid}/stat"
    before = sum(map(int, lab.shell(NODE, ticks).split()))
    seconds = 30
    time.sleep(seconds)
    after = sum(map(int, lab.shell(NODE, ticks).split()))
    resident_kb = int(lab.shell(NODE, f"awk '/VmRSS/ {{print $2}}' /proc/{pid}/status"))
    return {"resident_mb": resident_kb / 1024, "core_percent": 100 * (after - before) / 100 / seconds}
