"""What a router had before we first changed it, kept on the control machine so that it can be given back.

Settings menus have no comments, so the router itself cannot tell. Only the first value is kept: later runs find ours.
Beside them stand rows that a person handed over, and which rows are our own (`handover`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from anycastlab import private_file, stored
from anycastlab.routeros import handover
from anycastlab.routeros.backup import directory
from anycastlab.routeros.errors import RouterError
from anycastlab.routeros.plan import Change
from anycastlab.routeros.planning import Planned
from anycastlab.routeros.row import SETTINGS

FILE_NAME = "settings-before.json"

Values = Mapping[str, Mapping[str, str]]


def load(state: Path, host: str) -> Values:
    """Menu or key of a row → property → value; empty before the first change.

    Raises RouterError for a file that is there and is not ours: taken for "nothing is known", a removal would leave our
    settings on the router, and the next deploy would note them as what was there before.
    """
    path = directory(state, host) / FILE_NAME
    try:
        data = stored.read_json(path)
        if not isinstance(data, dict) or not all(_are_settings(values) for values in data.values()):
            raise stored.Damaged("it holds no settings")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RouterError(f"{path} cannot be read: {error.strerror}.", "Correct its owner.", host) from None
    except stored.Damaged as error:
        raise RouterError(
            f"The record of the router's settings before us, {path}, is damaged: {error}.",
            "Restore it, or set those settings of the router by hand and remove the file; nothing was changed.",
            host,
        ) from None
    return data


def _are_settings(values: object) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())


def remember(state: Path, planned: Planned) -> None:
    """Before a change: adds the old value of every setting it touches, and every row that was handed over to us."""
    host, menus = planned.reading.host, planned.reading.menus
    known = {menu: dict(values) for menu, values in load(state, host).items()}
    for step in planned.plan.of(Change):
        if step.row.menu in SETTINGS:
            for changed in step.properties:
                if changed.old is not None:
                    known.setdefault(step.row.menu, {}).setdefault(changed.name, changed.old)
    known |= dict(handover.handed_over(menus, known, planned.plan))
    known.setdefault(handover.MADE, handover.made_before(menus))
    _save(state, host, known)


def settle(state: Path, planned: Planned) -> None:
    """After a change that was kept: which rows are ours, and which were given back."""
    host = planned.reading.host
    _save(state, host, handover.settled(planned.plan, load(state, host)))


def _save(state: Path, host: str, known: Values) -> None:
    """Rows may hold keys."""
    path = directory(state, host) / FILE_NAME
    try:
        private_file.replace(path, json.dumps(known, indent=1))
    except OSError as error:
        raise RouterError(
            f"What router {host} was like before cannot be written to {path}: {error.strerror}.",
            "Make room, or set ANYCASTLAB_STATE to another folder.",
            host,
        ) from error


def forget(state: Path, host: str) -> None:
    (directory(state, host) / FILE_NAME).unlink(missing_ok=True)
