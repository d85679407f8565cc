"""How long the main job takes, whole processes: empty lab, nothing to change, dry run, rebuild, and how it grows.

Uses a lab of its own (`bench`) beside a person's. The image and the resolver binary are taken from the cache.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LAB = "bench"
REPEATS = 3  # odd, so that the median is one of the runs
GROWTH = (3, 6, 12)  # nodes

_INVENTORY = """from anycastlab.lab import machines as lab

nodes = lab.nodes({nodes})
router_machine = lab.machines("router")
upstream = lab.machines("upstream")
clients = lab.machines("client01")
router = lab.router_api()
"""


def run() -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in GROWTH:
            # The name makes it the group `lab`, so group_data/lab.py applies.
            inventory = Path(folder) / str(count) / "lab.py"
            inventory.parent.mkdir()
            inventory.write_text(_INVENTORY.format(nodes=", ".join(f'"node{n:02d}"' for n in range(1, count + 1))))
            measured = _measure(str(inventory))
            if count == GROWTH[0]:
                figures.update(measured)
            figures[f"nodes_{count}"] = measured
    return figures


def _measure(inventory: str) -> dict[str, float]:
    first_answer: list[float] = []
    try:
        for _ in range(REPEATS):
            _anycastlab("down", inventory, "-y")
            first_answer.append(_timed("up", inventory))
            answers = json.loads(_anycastlab("status", inventory, "--json").stdout)["service"]["answers"]
            if not answers:
                raise RuntimeError("the lab came up but its service address does not answer")
        return {
            "empty_to_first_answer_s": statistics.median(first_answer),
            "no_change_s": statistics.median(_timed("up", inventory) for _ in range(REPEATS)),
            "dry_run_s": statistics.median(_timed("plan", inventory) for _ in range(REPEATS)),
            "rebuild_three_s": _timed("up", inventory, "--data", "rebuild=all"),
        }
    finally:
        _anycastlab("down", inventory, "-y")


def _timed(command: str, inventory: str, *options: str) -> float:
    begun = time.monotonic()
    _anycastlab(command, inventory, *options)
    return time.monotonic() - begun


def _anycastlab(command: str, inventory: str, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = [str(Path(sys.executable).with_name("anycastlab")), command, "-i", inventory, *options]
    return subprocess.run(
        arguments, env={**os.environ, "ANYCASTLAB_LAB": LAB}, capture_output=True, text=True, check=command != "status"
    )
