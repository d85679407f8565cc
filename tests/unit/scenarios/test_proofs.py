"""Proofs see the effect of this run's fault, not of an earlier one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from anycastlab.incus.exec import Result
from anycastlab.scenarios import faults
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
