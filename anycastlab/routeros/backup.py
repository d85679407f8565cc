"""What was ours on a router before a change, kept on the control machine so that it can be put back.

A backup holds every own row whole and the settings we may set. Restoring is a plan like any other, with the backup as
what is desired: it can be read first, and runs through the same preflight, safe mode and checks.

Files: `<state>/routers/<host>/<time>.json`, mode 0600, because rows may hold keys.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anycastlab import stored
from anycastlab.routeros.errors import RouterError
from anycastlab.routeros.plan import FLAGS
from anycastlab.routeros.reading import Reading
from anycastlab.routeros.row import MENUS, SETTINGS, Row, place_of, tag_of
from anycastlab.routeros.rows_fallback import NAT

FORMAT = 1

#: The settings properties we ever set, and so the only ones to give back.
SETTINGS_PROPERTIES: Mapping[str, tuple[str, ...]] = {
    "/ip/settings": ("ipv4-multipath-hash-policy", "send-redirects"),
    "/ipv6/settings": ("multipath-hash-policy",),
    "/ip/dns": ("allow-remote-requests",),
}


@dataclass(frozen=True)
class Backup:
    """Own rows (menu → rows in order, without ids and flags) and settings at one moment."""

    host: str
    version: str
    taken_at: str
    rows: Mapping[str, Sequence[Mapping[str, str]]] = field(repr=False)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def take(reading: Reading, now: datetime) -> Backup:
    rows = {}
    for menu in MENUS:
        if menu not in SETTINGS and (own := reading.own(menu)):
            rows[menu] = [{k: v for k, v in row.items() if k == "comment" or k not in FLAGS} for row in own]
    settings = {}
    for menu, names in SETTINGS_PROPERTIES.items():
        for row in reading.menus.get(menu, ())[:1]:
            settings[menu] = {name: row[name] for name in names if row.get(name)}
    return Backup(reading.host, reading.version, now.isoformat(timespec="seconds"), rows, settings)


def content(backup: Backup) -> object:
    """What two backups must share to mean the same state; the redirect's `disabled` is runtime and left out."""
    rows = {
        menu: [{k: v for k, v in row.items() if menu != NAT or k != "disabled"} for row in saved]
        for menu, saved in backup.rows.items()
    }
    return rows, backup.settings


def desired_from(backup: Backup) -> list[Row]:
    """The rows that bring a router back to the backup."""
    rows = [Row(menu, "", dict(values)) for menu, values in backup.settings.items() if values]
    for menu, saved in backup.rows.items():
        for values in saved:
            properties: dict[str, str | None] = dict(values)
            initial = {"disabled": values.get("disabled", "yes")} if menu == NAT else None
            if initial:
                properties.pop("disabled", None)  # runtime state: netwatch owns it
            tag = tag_of(values)
            rows.append(Row(menu, tag, properties, place_of(menu, tag), initial, exact=True))
    # Rows are kept in the order they had; those of one place must follow each other for the plan.
    rows.sort(key=lambda row: (MENUS.index(row.menu), row.place))
    return rows


def directory(state: Path, host: str) -> Path:
    """Where a router's backups are; host names and addresses become plain file names."""
    return state / "routers" / re.sub(r"[^A-Za-z0-9.-]", "_", host)


def save(backup: Backup, state: Path) -> Path:
    """Writes the backup and returns its path. Never overwrites: two in one second get different names."""
    folder = directory(state, backup.host)
    stamp = re.sub(r"[^0-9T]", "", backup.taken_at.split("+")[0])
    content = json.dumps({"format": FORMAT, **asdict(backup)}, indent=1).encode()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(1, 1000):
            path = folder / (f"{stamp}.json" if number == 1 else f"{stamp}-{number}.json")
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            return path
    except OSError as error:
        raise RouterError(
            f"The backup of router {backup.host} cannot be written to {folder}: {error.strerror}.",
            "Nothing was changed. Make room, or set ANYCASTLAB_STATE to another folder.",
            backup.host,
        ) from error
    raise RouterError(f"{folder} is full of backups of this second.", "", backup.host)


def load(path: Path) -> Backup:
    """Raises RouterError when the file is not a backup of ours."""
    try:
        data: Any = stored.read_json(path)
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise ValueError("it has another format")
        backup = Backup(**data)
        for menu, rows in backup.rows.items():
            if menu not in MENUS or not all(isinstance(row, dict) and tag_of(row) for row in rows):
                raise ValueError(f"{menu} holds rows that are not ours")
        if not backup.settings.keys() <= SETTINGS:
            raise ValueError("it has settings that are not ours")
    except OSError as error:
        raise RouterError(f"The backup {path} cannot be read: {error.strerror}.", "Check the path.") from error
    except ValueError as error:
        raise RouterError(f"{path} is not a router backup: {error}.", "Backups are written by each change.") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise RouterError(
            f"{path} is not a router backup: it has other fields.", "Backups are written by each change."
        ) from error
    return backup


def now() -> datetime:
    return datetime.now(UTC)
