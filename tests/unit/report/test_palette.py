"""Legibility in numbers: the contrast that WCAG 2.2 asks for, in light and in dark."""

from __future__ import annotations

import pytest

from anycastlab.report.palette import COLORS, MARKS, TEXTS


def luminance(color: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def over(color: str, ground: str, opacity: float) -> str:
    """The color that a shade leaves on a ground."""
    mixed = (round(int(color[i : i + 2], 16) * opacity + int(ground[i : i + 2], 16) * (1 - opacity)) for i in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in mixed)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("ground", ["page", "panel"])
@pytest.mark.parametrize(("names", "least"), [(TEXTS, 4.5), (MARKS, 3.0)])
def test_contrast(dark: bool, ground: str, names: tuple[str, ...], least: float) -> None:
    for name in names:
        assert contrast(COLORS[name][dark], COLORS[ground][dark]) >= least, name


@pytest.mark.parametrize("dark", [False, True])
def test_marks_stay_legible_inside_the_fault_window(dark: bool) -> None:
    shaded = over(COLORS["fault"][dark], COLORS["panel"][dark], 0.13)

    for name in MARKS:
        assert contrast(COLORS[name][dark], shaded) >= 3.0, name
