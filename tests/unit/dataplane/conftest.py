"""Golden files: what a renderer wrote when somebody last read it. `UPDATE_GOLDEN=1 pytest` writes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_FOLDER = Path(__file__).with_name("golden")


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    def compare(name: str, text: str) -> None:
        path = _FOLDER / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text()

    return compare
