"""Colors of the report, for light and dark, and how they become CSS.

Outcomes differ in shape as well as in color, and the colors are told apart under every common color blindness (after
Okabe and Ito), made darker on white and lighter on black. `tests/unit/report/test_palette.py` holds every pair to the
contrast of WCAG 2.2: 4.5 for text, 3 for marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# name: (light, dark)
COLORS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "page": ("#ffffff", "#14171a"),
        "panel": ("#f5f6f7", "#1d2125"),
        "line": ("#d5d9dd", "#363c42"),
        "text": ("#1b1f23", "#e8eaed"),
        "quiet": ("#57606a", "#a3acb5"),
        "answered": ("#0a6fb0", "#56b4e9"),
        "stalled": ("#a35f00", "#f0a830"),
        "lost": ("#c02d14", "#ff7a5c"),
        "servfail": ("#8e3a80", "#e08fc8"),
        "wrong": ("#6b5a00", "#e0d04a"),
        "announced": ("#0b7a5b", "#2fc296"),
        "fault": ("#c02d14", "#ff7a5c"),
        "ok": ("#0b7a5b", "#2fc296"),
        "void": ("#8a5a00", "#f0a830"),
        "failed": ("#c02d14", "#ff7a5c"),
    }
)
MARKS = ("answered", "stalled", "lost", "servfail", "wrong", "announced")
TEXTS = ("text", "quiet", "ok", "void", "failed")


def variables(dark: bool) -> str:
    """The colors as CSS custom properties."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in COLORS.items())


def css() -> str:
    """Both palettes; the reader's system decides."""
    return (
        f":root {{ color-scheme: light dark; {variables(dark=False)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(dark=True)} }} }}\n"
    )
