"""A lab, a household and a guard that exist only in memory, and runs as they would have been recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from anycastlab.incus.exec import Result
from anycastlab.incus.spec import Lab
from anycastlab.phone.records import Outcome, Record
from anycastlab.report.judge import Evidence
from anycastlab.report.run import Announcement, FaultWindow
from anycastlab.scenarios.actions import Action
from anycastlab.scenarios.model import PhoneUse
from anycastlab.scenarios.recorder import Recording
from anycastlab.site import Site
from tests.unit.node.homes import home

NS = 1_000_000_000
NODES = ("node01", "node02", "node03")
STEP_S = 0.05


class BrokenError(Exception):
    """What a test makes go wrong."""


@dataclass
class FakeStage:
    """Its clock moves by sleeping and by acting. `log` holds everything that happened, in order."""

    log: list[Any] = field(default_factory=list)
    fails_at: Callable[[Action], bool] = lambda _: False
    site: Site = field(default_factory=home)
    lab: Lab = field(default_factory=Lab)
    serving: str = "node02"
    now: int = 1000 * NS
    action_s: float = 0.1

    def do(self, *actions: Action) -> None:
        for action in actions:
            self.now += round(self.action_s * NS)
            if self.fails_at(action):
                self.log.append(("broke", action))
                raise BrokenError(str(action))
            self.log.append(action)

    def run(self, machine: str, argv: Sequence[str], limit_s: float = 0) -> Result:  # noqa: ARG002
        self.log.append((machine, tuple(argv)))
        return Result(0, b"", b"")

    def power_of(self, machine: str) -> str:  # noqa: ARG002
        return "Running"

    def on_host(self, argv: Sequence[str]) -> str:
        self.log.append(("host", tuple(argv)))
        return '{"nftables": []}'

    def host_interface(self, machine: str) -> str:
        return f"lab-{machine}-eth0"

    def serving_node(self) -> str:
        return self.serving

    def now_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * NS)


@dataclass
class FakeInstruments:
    """A phone and a route watch that record a household which loses nothing."""

    stage: FakeStage
    lead_s: float = 2.5
    fails: str = ""
    asked: list[tuple[PhoneUse, float, float, int]] = field(default_factory=list)
    changes: tuple[Announcement, ...] = ()  # of routes, during the run

    def start(self, use: PhoneUse, rate: float, seconds: float, seed: int) -> int:
        self.asked.append((use, rate, seconds, seed))
        self._step("start")
        self.start_ns = self.stage.now + round(self.lead_s * NS)
        return self.start_ns

    def finish(self) -> Recording:
        self._step("finish")
        end = self.stage.now
        queries = tuple(
            queries_at(self.start_ns + n * round(STEP_S * NS) for n in range(int((end - self.start_ns) / NS / STEP_S)))
        )
        before = tuple(Announcement(0, node, True) for node in NODES)
        return Recording(queries, {"clock": {}}, (*before, *self.changes))

    def clean(self) -> None:
        self.stage.log.append("clean")

    def _step(self, name: str) -> None:
        self.stage.log.append(name)
        if self.fails == name:
            raise BrokenError(name)


@dataclass
class FakeGuard:
    """Undoes on leaving what it was armed with, as the real one does."""

    stage: FakeStage
    fails: bool = False
    _actions: tuple[Action, ...] = ()

    def __enter__(self) -> FakeGuard:
        self.stage.log.append("guarded")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
        self.stage.log.append("unguarded")

    def arm(self, actions: Sequence[Action]) -> None:
        if self.fails:
            raise BrokenError("arm")
        self._actions = tuple(actions)
        self.stage.log.append("armed")

    def undo(self) -> None:
        for action in self._actions:
            self.stage.log.append(("undone", action))
        self._actions = ()


# Runs as they would have been recorded --------------------------------------------------------------------------------


def queries_at(times: Iterable[int]) -> Iterable[Record]:
    """One answered query at each time; nodes in turns, kinds as in the household's mix."""
    kinds = ("popular",) * 6 + ("uncached",) * 2 + ("local",) * 2
    for number, at in enumerate(times):
        kind = kinds[number % 10]
        name = f"{kind}.example" if kind != "uncached" else f"n{number}.rnd.example"
        yield Record(
            query=number, client="wire", server="10.1.9.53", name=name, type="A", kind=kind, intended_ns=at,
            sent_ns=at + 100_000, latency_ms=2.0, outcome=Outcome.ANSWERED, rcode="NOERROR", node=NODES[number % 3],
            truncated=False, duplicates=0, discarded=0, tries=1, felt=Outcome.ANSWERED, felt_ms=2.0, note="",
        )  # fmt: skip


def good(**changes: Any) -> Evidence:
    """A run without fault: 5 s calm, node02 killed for 10 s, withdrawn after 0.2 s, 10 s calm; nothing lost."""
    start, began, reverted, end = (round(second * NS) for second in (100, 105, 115, 125))
    step = round(STEP_S * NS)
    evidence = Evidence(
        queries=tuple(queries_at(range(start, end, step))),
        announcements=(
            *(Announcement(start - NS, node, True) for node in NODES),
            Announcement(began + NS // 5, "node02", False),
            Announcement(reverted + 5 * NS, "node02", True),
        ),
        fault=FaultWindow("node02 killed", ("node02",), began, reverted),
        nodes=frozenset(NODES),
        withdraws=True,
    )
    return replace(evidence, **changes)


def spoiled(evidence: Evidence, outcome: Outcome, chosen: Callable[[Record, float], bool]) -> Evidence:
    """The queries that `chosen` picks (by record and seconds since the fault) end with `outcome`."""
    began = evidence.fault.began_ns
    return replace(
        evidence,
        queries=tuple(
            replace(r, outcome=outcome, latency_ms=None) if chosen(r, (r.intended_ns - began) / NS) else r
            for r in evidence.queries
        ),
    )
