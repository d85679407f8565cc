"""A disk of a few kilobytes, in a mount name space of its own: nobody else sees it, and it ends with its program."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_LIMIT_S = 60.0


def run(folder: Path, prepare: str, argv: Sequence[str], options: str = "size=64k") -> subprocess.CompletedProcess[str]:
    """Mount the disk over `folder`, run the shell's `prepare` there, then `argv`; afterwards its files are printed as
    `NAME: FIRST LINE`, after what `argv` printed."""
    script = (
        f'mount -t tmpfs -o {options} small "$0" && (cd "$0" && {{ {prepare or ":"}; }} 2>/dev/null); "$@"; code=$?; '
        'cd "$0"; for f in $(find . -type f ! -name filler | sort); '
        'do echo "$f: $(head -c 60 "$f" | head -n 1)"; done; exit $code'
    )
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, str(folder), *argv],
        capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
