"""Which AdGuard Home, to the byte: the pinned version, its schema, and the checksums of its release archives.

`adguardhome-lock.json` is part of the package. A checksum that stands there is law. One that does not is taken from the
release's own list at the first download and recorded on the control machine, so that the same archive has to come every
time after.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from anycastlab.node.errors import ResolverError

_PACKAGED: Final = "adguardhome-lock.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Lock:
    """The pinned release. `sha256`: archive name (`AdGuardHome_linux_amd64.tar.gz`) to checksum."""

    version: str
    schema: int
    module: str
    go: str
    release: str
    sha256: Mapping[str, str]

    def archive(self, go_arch: str) -> str:
        """Name of the release archive for a machine; 32-bit ARM is released per version of the instruction set."""
        return f"AdGuardHome_linux_{'armv7' if go_arch == 'arm' else go_arch}.tar.gz"

    def url(self, name: str) -> str:
        return f"{self.release}/{self.version}/{name}"


@cache
def packaged() -> Lock:
    """The lock file of this version of anycastlab."""
    return _parse(resources.files("anycastlab.node").joinpath(_PACKAGED).read_text(encoding="utf-8"), _PACKAGED)


def recorded(path: Path) -> dict[str, str]:
    """Checksums recorded at earlier downloads of any version; `{}` before the first."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(v, str) and _SHA256.fullmatch(v) for v in found.values()):
        raise ResolverError(f"The record of checksums {path} is damaged.", "Delete it; it is made again.")
    return found


def record(path: Path, name: str, sha256: str) -> None:
    """Add one checksum; whole or not at all."""
    content = json.dumps({**recorded(path), name: sha256}, indent=2, sort_keys=True) + "\n"
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(path)


def read_checksums(text: str) -> dict[str, str]:
    """A release's `checksums.txt`: `<sha256>  ./<name>` per line."""
    found = {}
    for line in text.splitlines():
        digest, _, name = line.partition(" ")
        if _SHA256.fullmatch(digest) and name.strip():
            found[name.strip().removeprefix("*").removeprefix("./")] = digest
    return found


def _parse(text: str, where: str) -> Lock:
    try:
        raw = json.loads(text)
        lock = Lock(**raw)
    except (ValueError, TypeError) as error:
        raise ResolverError(f"The lock file {where} cannot be read: {error}.", "Restore it.") from None
    for name, digest in lock.sha256.items():
        if not _SHA256.fullmatch(digest):
            raise ResolverError(f"The lock file {where} has no valid checksum for {name}.", "Restore it.")
    return lock
