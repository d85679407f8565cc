"""FRR's configuration as a set of statements, to see whether the running one says what the file says. Pure."""

from __future__ import annotations

from typing import Final

# What `show running-config` prints besides statements, and what says the same on every FRR.
_NOISE: Final = ("Building configuration", "Current configuration", "frr version", "end")


def statements(text: str) -> frozenset[tuple[str, str]]:
    """(enclosing block, statement) of every line that means something, whatever their order."""
    found: set[tuple[str, str]] = set()
    blocks: list[tuple[int, str]] = []
    for line in text.splitlines():
        body = line.strip()
        if not body or body == "!" or body.startswith(_NOISE) or body in ("exit", "exit-address-family"):
            continue
        indent = len(line) - len(line.lstrip())
        while blocks and blocks[-1][0] >= indent:
            blocks.pop()
        found.add((" / ".join(block for _, block in blocks), body))
        blocks.append((indent, body))
    return frozenset(found)


def agrees(running: str, wanted: str) -> bool:
    """Whether the running configuration says exactly what the file says."""
    return statements(running) == statements(wanted)
