"""Files with secrets in them: readable by their owner alone from the first byte on, and never half written."""

from __future__ import annotations

import os
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def private_folder(path: Path) -> Path:
    """The folder `path`, made where it is missing, and so are those above it; raises OSError."""
    for folder in (*reversed(path.parents), path):  # one by one: made as a parent, a folder would be open to all
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    return path


def replace(path: Path, text: str) -> None:
    """`path` holds `text`; a reader sees the old content or the new one. Raises OSError."""
    _written_beside(path, text).replace(path)


def create(path: Path, text: str) -> bool:
    """`path` holds `text`, unless somebody else made it first (False; then theirs stays). Raises OSError."""
    fresh = _written_beside(path, text)
    try:
        os.link(fresh, path)  # whole or not at all, and only the first of two
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    return True


def _written_beside(path: Path, text: str) -> Path:
    private_folder(path.parent)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:  # left by a run that was killed: its mode may be anything, so it is not written to
        fresh.unlink()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:  # a full disk: half a file is nothing, and it may be half a secret
        fresh.unlink(missing_ok=True)
        raise
    return fresh
