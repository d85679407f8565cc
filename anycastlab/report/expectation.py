"""What a run was to come to, as data beside its records, so that whoever reads them can judge it again. Pure.

A verdict alone is a word that anybody can change. With what was expected it follows from the records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from anycastlab.report.expect import Expect
from anycastlab.report.judge import Evidence, Judgement, judge
from anycastlab.report.run import Run


@dataclass(frozen=True)
class Basis:
    """All that a verdict is made from and that is in no other record of the run; for the fields see `Evidence`."""

    expect: Expect
    nodes: frozenset[str]
    withdraws: bool
    uncacheable: tuple[str, ...]
    detection_s: float


_BASIS = TypeAdapter(Basis)


def to_data(evidence: Evidence, expect: Expect) -> dict[str, Any]:
    """As JSON has it."""
    basis = Basis(expect, evidence.nodes, evidence.withdraws, evidence.uncacheable, evidence.detection_s)
    found: dict[str, Any] = json.loads(json.dumps({**asdict(basis), "nodes": sorted(evidence.nodes)}))
    return found


def from_data(data: Mapping[str, Any]) -> Basis:
    """Raises ValueError with what is wrong, without a full stop."""
    parts = ((data, Basis), (data.get("expect"), Expect))
    for part, kind in parts:
        known = {field.name for field in fields(kind)}
        if isinstance(part, Mapping) and (unknown := sorted(set(part) - known)):
            raise ValueError(f"{unknown[0]} is not known to this version")
    try:
        return _BASIS.validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ValueError(f"{where} is missing or is not what it can be") from None


def judged_again(run: Run) -> Judgement | None:
    """The verdict that the run's records come to; None where they do not say what was expected, or of no fault that
    was undone. Raises ValueError for expectations that cannot be read."""
    if run.expected is None or run.fault is None or run.fault.reverted_ns is None:
        return None
    basis = from_data(run.expected)
    evidence = Evidence(
        queries=run.queries,
        announcements=run.announcements,
        fault=run.fault,
        nodes=basis.nodes,
        # What the router saw was added to the proofs after the verdict; it is in the announcements.
        proofs=[proof for proof in run.proof if set(proof.evidence) != {"node", "seconds"}],
        withdraws=basis.withdraws,
        uncacheable=basis.uncacheable,
        detection_s=basis.detection_s,
        others_answer=basis.expect.others_answer,
    )
    return judge(evidence, basis.expect)
