"""One file of a node that is ours: what it holds, who may read it, who checks it, and who must hear about it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

# What makes a changed file take effect, besides restarting units.
Effect = Literal["frr-reload", "sysctl", "sysusers", "networkd-reload", "resolved-restart"]


@dataclass(frozen=True)
class ManagedFile:
    """A file as it must be. `check` is an argv with `{path}`, run on the new file before it replaces the old one."""

    path: str
    content: bytes = field(repr=False)
    owner: str = "root"
    group: str = "root"
    mode: int = 0o644
    secret: bool = False
    check: tuple[str, ...] | None = None
    restarts: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def is_unit(self) -> bool:
        """Whether systemd must reread its units when this file changes."""
        return self.path.startswith("/etc/systemd/system/")
