"""What must be kept of a machine that outlives us, and the program that keeps it there (see `originals`). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final

from anycastlab.node import layout
from anycastlab.node.apply import standalone
from anycastlab.node.errors import NodeError
from anycastlab.node.managed import ManagedFile
from anycastlab.site import Node, Site

# Units whose state a deploy changes, with the package that brings one (and, on Debian, starts it at once).
_UNITS: Final = {
    **dict.fromkeys((unit for unit in layout.UNITS if unit != layout.NETWORKD_UNIT), ""),
    layout.FRR_UNIT: "frr",
    layout.RESOLVER_UNITS["unbound"]: "unbound",
    layout.OWN_RESOLVER_UNIT: "unbound",
}
_USER: Final = re.compile(r"^u!?\s+(\S+)", re.MULTILINE)  # sysusers.d(5)
_SETTING: Final = re.compile(r"^\s*([a-z][\w./-]*)\s*=", re.MULTILINE)  # sysctl.d(5)


@dataclass(frozen=True)
class Unit:
    """A service as it was before us."""

    enabled: bool = False
    active: bool = False


@dataclass(frozen=True)
class Record:
    """What a machine had before its first deploy. `files`: path → whether there was one (a copy of it is kept)."""

    files: Mapping[str, bool] = field(default_factory=dict)
    folders: tuple[str, ...] = ()  # missing then
    units: Mapping[str, Unit] = field(default_factory=dict)
    users: Mapping[str, bool] = field(default_factory=dict)
    settings: Mapping[str, str | None] = field(default_factory=dict)

    def covers(self, paths: Iterable[str]) -> bool:
        return all(path in self.files for path in paths)


def parse(record: Mapping[str, Any]) -> Record:
    """A `Record` from its JSON, empty where there is none; NodeError for anything else."""
    if not record:
        return Record()
    try:
        return Record(
            files={str(path): bool(there) for path, there in record["files"].items()},
            folders=tuple(record["folders"]),
            units={str(name): Unit(**unit) for name, unit in record["units"].items()},
            users={str(name): bool(there) for name, there in record["users"].items()},
            settings=dict(record["settings"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NodeError(
            f"The record of what was on the node before ({layout.ORIGINALS_INDEX}) is damaged.",
            f"Take it out of the way; the files themselves are in {layout.ORIGINALS}.",
        ) from None


def outlives(site: Site, node: Node) -> bool:
    """Whether the machine is a person's own: it stays when we go. The lab's instances go as a whole."""
    return site.lab is None or node.platform == "ssh"


def order(node: Node, files: Iterable[ManagedFile], fresh_packages: Iterable[str]) -> dict[str, Any]:
    """What `originals` is told: `files` are all of a node, `fresh_packages` those this very deploy installs."""
    files = tuple(files)
    texts = {file.path: file.content.decode(errors="replace") for file in files}
    users = [
        name for path, text in texts.items() if path.startswith("/etc/sysusers.d/") for name in _USER.findall(text)
    ]
    settings = [
        key for path, text in texts.items() if path.startswith("/etc/sysctl.d/") for key in _SETTING.findall(text)
    ]
    fresh = set(fresh_packages)
    return {
        "name": node.name,
        "index": layout.ORIGINALS_INDEX,
        "folder": layout.ORIGINALS,
        "files": paths(node, files),
        "units": list(_UNITS),
        "fresh_units": [unit for unit, package in _UNITS.items() if package in fresh],
        "users": users,
        "settings": settings,
    }


def services_program(node: Node) -> str:
    """The program that records the services alone, before a package is installed that starts its own at once.

    So a deploy that dies after the packages does not take their services for the owner's.
    """
    nothing = order(node, (), ())
    return standalone(_source(), {**nothing, "files": [], "fresh_units": []})


def paths(node: Node, files: Iterable[ManagedFile]) -> list[str]:
    """Every path a deploy writes on `node`, of which `files` are the managed files."""
    adguard = [layout.ADGUARD_PROGRAM, layout.ADGUARD_CONFIG] if node.resolver == "adguardhome" else []
    return [*(file.path for file in files), *adguard]


def program(node: Node, files: Iterable[ManagedFile], fresh_packages: Iterable[str]) -> str:
    """The whole program, for `python3 -I -` on the node's standard input."""
    return standalone(_source(), order(node, files, fresh_packages))


@cache
def _source() -> str:
    return resources.files("anycastlab.node").joinpath("originals.py").read_text(encoding="utf-8")
