"""What set-up did to this machine, and the command that takes each step back: kept for the day somebody wants to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from anycastlab import private_file, stored
from anycastlab.host.errors import HostError
from anycastlab.host.setup import Step
from anycastlab.paths import state_dir


def path() -> Path:
    """Where the record lies."""
    return state_dir() / "setup.json"


def note(step: Step) -> None:
    """Add a step that is about to be done; one that is done again stands there once. Raises HostError."""
    known = read()
    if any(entry["undo"] == step.undo for entry in known):
        return
    entry = {"when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "what": step.what, "undo": step.undo}
    try:
        private_file.replace(path(), json.dumps([*known, entry], indent=2) + "\n")
    except OSError as error:
        raise HostError(
            f"The record of set-up, {path()}, cannot be written: {error.strerror}.", "Make room or correct its owner."
        ) from None


def read() -> list[dict[str, str]]:
    """All steps so far, the oldest first. Raises HostError for a record that is damaged."""
    try:
        entries = stored.read_json(path())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HostError(*_damaged(str(error.strerror))) from None
    except stored.Damaged as error:
        raise HostError(*_damaged(str(error))) from None
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise HostError(*_damaged("it is no list of steps"))
    return entries


def lines() -> list[str]:
    """For a person: the commands that take set-up back, in the order in which to run them."""
    found = [f"{entry['undo']}    # {entry['when']}: {entry['what']}" for entry in reversed(read())]
    return found or [f"Set-up has changed nothing on this machine that {path()} knows of."]


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("when", "what", "undo"))


def _damaged(why: str) -> tuple[str, str]:
    return f"The record of set-up, {path()}, cannot be read: {why}.", "Move it away if it is of no use any more."
