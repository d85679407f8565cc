"""Spellings that mean the same are the same; others are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.routeros.values import canonical, duration, microseconds, same

PROPERTIES = ["comment", "disabled", "hold-time", "remote.address", "addresses", "afi", "rule", "up-script", "name"]


@pytest.mark.parametrize(
    ("prop", "one", "other"),
    [
        ("disabled", "yes", "true"),
        ("disabled", "no", None),
        ("connect", "yes", None),
        ("use-bfd", "no", "false"),
        ("hold-time", "9s", "00:00:09"),
        ("hold-time", "90", "1m30s"),
        ("hold-time", "90s", "1m30s"),
        ("keepalive-time", "1d2h", "1d02:00:00"),
        ("min-tx", "1000ms", "1s"),
        ("min-tx", "100ms", "00:00:00.1"),
        ("timeout", "1500ms", "1s500ms"),
        ("remote.address", "10.1.2.11", "10.1.2.11/32"),
        ("remote.address", "FD00:2::11", "fd00:2:0::11/128"),
        ("src-address", "10.1.1.7/24", "10.1.1.0/24"),
        ("src-address", "!10.1.1.1", "!10.1.1.1/32"),
        ("addresses", "10.1.2.12,10.1.2.11/32", "10.1.2.11, 10.1.2.12"),
        ("afi", "ip,ipv6", "ipv6,ip"),
        ("rule", "if (dst == 10.1.9.53/32) { accept } else { reject }", "if (dst==10.1.9.53/32){accept;}else{reject;}"),
        ("rule", "reject", " reject; "),
        ("down-script", "a\r\nb\n", "a\nb"),
        ("test-script", "a\r\nb\n", "a\nb"),
        ("tcp-md5-key", None, ""),
    ],
)
def test_same(prop: str, one: str | None, other: str | None) -> None:
    assert same(prop, one, other)
    assert same(prop, other, one)


@pytest.mark.parametrize(
    ("prop", "one", "other"),
    [
        ("disabled", "yes", None),
        ("connect", "no", None),
        ("comment", "no", "false"),
        ("comment", "10", "010"),
        ("name", "yes", "true"),
        ("hold-time", "9s", "9m"),
        ("hold-time", "infinity", "0s"),
        ("remote.address", "10.1.2.11", "10.1.2.0/24"),
        ("src-address", "10.1.1.1", "!10.1.1.1"),
        ("rule", "if (dst == 10.1.9.53/32) { accept }", "if (dst != 10.1.9.53/32) { accept }"),
        (
            "rule",
            "if (dst == 10.1.9.53/32) { accept } else { reject }",
            "if (dst == 10.1.9.53/31) { accept } else { reject }",
        ),
        ("rule", 'set comment "a b"; accept', 'set comment "a  b"; accept'),
        ("down-script", "a b", "a  b"),
    ],
)
def test_different(prop: str, one: str | None, other: str | None) -> None:
    assert not same(prop, one, other)


@given(st.sampled_from(PROPERTIES), st.text(max_size=30))
def test_canonical_is_stable_and_never_fails(prop: str, value: str) -> None:
    once = canonical(prop, value)
    assert canonical(prop, once) == once


@given(st.integers(0, 10**15))
def test_a_printed_time_is_read_as_the_same_time(us: int) -> None:
    assert microseconds(duration(us)) == us


@pytest.mark.parametrize("text", ["", "infinity", "none", "1x", "s", "1:2", "٣s", "-5s"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert microseconds(text) is None
