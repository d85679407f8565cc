"""Evidence that a fault had its effect, gathered while it is in force.

A fault that nobody checked may have hit nothing: a rule that never matched, a container that was not running anyway.
Each function here makes one check; its `Proof` says in a sentence what was seen, whether it holds, and the figures.
"""

from __future__ import annotations

import json
import statistics

from anycastlab.report.run import Proof
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.model import Check
from anycastlab.scenarios.stage import Stage

# nftables family and table of everything a fault drops; one per fault, so a leftover is recognised.
TABLE = "anycastlab_{lab}_{name}"


def power_is(machine: str, state: str) -> Check:
    """The instance is in Incus' state `state`."""

    def check(stage: Stage) -> Proof:
        seen = stage.power_of(machine)
        return Proof(seen == state, f"{machine} was {seen.lower()}", {"machine": machine, "state": seen})

    return check


def packets_dropped(family: str, table: str, what: str) -> Check:
    """The drop rules of `table` on this host matched at least one packet."""

    def check(stage: Stage) -> Proof:
        name = table.format(lab=stage.lab.name)
        try:
            packets = _counted(stage.on_host(["nft", "-j", "list", "table", family, name]))
        except ScenarioError:
            return Proof(False, f"the rule that dropped packets {what} was gone at the end of the fault")
        return Proof(packets > 0, f"{packets} packets {what} were dropped", {"packets": packets})

    return check


def _counted(listing: str) -> int:
    """Packets that all counters of an `nft -j list table` have seen."""
    total = 0
    for item in json.loads(listing)["nftables"]:
        for part in item.get("rule", {}).get("expr", []):
            if isinstance(part.get("counter"), dict):
                total += int(part["counter"]["packets"])
    return total


def restarted(stage: Stage, machine: str, unit: str, least: int = 1) -> Check:
    """systemd has restarted the unit since now: its process really died. Only restarts by themselves are counted."""
    before = _restarts(stage, machine, unit)

    def check(stage: Stage) -> Proof:
        seen = _restarts(stage, machine, unit) - before
        return Proof(seen >= least, f"systemd restarted {unit} on {machine} {seen} times", {"restarts": seen})

    return check


def _restarts(stage: Stage, machine: str, unit: str) -> int:
    text = stage.run(machine, ["systemctl", "show", "-p", "NRestarts", "--value", unit]).text.strip()
    return int(text or 0)


def slow_answers(machine: str, address: str, name: str, least_s: float, tries: int = 7) -> Check:
    """A resolver that is asked at its own address from the client answers, and its median takes at least `least_s`."""

    def check(stage: Stage) -> Proof:
        try:
            asked = [seconds_to_answer(stage, address, name) for _ in range(tries)]
        except ScenarioError as error:
            return Proof(False, str(error).rstrip("."))
        took = [seconds for seconds in asked if seconds is not None]
        if not took:
            return Proof(False, f"{machine} gave no answer at all", {"answers": 0})
        median = statistics.median(took)
        return Proof(median >= least_s, f"{machine} answered in {median:.3f} s (median)", {"seconds": took})

    return check


def no_answer(address: str, name: str, what: str) -> Check:
    """Nobody answers `name` at `address`, asked from the client."""

    def check(stage: Stage) -> Proof:
        try:
            took = seconds_to_answer(stage, address, name)
        except ScenarioError as error:
            return Proof(False, str(error).rstrip("."))  # nobody was asked, so that nobody answered shows nothing
        return Proof(took is None, f"{what}: {'no answer' if took is None else 'an answer came'}", {"seconds": took})

    return check


_ASK = """
import random, sys, time, dns.exception, dns.message, dns.query, dns.rcode
address, name = sys.argv[1:]
name = name.replace("{random}", f"x{random.getrandbits(48):x}")
for _ in range(2):  # one packet may get lost
    begun = time.monotonic()
    try:
        reply = dns.query.udp(dns.message.make_query(name, "A"), address, timeout=1.5)
        good = reply.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)
    except (dns.exception.DNSException, OSError):
        good = False
    if good:
        break
print(time.monotonic() - begun if good else "none")
"""


def seconds_to_answer(stage: Stage, address: str, name: str) -> float | None:
    """Asked from the lab's client; None without a good answer. `{random}` in the name becomes an unseen label.

    Raises ScenarioError when the client could not ask.
    """
    from anycastlab.scenarios.stage import CLIENT

    result = stage.run(CLIENT, ["python3", "-c", _ASK, address, name])
    said = result.text.strip()
    try:
        return None if said == "none" else float(said)
    except ValueError:
        raise ScenarioError(f"{CLIENT} could not ask {address}: {result.complaint}.") from None


def file_says(machine: str, path: str, text: str, what: str) -> Check:
    """A file on the machine has that one line, still: what made the fault was not taken away meanwhile."""

    def check(stage: Stage) -> Proof:
        result = stage.run(machine, ["cat", path])
        holds = result.ok and result.text.strip() == text
        return Proof(holds, f"{machine} was {'' if holds else 'no longer '}{what} at the end of the fault")

    return check
