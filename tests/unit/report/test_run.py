"""Run directories: what is written is read again, and what is damaged is refused by name."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anycastlab.outside_text import MOST_NAME, MOST_NAMES
from anycastlab.phone import records
from anycastlab.report import reading, run
from anycastlab.report.run import ReportError, Run
from tests.unit.report import samples


@pytest.fixture(scope="module")
def freeze() -> Run:
    return samples.run("freeze", "Freeze the serving node", "node01 frozen", samples.Home(dead=("node01",)))


def test_a_run_survives_the_disk(freeze: Run, tmp_path: Path) -> None:
    run.write(freeze, tmp_path / "deep" / "run-1")

    assert reading.read(tmp_path / "deep" / "run-1") == freeze


def test_a_run_without_a_fault_survives_too(freeze: Run, tmp_path: Path) -> None:
    calm = replace(freeze, fault=None, proof=(), announcements=(), expected=None)
    run.write(calm, tmp_path)

    assert reading.read(tmp_path) == calm


def test_queries_may_be_csv(freeze: Run, tmp_path: Path) -> None:
    run.write(freeze, tmp_path)
    (tmp_path / run.QUERIES_FILE).unlink()
    with (tmp_path / run.QUERIES_CSV).open("w", newline="") as out:
        records.write_csv(freeze.queries, out)

    assert reading.read(tmp_path).queries == freeze.queries


def test_runs_are_found_below_a_folder_once_and_in_order(freeze: Run, tmp_path: Path) -> None:
    for name in ("b/run-1", "a/run-2", "a/run-1"):
        run.write(replace(freeze, queries=freeze.queries[:1]), tmp_path / name)

    found = reading.find([tmp_path, tmp_path / "a" / "run-1"])

    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/run-1", "a/run-2", "b/run-1"]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=f"No run in {tmp_path}"):
        reading.find([tmp_path])


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("run.json", "{", "is damaged"),
        ("run.json", "[]", "does not describe a run"),
        ("run.json", '{"format": 99}', "format 99"),
        ("queries.jsonl", "{}\n", "Line 1 of the records"),
        (
            "announcements.jsonl",
            '{"time_ns": 1.5, "node": "a", "announced": true}\n',
            "announcements.jsonl: line 1 is not an announcement",
        ),
        ("announcements.jsonl", '\n{"node": "a"}\n', "announcements.jsonl: line 2 is not an announcement"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(
    freeze: Run, tmp_path: Path, file: str, text: str, sentence: str
) -> None:
    run.write(freeze, tmp_path)
    (tmp_path / file).write_text(text)

    with pytest.raises(ReportError) as caught:
        reading.read(tmp_path)

    assert sentence in caught.value.problem
    assert str(tmp_path) in caught.value.problem


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("phone", []), ("phone.clock", 5), ("phone.schedule", "fast"), ("phone.schedule.timeout_s", "2"),
        ("phone.schedule.timeout_s", 0), ("phone.counts", None), ("settings", [1]), ("versions", "1"), ("machine", 3),
        ("fault", []), ("fault.targets", "node01"), ("fault.targets", [1]), ("fault.began_ns", "1"),
        ("fault.reverted_ns", 1.5), ("proof", {}), ("proof.0.holds", "yes"), ("proof.0.evidence", None),
        ("number", "1"), ("title", None), ("verdict", []),
    ],
)  # fmt: skip
def test_a_field_of_another_kind_is_refused(freeze: Run, tmp_path: Path, place: str, value: object) -> None:
    run.write(freeze, tmp_path)
    document = json.loads((tmp_path / run.RUN_FILE).read_text())
    *way, last = place.split(".")
    inner = document
    for step in way:
        inner = inner[int(step) if step.isdigit() else step]
    inner[last] = value
    (tmp_path / run.RUN_FILE).write_text(json.dumps(document))

    with pytest.raises(ReportError, match="does not describe a run"):
        reading.read(tmp_path)


def test_records_that_end_too_early_are_refused(freeze: Run, tmp_path: Path) -> None:
    """Cut at the end of a line, as a copy that stopped: each line is fine, and every figure would be wrong."""
    run.write(freeze, tmp_path)
    lines = (tmp_path / run.QUERIES_FILE).read_text().splitlines(keepends=True)
    (tmp_path / run.QUERIES_FILE).write_text("".join(lines[:500]))

    with pytest.raises(ReportError, match="500 of the 900 queries that the phone sent"):
        reading.read(tmp_path)


def test_a_full_disk_leaves_no_half_run(freeze: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Path.write_text

    def half(path: Path, text: str, encoding: str) -> int:  # noqa: ARG001
        written(path, text[: len(text) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space left"):
        run.write(freeze, tmp_path / "run-1")

    with pytest.raises(ReportError, match="No run in"):
        reading.find([tmp_path])


@pytest.mark.parametrize("missing", [run.RUN_FILE, run.QUERIES_FILE, run.ANNOUNCEMENTS_FILE])
def test_an_unfinished_run_is_refused_with_the_missing_file(freeze: Run, tmp_path: Path, missing: str) -> None:
    run.write(freeze, tmp_path)
    (tmp_path / missing).unlink()

    with pytest.raises(ReportError, match=missing):
        reading.read(tmp_path)


def test_text_in_the_files_is_plain_and_names_are_few(freeze: Run, tmp_path: Path) -> None:
    """Each answer another name, one of 60 kB, and a reason that repaints the terminal."""
    hostile = tuple(
        replace(record, node=f"n{number}\x1b[2J" if number % 2 else "x" * 60_000)
        for number, record in enumerate(freeze.queries)
    )
    phone = {key: value for key, value in freeze.phone.items() if key != "share"}
    texts: dict[str, Any] = {"reason": "a\x1b]0;x\x07\nb", "settings": {"a\x1b": "b\x1b"}}
    run.write(replace(freeze, queries=hostile, phone=phone, expected=None, **texts), tmp_path)
    read_again = reading.read(tmp_path)
    assert (read_again.reason, read_again.settings) == ("a ]0;x  b", {"a ": "b "})
    names = {record.node for record in read_again.queries}
    assert len(names) == MOST_NAMES + 1
    assert all(name.isprintable() and len(name) <= MOST_NAME for name in names)


def test_an_unknown_verdict_is_refused(freeze: Run, tmp_path: Path) -> None:
    run.write(freeze, tmp_path)
    document = json.loads((tmp_path / run.RUN_FILE).read_text())
    (tmp_path / run.RUN_FILE).write_text(json.dumps({**document, "verdict": "fine"}))

    with pytest.raises(ReportError, match='verdict "fine" is none of ok, void, failed'):
        reading.read(tmp_path)
