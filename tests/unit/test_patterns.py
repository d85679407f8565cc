"""A pattern that ends in `$`, used with `match`, lets a line break through: text is matched whole (`fullmatch`)."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "anycastlab"
_ENDS_IN_DOLLAR = re.compile(r'^(\w+)(?:: \w+)? = re\.compile\([^\n]*\$"', re.MULTILINE)


def test_no_pattern_lets_a_line_break_through() -> None:
    found = []
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        found += [f"{file.name}: {name}.match" for name in _ENDS_IN_DOLLAR.findall(text) if f"{name}.match(" in text]
        found += [f"{file.name}: {use}" for use in re.findall(r're\.match\([^\n]*\$"', text)]
        found += [f"{file.name}: {use}" for use in re.findall(r"Field\([^\n]*pattern=", text)]
    assert found == []
