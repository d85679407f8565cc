"""What the commands exit with."""

from __future__ import annotations

from typing import Final

OK: Final = 0
ERROR: Final = 1  # a wrong option, too
PENDING: Final = 2  # changes pending, or not healthy
INTERRUPTED: Final = 130  # Ctrl-C
