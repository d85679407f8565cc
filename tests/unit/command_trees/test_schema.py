"""Command trees: the version cliffs a home meets, and every version in between."""

from __future__ import annotations

import pytest

from anycastlab.command_trees.schema import NEWEST_MINOR, Schema
from anycastlab.command_trees.version import Version

CONNECTION, INSTANCE = "/routing/bgp/connection", "/routing/bgp/instance"
VERSIONS = [
    "7.16",
    "7.16.2",
    *(f"7.{minor}" for minor in range(17, NEWEST_MINOR + 1)),
    "7.20.8 (long-term)",
    "7.23beta2",
]


@pytest.mark.parametrize(
    ("menu", "verb", "argument", "first"),
    [
        (CONNECTION, "add", "afi", "7.19"),
        (CONNECTION, "set", "afi", "7.19"),
        (CONNECTION, "add", "instance", "7.20"),
        (INSTANCE, "add", "name", "7.20"),
        (INSTANCE, "add", "multipath", "7.22rc4"),
        ("/tool/netwatch", "add", "ignore-initial-up", "7.17"),
        ("/tool/netwatch", "add", "dns-server", "7.16"),
        ("/safe-mode", "take", "on-error", "7.18"),
        ("/ip/settings", "set", "ipv4-multipath-hash-policy", "7.16"),
        ("/system/scheduler", "add", "days", "7.24beta1"),
    ],
)
def test_an_argument_appears_with_its_version(menu: str, verb: str, argument: str, first: str) -> None:
    since = Version.parse(first)
    for text in [*VERSIONS, first]:
        assert Schema.load(text).has(menu, verb, argument) == (Version.parse(text) >= since), text


@pytest.mark.parametrize(
    ("argument", "gone"),
    [("address-families", "7.19"), ("router-id", "7.20"), ("cluster-id", "7.20"), ("add-path-out", "7.22rc4")],
)
def test_an_argument_disappears_with_its_version(argument: str, gone: str) -> None:
    for text in [*VERSIONS, gone]:
        assert Schema.load(text).has(CONNECTION, "add", argument) == (Version.parse(text) < Version.parse(gone)), text


def test_an_argument_that_came_went_and_came_again() -> None:
    having = {
        text: Schema.load(text).has(CONNECTION, "add", "input.attr-error-handling")
        for text in ("7.20.1", "7.20.8", "7.21", "7.21.1", "7.21.2", "7.22", "7.24")
    }
    assert having == {
        "7.20.1": False,
        "7.20.8": True,
        "7.21": False,
        "7.21.1": False,
        "7.21.2": True,
        "7.22": True,
        "7.24": True,
    }


@pytest.mark.parametrize("text", VERSIONS)
def test_every_version_has_what_a_home_needs(text: str) -> None:
    schema = Schema.load(text)
    for path in (
        CONNECTION,
        "/routing/filter/rule",
        "/ip/firewall/filter",
        "/ip/firewall/nat",
        "/tool/netwatch",
        "/routing/bfd/configuration",
        "/routing/table",
    ):
        menu = schema.menu(path)
        assert menu is not None
        assert {"add", "set", "remove", "print", "enable", "disable"} <= set(menu.verbs)
    firewall = schema.menu("/ip/firewall/nat")
    assert firewall is not None
    assert firewall.ordered
    assert not firewall.singleton
    for path in ("/ip/dns", "/ip/settings", "/system/identity", "/routing/settings"):
        singleton = schema.menu(path)
        assert singleton is not None
        assert singleton.singleton


@pytest.mark.parametrize("text", ["7.15.3", "6.49.13", "7.25", "8.0"])
def test_a_version_nobody_described_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="RouterOS"):
        Schema.load(text)


@pytest.mark.parametrize("text", ["", "seven", "7", "7.22.3.1", "7.22 stable", "7.22rc"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a RouterOS version"):
        Version.parse(text)


def test_versions_are_ordered_and_printed_as_the_router_does() -> None:
    order = [
        "7.16.2",
        "7.20.1",
        "7.20.8 (long-term)",
        "7.21",
        "7.22beta1",
        "7.22rc2",
        "7.22rc10",
        "7.22",
        "7.22.3 (stable)",
    ]
    assert sorted(order, key=Version.parse) == order
    assert str(Version.parse("7.20.8 (long-term)")) == "7.20.8 (long-term)"
    assert str(Version.parse("7.22.3")) == "7.22.3 (stable)"
    assert str(Version.parse("7.23beta2")) == "7.23beta2 (testing)"
