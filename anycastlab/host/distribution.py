"""Which Linux this is. Pure: reads the text of /etc/os-release."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Distribution:
    """`identifier` is `debian`, `ubuntu` …; `version` is empty for rolling ones (Debian testing and unstable)."""

    identifier: str
    version: str = ""
    codename: str = ""
    name: str = ""

    @property
    def numbers(self) -> tuple[int, ...]:
        """`24.04` → (24, 4). Empty when there is no version."""
        return tuple(int(part) for part in self.version.split(".") if part.isdigit())

    @property
    def supported(self) -> bool:
        """Debian from 12 and Ubuntu from 24.04 have Incus 6.0 or newer in their own archives."""
        if self.identifier == "debian":
            return not self.version or self.numbers >= (12,)
        return self.identifier == "ubuntu" and self.numbers >= (24, 4)

    @property
    def needs_backports(self) -> bool:
        """Debian 12 has Incus only in its backports."""
        return self.identifier == "debian" and self.numbers[:1] == (12,)


def parse_os_release(text: str) -> Distribution:
    """Reads os-release's shell-like assignments; unknown and broken lines are left out."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if not separator or key.startswith("#"):
            continue
        try:
            values[key] = "".join(shlex.split(value))
        except ValueError:
            continue
    return Distribution(
        identifier=values.get("ID", "linux"),
        version=values.get("VERSION_ID", ""),
        codename=values.get("VERSION_CODENAME", ""),
        name=values.get("PRETTY_NAME", values.get("NAME", "")),
    )
