"""Run directories: what is written is read again, and what is damaged is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from anycastlab.phone import records
from anycastlab.report import run
from anycastlab.report.run import ReportError, Run
from tests.unit.report import samples


@pytest.fixture(scope="module")
def freeze() -> Run:
    return samples.run("freeze", "Freeze the serving node", "node01 frozen", samples.Home(dead=("node01",)))


def test_a_run_survives_the_disk(freeze: Run, tmp_path: Path) -> None:
    run.write(freeze, tmp_path / "deep" / "run-1")

    assert run.read(tmp_path / "deep" / "run-1") == freeze


def test_a_run_without_a_fault_survives_too(freeze: Run, tmp_path: Path) -> None:
    calm = replace(freeze, fault=None, proof=(), announcements=())
    run.write(calm, tmp_path)

    assert run.read(tmp_path) == calm


def test_queries_may_be_csv(freeze: Run, tmp_path: Path) -> None:
    run.write(freeze, tmp_path)
    (tmp_path / run.QUERIES_FILE).unlink()
    with (tmp_path / run.QUERIES_CSV).open("w", newline="") as out:
        records.write_csv(freeze.queries, out)

    assert run.read(tmp_path).queries == freeze.queries


def test_runs_are_found_below_a_folder_once_and_in_order(freeze: Run, tmp_path: Path) -> None:
    for name in ("b/run-1", "a/run-2", "a/run-1"):
        run.write(replace(freeze, queries=freeze.queries[:1]), tmp_path / name)

    found = run.find([tmp_path, tmp_path / "a" / "run-1"])

    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/run-1", "a/run-2", "b/run-1"]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=f"No run in {tmp_path}"):
        run.find([tmp_path])


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("run.json", "{", "is damaged"),
        ("run.json", "[]", "does not describe a run"),
        ("run.json", '{"format": 99}', "format 99"),
        ("queries.jsonl", "{}\n", "Line 1 of the records"),
        ("announcements.jsonl", '{"time_ns": 1.5, "node": "a", "announced": true}\n', "line 1 of announcements.jsonl"),
        ("announcements.jsonl", '\n{"node": "a"}\n', "line 2 of announcements.jsonl"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(
    freeze: Run, tmp_path: Path, file: str, text: str, sentence: str
) -> None:
    run.write(freeze, tmp_path)
    (tmp_path / file).write_text(text)

    with pytest.raises(ReportError) as caught:
        run.read(tmp_path)

    assert sentence in caught.value.problem
    assert str(tmp_path) in caught.value.problem


@pytest.mark.parametrize("missing", [run.RUN_FILE, run.QUERIES_FILE, run.ANNOUNCEMENTS_FILE])
def test_an_unfinished_run_is_refused_with_the_missing_file(freeze: Run, tmp_path: Path, missing: str) -> None:
    run.write(freeze, tmp_path)
    (tmp_path / missing).unlink()

    with pytest.raises(ReportError, match=missing):
        run.read(tmp_path)


def test_an_unknown_verdict_is_refused(freeze: Run, tmp_path: Path) -> None:
    run.write(freeze, tmp_path)
    document = json.loads((tmp_path / run.RUN_FILE).read_text())
    (tmp_path / run.RUN_FILE).write_text(json.dumps({**document, "verdict": "fine"}))

    with pytest.raises(ReportError, match="'fine' is not a valid Verdict"):
        run.read(tmp_path)
