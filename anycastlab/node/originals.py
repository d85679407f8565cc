"""Keeps what a machine had before its first deploy, on the machine itself, so that a removal can give it back.

A board is a person's computer and outlives us. Before a file is written there for the first time, the one that lies in
its place is copied to `originals`, and the record beside it says which files were there at all, which folders were
missing, which services ran, which users existed and what the kernel's settings were. What is recorded is never recorded
again, so a second deploy cannot take our own file for an original.

Like the agent, this runs on the node with Debian's Python alone, over standard input, and imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from typing import Any

MOST_RECORD = 1 << 20
"""Octets of the record: it has a line per file."""

_KINDS = {"files": dict, "folders": list, "units": dict, "users": dict, "settings": dict}


def remember(order: dict[str, Any], root: str = "") -> None:
    """Record what is not recorded yet. `order` is what `keep.order` makes; `root` is a folder instead of `/`."""
    index = root + order["index"]
    try:
        record = _known(index)
    except FileNotFoundError:
        record = {"files": {}, "folders": [], "units": {}, "users": {}, "settings": {}}
    kept = root + order["folder"]
    os.makedirs(kept, mode=0o700, exist_ok=True)
    for path in order["files"]:
        if path not in record["files"]:
            record["folders"] += [f for f in _missing_folders(path, root) if f not in record["folders"]]
            record["files"][path] = _copy(root + path, kept + path)
    for unit in order["units"]:
        if unit not in record["units"]:
            fresh = unit in order["fresh_units"]  # its package came a moment ago, with us
            record["units"][unit] = {
                "enabled": not fresh and _systemctl("is-enabled", unit),
                "active": not fresh and _systemctl("is-active", unit),
            }
    for user in order["users"]:
        record["users"].setdefault(user, _exists(user))
    for setting in order["settings"]:
        if setting not in record["settings"]:
            record["settings"][setting] = _value(setting, root)
    with open(f"{index}.new", "w", encoding="utf-8") as out:
        json.dump(record, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    os.replace(f"{index}.new", index)


def _known(index: str) -> dict[str, Any]:
    """The record so far. Raises FileNotFoundError, and ValueError for one that is damaged: it is not begun afresh, or
    our own files would be taken for the owner's."""
    with open(index, "rb") as file:
        content = file.read(MOST_RECORD + 1)
    try:
        if len(content) > MOST_RECORD:
            raise ValueError
        record: dict[str, Any] = json.loads(content)
        if any(type(record[key]) is not kind for key, kind in _KINDS.items()):
            raise ValueError
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ValueError(f"{index} is damaged; move it away to begin a new one") from None
    return record


def _missing_folders(path: str, root: str) -> list[str]:
    """Folders above `path` that are not there, the innermost first."""
    missing = []
    folder = os.path.dirname(path)
    while folder not in ("", "/") and not os.path.lexists(root + folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _copy(path: str, kept: str) -> bool:
    """Copy a file with mode and owner (a link as a link); whether there was one."""
    if not os.path.lexists(path):
        return False
    os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
    shutil.copy2(path, kept, follow_symlinks=False)
    status = os.lstat(path)
    os.chown(kept, status.st_uid, status.st_gid, follow_symlinks=False)
    return True


def _systemctl(question: str, unit: str) -> bool:
    answer = subprocess.run(["systemctl", "-q", question, unit], stdin=subprocess.DEVNULL, check=False)
    return answer.returncode == 0


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _value(setting: str, root: str) -> str | None:
    """A kernel setting's present value; in its name dots separate and slashes stand for dots, as in sysctl.d(5)."""
    try:
        with open(f"{root}/proc/sys/{setting.translate(str.maketrans('./', '/.'))}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def main(order: dict[str, Any]) -> int:
    """Carry out `order`; 0, or 1 with a sentence on standard error."""
    os.umask(0o022)  # as the agent: folders of ours are for daemons to look into
    try:
        remember(order)
    except (OSError, ValueError) as error:
        why = f"{error.strerror} ({error.filename})" if isinstance(error, OSError) and error.filename else error
        print(f"{order['name']}: what was there before cannot be kept: {why}.", file=sys.stderr)
        return 1
    return 0
