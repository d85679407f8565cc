"""Golden files of the stand-in's renderers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden import compare

_FOLDER = Path(__file__).with_name("golden")


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    return lambda name, text: compare(_FOLDER / name, text)
