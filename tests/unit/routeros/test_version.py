"""What each version can do, from its number and from the menus that were found."""

from __future__ import annotations

import pytest

from anycastlab.routeros.errors import RouterError
from anycastlab.routeros.version import capabilities


@pytest.mark.parametrize(
    ("text", "instance", "multipath", "afi", "safe_mode", "initial"),
    [
        ("7.16", False, False, "address-families", False, False),
        ("7.16.2 (stable)", False, False, "address-families", False, False),
        ("7.17", False, False, "address-families", False, True),
        ("7.18.2", False, False, "address-families", True, True),
        ("7.19.6 (stable)", False, False, "afi", True, True),
        ("7.20", True, False, "afi", True, True),
        ("7.20.8 (long-term)", True, False, "afi", True, True),
        ("7.21.4", True, False, "afi", True, True),
        ("7.22rc4", True, True, "afi", True, True),
        ("7.22.3 (stable)", True, True, "afi", True, True),
        ("7.23beta2 (testing)", True, True, "afi", True, True),
        ("7.24", True, True, "afi", True, True),
    ],
)
def test_cliffs(text: str, instance: bool, multipath: bool, afi: str, safe_mode: bool, initial: bool) -> None:
    caps = capabilities(text)
    found = (caps.instance, caps.multipath, caps.afi, caps.safe_mode, caps.ignore_initial)
    assert found == (instance, multipath, afi, safe_mode, initial)
    assert any("stand by" in note for note in caps.notes) is not multipath


def test_a_menu_that_is_not_there_counts_more_than_the_number() -> None:
    caps = capabilities("7.20beta4", missing_menus=["/routing/bgp/instance"])
    assert not caps.instance
    assert not caps.multipath


@pytest.mark.parametrize("text", ["7.15.3", "7.1", "6.49.18 (long-term)"])
def test_older_versions_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(RouterError, match=r"Router 192\.0\.2\.1 runs RouterOS .* oldest supported version is 7\.16"):
        capabilities(text, host="192.0.2.1")


@pytest.mark.parametrize("text", ["", "SwOS 2.17", "7", "7.x"])
def test_what_is_no_version_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(RouterError, match="is not understood"):
        capabilities(text, host="192.0.2.1")


def test_a_newer_version_is_planned_like_the_newest_known_one_and_says_so() -> None:
    caps = capabilities("7.31")
    assert caps.multipath
    assert any("newer than" in note for note in caps.notes)
