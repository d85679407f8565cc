"""What a household feels when the lab breaks: medians over repeats at 20 queries per second, with short lengths.

Uses a lab of its own beside a person's. Runs that are void are no result and are repeated, up to a limit; how many
there were is a figure too. Lost time is the number of lost queries' worth of schedule from the first to the last.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anycastlab.report import reading as records
from anycastlab.report.judge import lost_time_s
from anycastlab.report.run import Run, Verdict
from anycastlab.report.statistics import summarize

LAB = "benchsc"
REPEATS = 5
# Rounds of a scenario until it has its repeats: a machine that makes more runs void than that measures nothing.
ROUNDS = 3
# What a killed node costs is one query or none: five runs would be five throws of a coin.
KILL_REPEATS = 15
UNLOST = ("kill", "cable-pulled", "link-down", "planned-restart", "drain", "rolling-deploy")
BFD_INTERVALS_MS = (300, 100, 50)
BFD_MULTIPLIER = 3
# Queries per second at which lost time is known to 5 ms; at the household's 20 it comes in steps of 50 ms.
FINE_RATE = 200


def run(repeats: int = REPEATS) -> dict[str, Any]:
    """Medians, by scenario. Seconds."""
    figures: dict[str, Any] = {"repeats": repeats, "void": 0}
    with tempfile.TemporaryDirectory() as folder:
        try:
            _anycastlab("up")
            for name in UNLOST:
                wanted = max(repeats, KILL_REPEATS) if name == "kill" else repeats
                lost = [summarize(one).lost for one in _measure(name, wanted, Path(folder), figures)]
                figures[name] = {"lost": _median(lost), "lost_mean": statistics.fmean(lost), "lost_worst": max(lost)}
            dead = _measure("all-dead", repeats, Path(folder), figures)
            figures["all-dead"] = {"outage_s": _median([summarize(one).felt_outage_s for one in dead])}
            local = _measure("local-path-lost", repeats, Path(folder), figures)
            figures["local-path-lost"] = {
                "lost_after_2_s": _median([_lost_after(one, 2.0) for one in local]),
                "withdrawn_after_s": _median([summarize(one).withdrawn_after_s for one in local]),
                "returned_after_s": _median([summarize(one).returned_after_s for one in local]),
            }
            wan = _measure("wan-down", repeats, Path(folder), figures)
            figures["wan-down"] = {
                "cached_or_local_failed": _median([_failed(one, "popular") + _failed(one, "local") for one in wan]),
                "not_as_expected": sum(one.verdict is not Verdict.OK for one in wan),
            }
            for interval_ms in BFD_INTERVALS_MS:
                figures[f"freeze_3x{interval_ms}"] = _freeze(interval_ms, repeats, Path(folder), figures)
        finally:
            _anycastlab("down", "-y")
    return figures


def _freeze(interval_ms: int, repeats: int, folder: Path, figures: dict[str, Any]) -> dict[str, float]:
    """One flow to the node that freezes, so every query of the household counts."""
    data = ("--data", f"bfd_interval_ms={interval_ms}")
    _anycastlab("up", *data)
    runs = _measure("freeze-one-flow", repeats, folder / str(interval_ms), figures, *data)
    fine_folder = folder / f"{interval_ms}-fine"
    fine = _measure("freeze-one-flow", repeats, fine_folder, figures, *data, "--rate", str(FINE_RATE))
    detection_s = BFD_MULTIPLIER * interval_ms / 1000
    lost_s = _median([lost_time_s(one.queries) for one in runs])
    fine_s = _median([lost_time_s(one.queries) for one in fine])
    return {
        "lost": _median([summarize(one).lost for one in runs]),
        "lost_s": lost_s,
        "of_detection": round(lost_s / detection_s, 3),
        "fine_lost_s": fine_s,
        "fine_of_detection": round(fine_s / detection_s, 3),
        "withdrawn_after_s": _median([summarize(one).withdrawn_after_s for one in runs]),
    }


def _measure(name: str, repeats: int, folder: Path, figures: dict[str, Any], *data: str) -> list[Run]:
    """`repeats` runs that are results, whatever they say."""
    found: list[Run] = []
    for number in range(ROUNDS):
        missing = repeats - len(found)
        if missing <= 0:
            break
        out = folder / name / str(number)
        _anycastlab("scenario", "run", name, "--quick", "--repeat", str(missing), "--out", str(out), *data)
        runs = [records.read(one) for one in records.find([out])]
        found += [one for one in runs if one.verdict is not Verdict.VOID]
        figures["void"] += sum(one.verdict is Verdict.VOID for one in runs)
    if not found:
        raise RuntimeError(f"every run of {name} was void: this machine is too busy to measure on")
    return found


def _lost_after(one: Run, seconds: float) -> int:
    assert one.fault is not None
    from_ns = one.fault.began_ns + round(seconds * 1e9)
    return sum(query.outcome in ("lost", "late") and query.intended_ns >= from_ns for query in one.queries)


def _failed(one: Run, kind: str) -> int:
    return sum(query.kind == kind and query.outcome not in ("answered", "stalled") for query in one.queries)


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else float("inf")


def _anycastlab(*arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("anycastlab")), *arguments]
    result = subprocess.run(
        command, env={**os.environ, "ANYCASTLAB_LAB": LAB}, capture_output=True, text=True, check=False
    )
    if result.returncode not in (0, 2):
        raise RuntimeError(f"anycastlab {' '.join(arguments)}: {result.stderr.strip()[-500:]}")
