"""A run's files as somebody leaves them who wants it to look good, or a disk that lost a block: refused by name."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anycastlab.phone import summary
from anycastlab.phone.records import Outcome
from anycastlab.report import expectation, reading, run, tables
from anycastlab.report.expect import Expect
from anycastlab.report.expectation import Basis
from anycastlab.report.judge import Evidence
from anycastlab.report.run import FaultWindow, Proof, ReportError, Run, Verdict
from anycastlab.scenarios import catalog
from tests.unit.report import samples

Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def freeze() -> Run:
    return samples.run("freeze", "Freeze the serving node", "node01 frozen", samples.Home(dead=("node01",)))


@pytest.fixture(scope="module")
def written(freeze: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "run-1"
    run.write(freeze, path)
    return path


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "run-1")


def edit_lines(path: Path, edit: Callable[[Lines], Lines | None]) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    edited = edit(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in (lines if edited is None else edited)))


def refusal(folder: Path) -> str:
    with pytest.raises(ReportError) as caught:
        reading.read(folder)
    assert "run-1" in caught.value.problem
    return caught.value.problem


def first(lines: Lines, outcome: str) -> dict[str, Any]:
    return next(line for line in lines if line["outcome"] == outcome)


def lost_is_answered(lines: Lines) -> None:
    for line in lines:
        if line["outcome"] == "lost":
            line["outcome"] = line["felt"] = "answered"


def lost_is_answered_well(lines: Lines) -> None:
    for line in lines:
        if line["outcome"] == "lost":
            line.update(outcome="answered", felt="answered", latency_ms=0.4, felt_ms=0.4, rcode="NOERROR")


def one_lost_is_stalled_and_one_stall_less(lines: Lines) -> None:
    first(lines, "lost").update(outcome="late", latency_ms=2001.0, rcode="NOERROR")


def overwritten_by_copies(lines: Lines) -> None:
    good = [line for line in lines if line["outcome"] == "answered"]
    for position, line in enumerate(lines):
        if line["outcome"] == "lost":
            lines[position] = good[position % len(good)]


def shuffled(lines: Lines) -> None:
    random.Random(1).shuffle(lines)


def served_by_another(lines: Lines) -> None:
    next(line for line in lines if line["node"] == "node02")["node"] = "node03"


def moved(lines: Lines) -> None:
    lines[200]["intended_ns"] = lines[199]["intended_ns"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lost_is_answered, "is answered, but no answer to it is recorded"),
        (lost_is_answered_well, "the phone counted"),
        (one_lost_is_stalled_and_one_stall_less, "the phone counted 0 late, and its records have 1"),
        (overwritten_by_copies, "is in the records twice"),
        (shuffled, "stands where query 0 must be"),
        (lambda lines: list(reversed(lines)), "stands where query 0 must be"),
        (lambda lines: lines[:500], "500 of the 900 queries that the phone sent"),
        (lambda lines: [line for line in lines if line["outcome"] != "lost"], "stands where query"),
        (moved, "query 200 was due no later than query 199 before it"),
        (lambda lines: first(lines, "answered").update(latency_ms=700.0), "is answered after 700 ms"),
        (lambda lines: first(lines, "lost").update(latency_ms=1.0), "is lost, but an answer to it is recorded"),
        (lambda lines: first(lines, "answered").update(sent_ns=None), "is answered and was never sent"),
        (lambda lines: lines[10].update(sent_ns=lines[9]["intended_ns"]), "query 10 was sent before it was due"),
        (served_by_another, "the phone's shares of the nodes"),
        (lambda lines: first(lines, "lost").update(felt="answered"), "what the phone says was felt"),
        (lambda lines: lines[10].update(sent_ns=lines[10]["intended_ns"] + 737_000_000), "the phone's own lateness"),
        (lambda lines: lines[10].update(latency_ms=-5), "latency_ms cannot be -5"),
        (lambda lines: lines[10].update(latency_ms=float("inf")), "latency_ms cannot be Infinity"),
        (lambda lines: lines[10].update(query=-5), "query cannot be -5"),
    ],
)  # fmt: skip
def test_records_that_were_touched_are_refused(folder: Path, edit: Callable[[Lines], Lines | None], said: str) -> None:
    edit_lines(folder / run.QUERIES_FILE, edit)
    assert said in refusal(folder)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (shuffled, "of announcements.jsonl is earlier than the line before it"),
        (lambda lines: [*lines, lines[-1]], "says again that node01 is announced"),
        (lambda lines: [line for line in lines if line["announced"]], "says again that node01 is announced"),
        (lambda lines: lines[0].update(time_ns=-5), "line 1 is not an announcement"),
    ],
)
def test_a_view_of_the_router_that_was_touched_is_refused(
    folder: Path, edit: Callable[[Lines], Lines | None], said: str
) -> None:
    edit_lines(folder / run.ANNOUNCEMENTS_FILE, edit)
    assert said in refusal(folder)


def rewrite(folder: Path, freeze: Run, **changes: object) -> None:
    run.write(replace(freeze, **changes), folder)  # type: ignore[arg-type]


def test_an_end_before_the_beginning_is_refused(folder: Path, freeze: Run) -> None:
    fault = freeze.fault
    assert fault is not None
    assert fault.reverted_ns is not None
    rewrite(folder, freeze, fault=replace(fault, began_ns=fault.reverted_ns, reverted_ns=fault.began_ns))
    assert "the fault in run.json ended before it began" in refusal(folder)


def test_an_ok_beside_a_proof_that_does_not_hold_is_refused(folder: Path, freeze: Run) -> None:
    rewrite(folder, freeze, proof=(*freeze.proof, Proof(False, "node01 was running.")))
    assert "its verdict is OK, and a proof does not hold: node01 was running." in refusal(folder)


def test_an_ok_without_any_proof_is_refused(folder: Path, freeze: Run) -> None:
    rewrite(folder, freeze, proof=())
    assert "its verdict is OK, and nothing proves that the fault was real" in refusal(folder)


@pytest.mark.parametrize(("packets", "holds"), [(0, True), (14, False), ("many", True), (-3, True)])
def test_a_proof_that_its_own_figure_does_not_bear_out_is_refused(
    folder: Path, freeze: Run, packets: object, holds: bool
) -> None:
    rewrite(folder, freeze, proof=(Proof(holds, "Packets were dropped.", {"packets": packets}),), verdict=Verdict.VOID)
    assert "proof 1 says that it " in refusal(folder)


def test_a_proof_by_the_routers_view_is_computed_again(folder: Path, freeze: Run) -> None:
    proof = Proof(True, "the router lost its route through node01 after 0.870 s", {"node": "node01", "seconds": 0.87})
    rewrite(folder, freeze, proof=(proof,))
    assert reading.read(folder).proof == (proof,)
    rewrite(folder, freeze, proof=(replace(proof, evidence={"node": "node01", "seconds": 0.1}),))
    assert "that the router lost node01 after 0.1 s, and its view has: after 0.87 s" in refusal(folder)
    rewrite(folder, freeze, proof=(replace(proof, evidence={"node": "node02", "seconds": 0.1}),))
    assert "its view has: never" in refusal(folder)


def late(freeze: Run, every: int) -> Run:
    """The phone left 737 ms late, and its own summary says so."""
    queries = tuple(
        record
        if record.sent_ns is None or record.query % every or record.outcome is not Outcome.ANSWERED
        else replace(record, sent_ns=record.intended_ns + 737_000_000)
        for record in freeze.queries
    )
    about = {key: freeze.phone[key] for key in ("schedule", "clock")}
    return replace(freeze, queries=queries, phone=summary.document(queries, about, interrupted=False, stray=0))


@pytest.mark.parametrize(
    ("every", "said"), [(20, "The phone was late: 737.0 ms (p99)"), (300, "stood still for 0.737")]
)
def test_an_ok_with_a_phone_that_was_late_is_refused(folder: Path, freeze: Run, every: int, said: str) -> None:
    run.write(late(freeze, every), folder)
    assert said in refusal(folder)
    # As what it is, it may stand in a report
    run.write(replace(late(freeze, every), verdict=Verdict.VOID, reason="The phone was late."), folder)
    assert reading.read(folder).verdict is Verdict.VOID


def test_a_run_that_does_not_say_what_was_sent_is_refused(folder: Path, freeze: Run) -> None:
    rewrite(folder, freeze, phone={key: value for key, value in freeze.phone.items() if key != "counts"})
    assert "run.json does not say how many queries the phone sent" in refusal(folder)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", [run.RUN_FILE, run.QUERIES_FILE, run.ANNOUNCEMENTS_FILE])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (fifo, "it is no regular file"),
        (folder_instead, "it is a folder"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00binary\n"), ""),
        (lambda path: path.write_text("[" * 100_000 + "\n"), ""),
        (lambda path: path.write_text('{"a":' * 100_000 + "\n"), ""),
        (lambda path: path.write_text("[1]\n"), ""),
        (lambda path: path.write_text("1" * 10_000 + "\n"), ""),
        (lambda path: path.write_bytes(b" " * (1 << 21) + b"\n"), ""),
        (lambda path: path.write_text("NaN\n"), ""),
        (lambda path: path.write_text('"x"\n'), ""),
    ],
)
def test_files_of_any_kind_are_one_plain_sentence(
    folder: Path, name: str, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder / name)
    problem = refusal(folder)
    assert said in problem
    assert problem.endswith(".")
    for python in ("Error(", "<class", "{'", "['", "None", "Traceback", "dict", "object at"):
        assert python not in problem


# A verdict is not a word but what the records come to, with what was expected of the run beside them.

NO_OUTAGE = Expect(outage_most_s=0.1, others_answer=True)


def edit_document(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((folder / run.RUN_FILE).read_text())
    edit(document)
    (folder / run.RUN_FILE).write_text(json.dumps(document))


@pytest.fixture(scope="module")
def written_failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `freeze`, which loses names for longer than was allowed."""
    made = samples.run(
        "freeze", "Freeze the serving node", "node01 frozen", samples.Home(dead=("node01",)),
        expect=NO_OUTAGE, verdict=Verdict.FAILED, reason="Felt outage 2.9 s; at most 0.1 s may be.",
    )  # fmt: skip
    path = tmp_path_factory.mktemp("failed") / "run-1"
    run.write(made, path)
    return path


