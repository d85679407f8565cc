"""The configuration file of a routing daemon: readable for the daemon, and for nobody else, as it holds keys."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MODE = 0o640


def write(path: Path, text: str, owner: str) -> str | None:
    """Writes it for the user and group `owner`. Returns why it could not be given to them; None when it was."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    try:
        shutil.chown(path, owner, owner)
    except (LookupError, PermissionError):
        return f"{path}: cannot be given to user {owner}"
    return None
