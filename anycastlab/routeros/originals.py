"""The settings a router had before we first changed them, kept on the control machine for removal.

Settings menus have no comments, so the router itself cannot tell. Only the first value is kept: later runs find ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from anycastlab.routeros.backup import directory
from anycastlab.routeros.plan import Change
from anycastlab.routeros.planning import Planned
from anycastlab.routeros.row import SETTINGS

FILE_NAME = "settings-before.json"

Values = Mapping[str, Mapping[str, str]]


def load(state: Path, host: str) -> Values:
    """Menu → property → value; empty when nothing is known."""
    try:
        data = json.loads((directory(state, host) / FILE_NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def remember(state: Path, planned: Planned) -> None:
    """Adds the old value of every setting the plan changes and that is not known yet."""
    host = planned.reading.host
    known = {menu: dict(values) for menu, values in load(state, host).items()}
    for step in planned.plan.of(Change):
        if step.row.menu in SETTINGS:
            for changed in step.properties:
                if changed.old is not None:
                    known.setdefault(step.row.menu, {}).setdefault(changed.name, changed.old)
    if known:
        folder = directory(state, host)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = folder / f".{FILE_NAME}.new"
        new.write_text(json.dumps(known, indent=1), encoding="utf-8")
        new.replace(folder / FILE_NAME)


def forget(state: Path, host: str) -> None:
    (directory(state, host) / FILE_NAME).unlink(missing_ok=True)
