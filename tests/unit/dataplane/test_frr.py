"""Rows to FRR's configuration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anycastlab.virtual_router.dataplane import frr
from anycastlab.virtual_router.version import Version

from .rows_of_a_home import INTERFACES, Rows, home, numbered

Golden = Callable[[str, str], None]


def render(rows: Rows, version: str = "7.22.3") -> frr.Rendered:
    return frr.render(rows, Version.parse(version), INTERFACES, "router")


@pytest.mark.parametrize("version", ["7.16.2", "7.20.8", "7.22.3"])
def test_golden(version: str, golden: Golden) -> None:
    rendered = render(home(version), version)
    assert rendered.notes == {}
    golden(f"frr-{version}.conf", rendered.text)


def test_golden_with_everything(golden: Golden) -> None:
    rows = home()
    rows["/routing/bgp/template"] = numbered({"name": "loose", "hold-time": "infinity", "multihop": "true"})
    rows["/routing/bgp/connection"] = [
        *rows["/routing/bgp/connection"],
        {
            ".id": "*10",
            "name": "lb pool",
            "instance": "anycast",
            "local.role": "ibgp",
            "remote.address": "10.1.3.0/24",
            "templates": "loose",
            "connect": "false",
            "tcp-md5-key": "s3cret",
        },
        {
            ".id": "*11",
            "name": "six",
            "instance": "anycast",
            "local.role": "ebgp",
            "remote.address": "fd01::11",
            "remote.as": "65053",
            "afi": "ipv6",
            "input.filter": "anycast-in",
            "output.default-originate": "always",
            "local.address": "ether3-dns",
        },
    ]
    rendered = render(rows)
    assert rendered.notes == {}
    golden("frr-everything.conf", rendered.text)


def test_a_router_without_connections_speaks_no_bgp() -> None:
    assert "router bgp" not in render({}).text


def test_disabled_rows_do_not_count() -> None:
    rows = home()
    first, second = rows["/routing/bgp/connection"]
    rows["/routing/bgp/connection"] = [first, {**second, "disabled": "true"}]
    assert "10.1.2.11" in render(rows).text
    assert "10.1.2.12" not in render(rows).text


@pytest.mark.parametrize(
    ("bfd", "timers"),
    [
        ([], None),
        ([{"addresses": "10.1.2.11", "forbid-bfd": "true"}, {"interfaces": "all"}], None),
        ([{"interfaces": "ether2-lan"}], None),
        ([{"interfaces": "ether3-dns"}], (200, 200, 5)),
        ([{"addresses": "10.1.2.0/24", "min-tx": "50ms", "min-rx": "1s", "multiplier": "4"}], (50, 1000, 4)),
    ],
    ids=["not listed", "forbidden first", "other interface", "defaults", "by prefix"],
)
def test_bfd_is_for_listed_peers_only(bfd: list[dict[str, str]], timers: tuple[int, int, int] | None) -> None:
    rows = home()
    rows["/routing/bfd/configuration"] = numbered(*bfd)
    bgp = render(rows).bgp
    assert bgp is not None
    found = bgp.peers[0].bfd
    assert (found and (found.tx_ms, found.rx_ms, found.multiplier)) == timers
    assert bgp.peers[0].use_bfd


@pytest.mark.parametrize(("version", "paths"), [("7.20.8", 1), ("7.21", 1), ("7.22rc4", 8), ("7.22.3", 8), ("7.24", 8)])
def test_bgp_shares_load_from_7_22_on(version: str, paths: int) -> None:
    rows = home(version)
    rows["/routing/bgp/instance"] = [{**rows["/routing/bgp/instance"][0], "multipath": "8"}]
    bgp = render(rows, version).bgp
    assert bgp is not None
    assert bgp.paths == paths


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"instance": "nobody"}, "instance"),
        ({"remote.address": ""}, "remote.address"),
        ({"local.role": ""}, "local.role"),
        ({"remote.address": "10.1.2.999"}, "10.1.2.999"),
        ({"afi": "l2vpn"}, "l2vpn"),
        ({"output.redistribute": "connected"}, "output.redistribute"),
        ({"remote.address": "10.1.2.12"}, "10.1.2.12"),
    ],
)
def test_a_connection_that_cannot_be_made_is_inactive_and_the_others_are_made(change: dict[str, str], why: str) -> None:
    rows = home()
    first, second = rows["/routing/bgp/connection"]
    rows["/routing/bgp/connection"] = [second, {**first, **change}]
    rendered = render(rows)
    assert rendered.bgp is not None
    assert [peer.name for peer in rendered.bgp.peers] == ["node02"]
    note = rendered.notes["/routing/bgp/connection", "*1"]
    assert note["inactive"] == "true"
    assert why in note[".why"]


def test_a_rule_that_is_not_emulated_is_inactive_and_its_chain_rejects() -> None:
    rows = home()
    rows["/routing/filter/rule"] = numbered({"chain": "anycast-in", "rule": "if (rpki valid) { accept }"})
    rendered = render(rows)
    assert rendered.notes["/routing/filter/rule", "*1"]["inactive"] == "true"
    chain = [line for line in rendered.text.splitlines() if line.startswith("route-map anycast-in-ipv4")]
    assert chain == ["route-map anycast-in-ipv4 deny 10"]


def test_the_smallest_own_address_is_the_router_id_when_none_is_set() -> None:
    rows = home()
    rows["/routing/bgp/instance"] = numbered({"name": "anycast", "as": "65000"})
    bgp = render(rows).bgp
    assert bgp is not None
    assert bgp.router_id == "10.1.1.1"


def test_names_with_spaces_and_quotes_stay_apart_in_frr() -> None:
    assert frr.safe_name("in") == "in"
    odd = {frr.safe_name(name) for name in ('a b"', "a b'", "a_b_", "ä b")}
    assert len(odd) == 4
    assert all(" " not in name and '"' not in name for name in odd)
