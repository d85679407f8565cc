"""Tables where the terminal is narrower than they are: a block for each row, nothing cut off."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

_ANY_WIDTH = 100_000  # characters; who reads a pipe or a file breaks lines, or does not, as they like


def columns() -> int:
    """How wide text on standard output may be: as the terminal, or without end when it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _ANY_WIDTH


def blocks(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Each row as lines: its first cell, then the others with their headings, indented and broken between words."""
    lines = []
    for first, *rest in rows:
        cells = [f"{heading} {cell}".lstrip() for heading, cell in zip(headings[1:], rest, strict=True) if cell]
        wrapped = textwrap.wrap(
            ", ".join(cells), max(width, 20), initial_indent="  ", subsequent_indent="  ", break_long_words=False
        )
        lines += [first, *wrapped]
    return lines
