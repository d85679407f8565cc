"""Proofs see the effect of this run's fault, not of an earlier one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from anycastlab.incus.exec import Result
from anycastlab.scenarios import catalog, faults
from anycastlab.scenarios.errors import ScenarioError
from tests.unit.scenarios.doubles import FakeStage


@dataclass
class Counting(FakeStage):
    """systemd on the node has restarted the resolver so often."""

    restarts: int = 3

    def run(self, machine: str, argv: Sequence[str], limit_s: float = 0) -> Result:
        super().run(machine, argv, limit_s)
        return Result(0, f"{self.restarts}\n".encode(), b"")


@pytest.mark.parametrize(
    ("fault", "restarts", "holds"),
    [("killed", 0, False), ("killed", 1, True), ("flapping", 1, False), ("flapping", 2, True)],
)
def test_restarts_of_earlier_runs_prove_nothing(fault: str, restarts: int, holds: bool) -> None:
    stage = Counting()
    make = {"killed": faults.resolver_killed, "flapping": faults.flapping}[fault]
    (check,) = make(stage, "node02").proofs

    stage.restarts += restarts
    proof = check(stage)

    assert proof.holds is holds
    assert f" on node02 {restarts} times" in proof.sentence


@dataclass
class Saying(FakeStage):
    """Whatever is run says this."""

    said: str = ""
    code: int = 0

    def run(self, machine: str, argv: Sequence[str], limit_s: float = 0) -> Result:
        super().run(machine, argv, limit_s)
        return Result(self.code, self.said.encode(), b"cannot run")

    def on_host(self, argv: Sequence[str]) -> str:
        raise ScenarioError(f"{argv[0]} failed: No such file or directory.")


@pytest.mark.parametrize(
    ("said", "code", "holds"), [("scenario\n", 0, True), ("", 1, False), ("operator\n", 0, False), ("", 0, False)]
)
def test_a_drain_that_somebody_undid_is_none(said: str, code: int, holds: bool) -> None:
    (check,) = faults.drained("node02").proofs
    proof = check(Saying(said=said, code=code))
    assert proof.holds is holds
    assert proof.sentence == f"node02 was {'' if holds else 'no longer '}drained at the end of the fault"


def test_a_rule_that_somebody_removed_proves_nothing_and_breaks_nothing_off() -> None:
    (check,) = faults.wan_down(Saying()).proofs
    proof = check(Saying())
    assert (proof.holds, "was gone at the end of the fault" in proof.sentence) == (False, True)


@pytest.mark.parametrize(
    ("said", "code", "holds"), [("none\n", 0, True), ("0.1\n", 0, False), ("", 1, False), ("", 0, False)]
)
def test_nobody_answers_only_where_somebody_asked(said: str, code: int, holds: bool) -> None:
    (check,) = faults.router_dns_down(Saying()).proofs
    assert check(Saying(said=said, code=code)).holds is holds


def test_every_fault_that_is_not_seen_at_the_router_has_a_proof_of_its_own() -> None:
    for name in catalog.names():
        fault = catalog.find(name).fault(FakeStage())
        assert fault.proofs or fault.withdraws, name
