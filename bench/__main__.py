"""`python -m bench [NAME…]`: runs the measurements and shows each figure beside its target.

A measurement is a module here with `run() -> dict[str, float | int | str | dict]`; nested dictionaries become dotted
names. Results are also written to `bench/results/<time>.json` together with the machine they come from.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.targets import TARGETS

RESULTS = Path(__file__).parent / "results"
_NOT_MEASUREMENTS = {"__init__", "__main__", "targets"}


def names() -> list[str]:
    return sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in _NOT_MEASUREMENTS)


def flat(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in figures.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}; all without one")
    chosen = parser.parse_args().names or names()
    if unknown := set(chosen) - set(names()):
        print(f"There is no measurement called {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 1
    console = Console(highlight=False)
    results: dict[str, Any] = {}
    for name in chosen:
        console.print(f"{name} …")
        results[name] = import_module(f"bench.{name}").run()
        console.print(_table(name, results[name]))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({"machine": _machine(), "figures": results}, indent=2) + "\n", encoding="utf-8")
    console.print(f"Written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}.")
    return 0


def _table(name: str, figures: Mapping[str, Any]) -> Table:
    table = Table("figure", "value", "target", "", title=name, title_justify="left")
    for key, value in flat(figures):
        target = TARGETS.get(f"{name}.{key}")
        met = "" if target is None else "met" if target.met(value) else "MISSED"
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(key, shown, "" if target is None else target.text, met)
    return table


def _machine() -> dict[str, Any]:
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
