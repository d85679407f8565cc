"""Runs as scenarios would leave them, made by the real sender against a home in memory: nodes, a router that spreads
flows over whoever is announced, and a fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from zlib import crc32

from anycastlab.phone import mix, records, schedule, summary
from anycastlab.phone.schedule import Parameters
from anycastlab.phone.sender import Sender, Setup
from anycastlab.phone.servers import Server
from anycastlab.phone.testing import Answer, MemoryNetwork, Request
from anycastlab.report.expect import Expect
from anycastlab.report.run import Announcement, FaultWindow, Proof, Run, Verdict

NS = 1_000_000_000
IDENTITY = "id.anycast.lan"
ANYTHING = Expect(others_answer=True)
NODES = ("node01", "node02", "node03")
START_NS = 5 * NS
LAB = mix.load("lab")
ENTRIES = {e.name.removeprefix("{random}."): e for e in LAB.entries}


@dataclass
class Home:
    """Seconds count from the start of the run. `dead` nodes receive and never answer from `fault_s` to `revert_s`."""

    nodes: tuple[str, ...] = NODES
    dead: tuple[str, ...] = ()
    fault_s: float = 10.0
    revert_s: float = 30.0
    withdrawn_after_s: float = 0.87
    returned_after_s: float = 1.3
    redirect_after_s: float | None = None  # the last resort
    wan_down: bool = False

    def announced(self, node: str, at_s: float) -> bool:
        gone = self.fault_s + self.withdrawn_after_s <= at_s < self.revert_s + self.returned_after_s
        return not (node in self.dead and gone)

    def answer(self, request: Request) -> Iterable[Answer]:
        at_s = (request.at_ns - START_NS) / NS
        broken = self.fault_s <= at_s < self.revert_s
        alive = [node for node in self.nodes if self.announced(node, at_s)]
        local = request.name.endswith(".lan")
        jitter_ms = (crc32(b"%d" % request.flow) % 100) / 100
        if not alive:
            if self.redirect_after_s is None or at_s < self.fault_s + self.redirect_after_s:
                return []
            if request.name == IDENTITY:
                return [Answer(request.reply(data=None, rcode=3))]
            return [Answer(_right(request), 3 + 2 * jitter_ms)]
        node = alive[crc32(b"%d node" % request.flow) % len(alive)]
        if node in self.dead and broken:
            return []
        if request.name == IDENTITY:
            return [Answer(request.reply(f'"{node}"'), 0.4)]
        if ".rnd." in request.name:
            if self.wan_down and broken:
                return [Answer(request.reply(data=None, rcode=2), 1900 + jitter_ms)]
            return [Answer(_right(request), 36 + 4 * jitter_ms)]
        return [Answer(_right(request), (0.9 if local else 0.4) + jitter_ms)]

    def log(self) -> tuple[Announcement, ...]:
        events = [Announcement(START_NS - NS, node, True) for node in self.nodes]
        for node in self.dead:
            events.append(Announcement(_at(self.fault_s + self.withdrawn_after_s), node, False))
            events.append(Announcement(_at(self.revert_s + self.returned_after_s), node, True))
        return tuple(sorted(events, key=lambda event: event.time_ns))


def run(
    scenario: str,
    title: str,
    what: str,
    home: Home,
    *,
    number: int = 1,
    rate: float = 20.0,
    expect: Expect = ANYTHING,
    **changes: object,
) -> Run:
    parameters = Parameters(rate=rate, duration_s=45, seed=number, nonce="sample", mix=LAB)
    network = MemoryNetwork(home.answer)
    sender = Sender(Setup((Server("10.1.9.53", 53),)), schedule.make(parameters), network)
    queries = tuple(_blur(record) for record in sender.run(START_NS))
    about = {
        "schedule": {"rate": rate, "seed": number, "mix": "lab", "timeout_s": 2.0, "servers": ["10.1.9.53"]},
        "clock": {"start_monotonic_ns": START_NS, "start_utc": "2026-11-29T21:19:29.000Z"},
    }
    made = Run(
        scenario=scenario,
        title=title,
        verdict=Verdict.OK,
        reason="",
        number=number,
        fault=FaultWindow(what, home.dead, _at(home.fault_s), _at(home.revert_s)),
        proof=(
            Proof(True, "The router sent 14 packets of this client to node01, which dropped them.", {"packets": 14}),
        ),
        queries=queries,
        announcements=home.log(),
        phone=summary.document(queries, about, interrupted=False, stray=0),
        settings={"bfd": "3 x 300 ms", "layout": "routed", "last resort": "on"},
        versions={"FRR": "10.3", "AdGuard Home": "0.107.79"},
        machine={"host": "lab", "kernel": "6.18", "cpus": "2"},
        expected={
            "expect": json.loads(json.dumps(asdict(expect))),
            "nodes": list(home.nodes),
            "withdraws": bool(home.dead),
            "uncacheable": [],
            "detection_s": 0.9,
        },
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@cache
def several() -> tuple[Run, ...]:
    """A report's worth: repeats, a failed and a void run, the last resort, names with every character that bites."""
    freeze = [
        run(
            "freeze",
            "Freeze the serving node",
            "node01 frozen",
            Home(dead=("node01",), withdrawn_after_s=after),
            number=n,
        )
        for n, after in ((1, 0.87), (2, 0.79), (3, 0.95))
    ]
    return (
        run("kill", "Kill the serving node", "node02 killed", Home(dead=("node02",), withdrawn_after_s=0.0)),
        *freeze,
        run("all-dead", "Every node dead, last resort on", "all nodes dead", Home(dead=NODES, redirect_after_s=1.05)),
        run(
            "all-dead-no-last-resort", "Every node dead, no last resort", "all nodes dead", Home(dead=NODES),
            expect=Expect(outage_most_s=1.5),
            verdict=Verdict.FAILED, reason="Expected at most 1.5 s without DNS & got <20 s>.",
        ),
        run("wan-down", "The internet is gone", "WAN down", Home(wan_down=True)),
        run(
            "freeze-idle", "Freeze a node the client does not use", "node03 frozen", Home(dead=("node03",)),
            verdict=Verdict.VOID, reason="No packet of the client met the fault.",
            proof=(Proof(False, "The rule on node03 matched 0 packets."),),
        ),
    )  # fmt: skip


def _right(request: Request) -> bytes:
    entry = ENTRIES.get(request.name) or ENTRIES[request.name.partition(".")[2]]
    (data,) = entry.data or (b"\x00\x00\x00\x00",)
    return request.reply(".".join(str(octet) for octet in data))


def _blur(record: records.Record) -> records.Record:
    """A phone is never exactly on time."""
    return (
        record
        if record.sent_ns is None
        else replace(record, sent_ns=record.sent_ns + 80_000 + record.query % 7 * 9_000)
    )


def _at(seconds: float) -> int:
    return START_NS + round(seconds * NS)
