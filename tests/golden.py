"""Golden files: what a renderer wrote when a person last read it.

`UPDATE_GOLDEN=1 pytest tests/unit` writes them anew; read the diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SWITCH: Final = "UPDATE_GOLDEN"


def compare(path: Path, text: str) -> None:
    """Fails where `text` is not what `path` holds; writes it there first when the switch is set."""
    if os.environ.get(SWITCH):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"differs from {path}; {SWITCH}=1 writes it anew"
