"""RouterOS version strings: parsed, ordered, printed.

`7.22.3 (stable)`, `7.20.8 (long-term)`, `7.23beta2 (testing)`, `7.22rc4`: a pre-release sorts before its release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PATTERN = re.compile(r"\s*(\d+)\.(\d+)(?:\.(\d+))?(?:(alpha|beta|rc)(\d+))?\s*(?:\(([a-z-]+)\))?\s*")
_STAGES = ("alpha", "beta", "rc", "")


@dataclass(frozen=True, order=True)
class Version:
    """One RouterOS version. `channel` is what the router prints in parentheses; it plays no part in the order."""

    major: int
    minor: int
    patch: int = 0
    stage: int = _STAGES.index("")
    build: int = 0
    channel: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str) -> Version:
        """Raises ValueError when `text` is not a version."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a RouterOS version (like 7.22.3 or '7.20.8 (long-term)')")
        major, minor, patch, stage, build, channel = match.groups()
        return cls(int(major), int(minor), int(patch or 0), _STAGES.index(stage or ""), int(build or 0), channel or "")

    @property
    def number(self) -> str:
        """Without the channel, as release notes write it: no third number when it is 0."""
        text = f"{self.major}.{self.minor}" + (f".{self.patch}" if self.patch else "")
        return text if _STAGES[self.stage] == "" else f"{text}{_STAGES[self.stage]}{self.build}"

    def __str__(self) -> str:
        """As `/system/resource` prints it. A router always names a channel; pre-releases are `testing`."""
        return f"{self.number} ({self.channel or ('stable' if _STAGES[self.stage] == '' else 'testing')})"
