"""What a machine answered when it was asked to run a command; apart from `fleet`, which needs pyinfra."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What a command on a machine gave. `code` None: it did not run (not reachable, or no answer in time)."""

    code: int | None
    stdout: str = ""
    stderr: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0
