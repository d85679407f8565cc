"""A plan for human eyes: one line, or every file as a unified diff, secrets masked. Pure."""

from __future__ import annotations

import difflib
import re
from typing import Final

from anycastlab.node.managed import ManagedFile
from anycastlab.node.plan import Plan

MASK: Final = "********"
_KEY = re.compile(r"\b[0-9a-f]{64}\b")  # the probes'
_PASSWORD = re.compile(r"(\bpassword:?\s+)\S+", re.IGNORECASE)
_MOST_LINES: Final = 400  # of one file's diff; a blocklist of a hundred thousand names need not be read whole


def headline(plan: Plan) -> str:
    """What happens to a node, in one line."""
    parts = []
    if plan.packages:
        parts.append(f"install {', '.join(plan.packages)}")
    if plan.program:
        parts.append(f"install AdGuard Home {plan.program.version}")
    files = len(plan.files) + (1 if plan.adguard else 0)
    if files:
        parts.append(f"write {files} file{'s' if files > 1 else ''}")
    for verb, units in (("disable", plan.disable), ("restart", plan.restart), ("start", plan.start)):
        if units:
            parts.append(f"{verb} {', '.join(unit.removesuffix('.service') for unit in units)}")
    if "frr-reload" in plan.effects:
        parts.append("reload frr")
    if plan.resume:
        parts.append("resume")
    if not parts:
        parts = list(plan.reasons)
    return "; ".join(parts)


def details(plan: Plan, old: dict[str, str]) -> list[str]:
    """Every reason, then the differences of every file; `old` has the present text of those that were readable."""
    lines = [f"~ {reason}" for reason in plan.reasons]
    for file in plan.files:
        lines += _file(file, old.get(file.path, ""))
    return lines


def is_text(file: ManagedFile) -> bool:
    """Whether a difference of this file can be read."""
    return not file.path.endswith(".pyz")


def masked(text: str) -> str:
    """The text with passwords hidden; a private key is hidden whole."""
    if "PRIVATE KEY" in text:
        return f"{MASK}\n"
    return _KEY.sub(MASK, _PASSWORD.sub(rf"\1{MASK}", text))


def _file(file: ManagedFile, old: str) -> list[str]:
    if not is_text(file):
        return [f"~ {file.path}: {len(file.content)} bytes, sha256 {file.sha256[:16]}…"]
    new = file.content.decode(errors="replace")
    if file.secret:
        if masked(old) == masked(new) and old != new:
            return [f"~ {file.path}: a secret differs"]
        old, new = masked(old), masked(new)
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), file.path, file.path, lineterm="", n=2))
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"  … {len(lines) - _MOST_LINES} more lines"]
    return lines or [f"~ {file.path}: owner {file.owner}:{file.group}, mode {file.mode:o}"]