@pytest.fixture
def failed(written_failed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written_failed, tmp_path / "run-1")


def test_a_failed_run_is_read_as_failed(failed: Path) -> None:
    assert reading.read(failed).verdict is Verdict.FAILED


def test_a_failed_run_that_is_edited_to_ok_is_refused(failed: Path) -> None:
    edit_document(failed, lambda document: document.update(verdict="ok", reason=""))
    assert "its verdict is OK, and its records come to FAILED: Felt outage" in refusal(failed)


def test_a_failed_run_that_is_edited_to_void_is_refused(failed: Path) -> None:
    edit_document(failed, lambda document: document.update(verdict="void"))
    assert "its verdict is VOID, and its records come to FAILED" in refusal(failed)


def test_an_ok_without_a_fault_is_refused(failed: Path) -> None:
    edit_document(failed, lambda document: document.update(verdict="ok", fault=None, proof=[]))
    assert "its verdict is OK, and no fault that was undone is in it" in refusal(failed)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expect", None), ("expect", []), ("expect", {"outage_most_s": "short"}), ("expect", {"lost_most": 1.5}),
        ("expect", {"lost_at_most": 3}), ("nodes", "node01"), ("nodes", [7]), ("detection_s", None), ("more", 1),
        ("withdraws", "yes"), ("uncacheable", {}),
    ],
)  # fmt: skip
def test_expectations_that_are_none_are_refused_by_name(failed: Path, key: str, value: object) -> None:
    edit_document(failed, lambda document: document["expected"].update({key: value}))
    assert "what was expected of it cannot be read from run.json: " in refusal(failed)


@pytest.mark.parametrize("value", [[], "x", 7, True])
def test_expectations_of_another_type_are_refused(failed: Path, value: object) -> None:
    edit_document(failed, lambda document: document.update(expected=value))
    assert "expected is" in refusal(failed)


def test_an_older_run_without_expectations_is_shown_and_said_to_be_so(failed: Path) -> None:
    edit_document(failed, lambda document: document.pop("expected"))
    old = reading.read(failed)
    assert tables.reasons(tables.group([old]))[-1].endswith(
        "for the run does not say what was expected: freeze, run 1."
    )


def test_what_a_scenario_expects_survives_its_way_through_a_file() -> None:
    for one in catalog.every():
        evidence = Evidence((), (), FaultWindow("x", (), 1), frozenset({"node01"}), detection_s=0.9)
        data = json.loads(json.dumps(expectation.to_data(evidence, one.expect)))
        assert expectation.from_data(data) == Basis(one.expect, frozenset({"node01"}), False, (), 0.9)
