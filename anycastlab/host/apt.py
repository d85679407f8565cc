"""What this machine's apt knows: the mirror it uses, how that is signed, which packages exist. Thin edge."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from anycastlab.host import mirror

_SOURCE_PLACES: Final = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))


def signed_by(sources: Iterable[str], address: str) -> str:
    """The `Signed-By` that goes with `address`, from the texts of source files in both syntaxes; empty without one.

    A key written into the source itself (several lines) comes back with its line breaks, ready for another deb822 file.
    """
    for text in sources:
        for found in (_signed_by_stanzas(text, address), _signed_by_lines(text, address)):
            if found:
                return found
    return ""


def _signed_by_stanzas(text: str, address: str) -> str:
    fields: dict[str, str] = {}
    name = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if _same(address, fields.get("uris", "").split()) and fields.get("signed-by"):
                return fields["signed-by"]
            fields, name = {}, ""
        elif line[0].isspace():
            fields[name] = f"{fields.get(name, '')}\n{line}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return ""


def _signed_by_lines(text: str, address: str) -> str:
    for line in text.splitlines():
        if not line.startswith("deb ") or "[" not in line:
            continue
        options, _, rest = line.partition("[")[2].partition("]")
        if _same(address, rest.split()[:1]):
            for option in options.split():
                key, _, value = option.partition("=")
                if key == "signed-by":
                    return value
    return ""


def _same(address: str, candidates: Iterable[str]) -> bool:
    return any(candidate.rstrip("/") == address.rstrip("/") for candidate in candidates)


def parse_known_packages(policy: str) -> frozenset[str]:
    """Names in the output of `apt-cache policy NAMES…` that have a candidate."""
    known = set()
    name = ""
    for line in policy.splitlines():
        if line and not line[0].isspace():
            name = line.rstrip(":")
        elif line.strip().startswith("Candidate:") and not line.strip().endswith("(none)"):
            known.add(name)
    return frozenset(known)


def known_packages(names: Iterable[str]) -> frozenset[str]:
    return parse_known_packages(_output("apt-cache", "policy", *names))


def targets() -> tuple[mirror.IndexTarget, ...]:
    """The indices this machine's apt is configured for."""
    return mirror.parse_index_targets(_output(*mirror.INDEX_TARGETS_COMMAND))


def archives() -> mirror.Archives | None:
    """The Debian archives this machine uses; None on one without (Ubuntu, or no apt at all)."""
    return mirror.debian_archives(targets(), _read)


def source_texts() -> list[str]:
    texts = []
    for place in _SOURCE_PLACES:
        files = sorted(place.glob("*")) if place.is_dir() else [place]
        texts += [file.read_text() for file in files if file.suffix in (".list", ".sources") and file.is_file()]
    return texts


def _read(path: str) -> str:
    """The text of a mirror list; empty when it is not there (apt then has no such mirror either)."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _output(*command: str) -> str:
    """Standard output, in English; nothing where the program does not exist (a machine without apt)."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        ).stdout
    except FileNotFoundError:
        return ""
