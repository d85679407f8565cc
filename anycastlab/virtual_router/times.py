"""RouterOS times as text: `1w2d3h4m5s6ms`, `00:01:30`, `90` (seconds), `1.5s`."""

from __future__ import annotations

import re

_UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|[wdhms])")
_CLOCK = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(\d+):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def parse_ms(text: str) -> int:
    """Milliseconds. Raises ValueError when `text` is no time. A bare number counts seconds."""
    if _NUMBER.fullmatch(text):
        return round(float(text) * 1000)
    if match := _CLOCK.fullmatch(text):
        weeks, days, hours, minutes, seconds = (int(group or 0) for group in match.groups()[:5])
        fraction = int((match[6] or "0").ljust(3, "0"))
        return ((((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a time")
    return round(sum(float(number) * _UNITS_MS.get(unit, 0.001) for number, unit in parts))


def print_ms(milliseconds: int) -> str:
    """As a router prints it: the largest units first, nothing that is zero (`1m30s`, `200ms`, `0s`)."""
    if milliseconds == 0:
        return "0s"
    out = ""
    for unit, size in _UNITS_MS.items():
        count, milliseconds = divmod(milliseconds, size)
        if count:
            out += f"{count}{unit}"
    return out
