"""Which Debian archive this machine's apt is configured for: everything Debian comes from there, and only there. Pure.

The input is what `apt-get indextargets` says about the configured sources, so every syntax apt understands (one-line,
deb822, `mirror+file:` lists) has already been read by apt itself. On a machine without Debian sources (Ubuntu) the
answer is empty, and mmdebstrap then uses its own default archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

INDEX_TARGETS_COMMAND: Final = (
    "apt-get",
    "indextargets",
    "--format",
    "$(SITE)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)|$(LABEL)",
    "Created-By: Packages",
)
_FIELDS: Final = 5

_RELEASE_NAMES: Final = frozenset({"bullseye", "bookworm", "trixie", "forky", "sid"}) | {
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
}
_SECURITY_SUFFIXES: Final = ("-security", "/updates")
_UPDATES_SUFFIX: Final = "-updates"
_MIRROR_LIST_SCHEME: Final = "mirror+file:"
_USABLE_SCHEMES: Final = ("http:", "https:", "file:", "copy:", "tor+http:", "tor+https:")


@dataclass(frozen=True)
class IndexTarget:
    """One configured index. `origin` and `label` are empty until the machine ran `apt-get update`."""

    site: str
    release: str
    component: str
    origin: str
    label: str


@dataclass(frozen=True)
class Archives:
    """Addresses of the parts of one Debian archive; an empty one is not configured here."""

    main: str
    updates: str = ""
    security: str = ""


def parse_index_targets(output: str) -> tuple[IndexTarget, ...]:
    """Reads the output of `INDEX_TARGETS_COMMAND`; lines of another shape are left out.

    A field apt knows nothing for stays in the output as `$(FIELD)`.
    """
    targets = []
    for line in output.splitlines():
        fields = line.split("|")
        if len(fields) == _FIELDS:
            targets.append(IndexTarget(*("" if field.startswith("$(") else field.strip() for field in fields)))
    return tuple(targets)


def debian_archives(targets: Iterable[IndexTarget], read_mirror_list: Callable[[str], str]) -> Archives | None:
    """The Debian archives among the configured sources, or None. The first of each kind wins, as it does for apt.

    `read_mirror_list` returns the text of a `mirror+file:` list by its path (cloud images use these).
    """
    found: dict[str, str] = {}
    for target in targets:
        kind = _kind(target)
        site = _resolve(target.site, read_mirror_list)
        if kind and kind not in found and site.startswith(_USABLE_SCHEMES):
            found[kind] = site
    if "main" not in found:
        return None
    return Archives(found["main"], found.get("updates", ""), found.get("security", ""))


def source_lines(archives: Archives | None, codename: str) -> str:
    """The `sources.list` text to build that release from; empty when mmdebstrap's own default shall be used."""
    if archives is None:
        return ""
    lines = [f"deb {archives.main} {codename} main"]
    if archives.updates:
        lines.append(f"deb {archives.updates} {codename}-updates main")
    if archives.security:
        lines.append(f"deb {archives.security} {codename}-security main")
    return "\n".join(lines) + "\n"


def _kind(target: IndexTarget) -> str:
    """`main`, `updates`, `security` or empty (backports, other vendors, contrib …)."""
    if target.component != "main" or not _from_debian(target):
        return ""
    if target.release in _RELEASE_NAMES:
        return "main"
    for suffix in _SECURITY_SUFFIXES:
        if target.release.removesuffix(suffix) in _RELEASE_NAMES:
            return "security"
    if target.release.removesuffix(_UPDATES_SUFFIX) in _RELEASE_NAMES:
        return "updates"
    return ""


def _from_debian(target: IndexTarget) -> bool:
    """Other vendors' repositories use Debian's code names, too. Before the first `update`, only the path tells."""
    if target.origin:
        return target.origin == "Debian"
    path = target.site.rstrip("/").rpartition("/")[2]
    return path.startswith("debian") or (target.site.startswith(_MIRROR_LIST_SCHEME) and "debian" in target.site)


def _resolve(site: str, read_mirror_list: Callable[[str], str]) -> str:
    if not site.startswith(_MIRROR_LIST_SCHEME):
        return site
    path = site.removeprefix(_MIRROR_LIST_SCHEME)
    for line in read_mirror_list(path).splitlines():
        address = line.partition("#")[0].split()
        if address:
            return address[0].rstrip("/")
    return ""
