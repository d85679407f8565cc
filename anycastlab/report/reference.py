"""The figures that the reference write-up published for the same faults, to stand beside ours.

A home with three nodes, a MikroTik router and 20 queries per second; the words are ours. Scenarios without a published
figure have none here, and their cell stays empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PUBLISHED: Mapping[str, str] = MappingProxyType(
    {
        "kill": "0 lost",
        "freeze": "16 lost in 0.8 s",
        "freeze-one-flow": "16 lost in 0.8 s",
        "all-dead": "11 lost in 1.1 s",
        "all-dead-no-last-resort": "60 s without DNS",
        "local-path-lost": "withdrawn after 4 s, back after 6 s",
        "wan-down": "every uncached name fails, no cached one",
    }
)


def published(scenario: str) -> str:
    """The published figure for a scenario, or an empty text."""
    return PUBLISHED.get(scenario, "")
