"""Where anycastlab keeps things on the control machine; never inside the repository.

State (secrets, backups, run results) and cache (images, resolver builds) follow the XDG base directories.
"""

from __future__ import annotations

import os
from pathlib import Path


def state_dir() -> Path:
    """Directory for what must survive: generated secrets (0600), router backups. `ANYCASTLAB_STATE` overrides it."""
    return _base("ANYCASTLAB_STATE", "XDG_STATE_HOME", ".local/state")


def cache_dir() -> Path:
    """Directory for what can be made again: images, built resolvers. `ANYCASTLAB_CACHE` overrides it."""
    return _base("ANYCASTLAB_CACHE", "XDG_CACHE_HOME", ".cache")


def _base(own_variable: str, xdg_variable: str, default: str) -> Path:
    if own := os.environ.get(own_variable):
        return Path(own)
    root = os.environ.get(xdg_variable)
    return (Path(root) if root else Path.home() / default) / "anycastlab"
