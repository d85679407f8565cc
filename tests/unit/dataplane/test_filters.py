"""The filter language: what is understood of it, and what is refused by name."""

from __future__ import annotations

import re

import pytest

from anycastlab.virtual_router.dataplane import filters


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("if (bgp-communities includes 1:1) { accept }", "bgp-communities"),
        ("set distance 5; accept", "set distance"),
        ("if (dst == 10.1.9.53/33) { accept }", "10.1.9.53/33"),
        ("if (dst == 10.1.9.53/24) { accept }", "10.1.9.53/24"),
        ("if (dst == 10.1.9.53/32) { accept ", "}"),
        ("if dst == 10.1.9.53/32 { accept }", "("),
        ("", "empty"),
        ("accept }", "}"),
        ("if (dst-len == a) {accept}", "dst-len"),
        ("append bgp-path 1; accept", "append"),
    ],
)
def test_what_is_not_emulated_is_named(rule: str, part: str) -> None:
    with pytest.raises(filters.RuleError, match=re.escape(part)):
        filters.parse(rule)
