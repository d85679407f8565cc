"""Which AdGuard Home, to the byte: the pinned version, its schema, and the checksums of its release archives.

`adguardhome-lock.json` is part of the package. A checksum that stands there is law; an archive without one is not
fetched, for the list beside it on the release site would be changed by whoever changes the archive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
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
