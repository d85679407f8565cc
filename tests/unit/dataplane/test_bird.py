"""Rows to BIRD's configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router.dataplane import bird
from anycastlab.virtual_router.dataplane.routing import Rendered

from .rows_of_a_home import INTERFACES, Rows, home, numbered

Golden = Callable[[str, str], None]
CONNECTION = "/routing/bgp/connection"
POOL = {
    ".id": "*10",
    "name": "lb pool",
    "instance": "anycast",
    "local.role": "ibgp",
    "remote.address": "10.1.3.0/24",
    "templates": "loose",
    "connect": "false",
    "tcp-md5-key": "s3cret",
}
SIX = {
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
}


def render(rows: Rows, version: str = "7.22.3") -> Rendered:
    return bird.render(rows, Version.parse(version), INTERFACES, "router")


def everything() -> Rows:
    rows = home()
    rows["/routing/bgp/template"] = numbered({"name": "loose", "hold-time": "infinity", "multihop": "true"})
    rows[CONNECTION] = [*rows[CONNECTION], POOL, SIX]
    return rows


def block(text: str, head: str) -> list[str]:
    """The lines of one `protocol … { … }`, `filter …`; empty when there is none."""
    found = re.search(rf"^{re.escape(head)}[^\n]*\{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
    return [line.strip() for line in found[1].splitlines()] if found else []


def one_connection(**change: str) -> list[str]:
    """The lines of the protocol of a home's first connection, with `change` in its row."""
    rows = home()
    first = rows[CONNECTION][0]
    rows[CONNECTION] = [{**first, **{key.replace("__", "."): value for key, value in change.items()}}]
    rendered = render(rows)
    assert rendered.notes == {}
    assert rendered.bgp is not None
    return block(rendered.text, f"protocol bgp {bird.protocol_name(rendered.bgp.peers[0])} ")


@pytest.mark.parametrize("version", ["7.16.2", "7.20.8", "7.22.3"])
def test_golden(version: str, golden: Golden) -> None:
    rendered = render(home(version), version)
    assert rendered.notes == {}
    golden(f"bird-{version}.conf", rendered.text)


def test_golden_with_everything(golden: Golden) -> None:
    rendered = render(everything())
    assert rendered.notes == {}
    golden("bird-everything.conf", rendered.text)


def test_a_router_without_connections_speaks_no_bgp_and_still_has_routes() -> None:
    text = render({}).text
    assert "bgp" not in text
    assert "protocol kernel kernel4" in text


def test_disabled_rows_do_not_count() -> None:
    rows = home()
    first, second = rows[CONNECTION]
    rows[CONNECTION] = [first, {**second, "disabled": "true"}]
    assert "10.1.2.11" in render(rows).text
    assert "10.1.2.12" not in render(rows).text


# --- names -------------------------------------------------------------------------------------------------------


def test_each_connection_is_a_protocol_named_after_its_address() -> None:
    rendered = render(everything())
    assert rendered.bgp is not None
    names = [bird.protocol_name(peer) for peer in rendered.bgp.peers]
    assert names == ["bgp_10_1_2_11", "bgp_10_1_2_12", "range_10_1_3_0_24_", "bgp_fd01__11"]
    for name in (names[0], names[1], names[3]):
        assert block(rendered.text, f"protocol bgp {name} ")
    assert 'dynamic name "range_10_1_3_0_24_";' in block(rendered.text, "protocol bgp listen_10_1_3_0_24 ")


def test_another_name_of_a_connection_is_only_another_description() -> None:
    rows = home()
    first, second = rows[CONNECTION]
    renamed = {**rows, CONNECTION: [{**first, "name": 'the "first"'}, second]}
    before, after = render(rows).text.splitlines(), render(renamed).text.splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [('  description "node01";', '  description "the _first_";')]


def test_names_of_long_ranges_leave_room_for_the_numbers_bird_adds() -> None:
    rows = everything()
    long = [f"fd01:1111:2222:3333:4444:5555:6666:{last}000/116" for last in "78"]
    rows[CONNECTION] = [{**POOL, ".id": f"*{n}", "name": "x", "remote.address": net} for n, net in enumerate(long)]
    rendered = render(rows)
    assert rendered.bgp is not None
    names = {bird.protocol_name(peer) for peer in rendered.bgp.peers}
    assert len(names) == 2
    assert all(len(name) <= 48 for name in names)


# --- sessions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bfd", "line"),
    [
        ([], "bfd off;"),
        ([{"addresses": "10.1.2.11", "forbid-bfd": "true"}, {"interfaces": "all"}], "bfd off;"),
        ([{"interfaces": "ether2-lan"}], "bfd off;"),
        (
            [{"interfaces": "ether3-dns"}],
            "bfd { min tx interval 200 ms; min rx interval 200 ms; multiplier 5; };",
        ),
        (
            [{"addresses": "10.1.2.0/24", "min-tx": "50ms", "min-rx": "1s", "multiplier": "4"}],
            "bfd { min tx interval 50 ms; min rx interval 1000 ms; multiplier 4; };",
        ),
    ],
    ids=["not listed", "forbidden first", "other interface", "defaults", "by prefix"],
)
def test_bfd_is_for_listed_peers_only(bfd: list[dict[str, str]], line: str) -> None:
    rows = home()
    rows[CONNECTION] = rows[CONNECTION][:1]
    rows["/routing/bfd/configuration"] = numbered(*bfd)
    text = render(rows).text
    assert line in block(text, "protocol bgp bgp_10_1_2_11 ")
    # Without the protocol nobody would speak BFD; with nobody to speak to it is left out.
    assert ("protocol bfd" in text) == (line != "bfd off;")


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"hold_time": ""}, []),
        ({"hold-time": "infinity"}, ["hold time 0;"]),
        ({"hold-time": "1s", "keepalive-time": "1s"}, ["hold time 3;", "keepalive time 1;"]),
        ({"connect": "false"}, ["passive;"]),
        ({"multihop": "true"}, ["multihop 255;"]),
        ({}, ["direct;", "local as 65000;", "neighbor 10.1.2.11 as 65053;"]),
        ({"remote.as": ""}, ["neighbor 10.1.2.11 external;"]),
        ({"as": "65001"}, ["local as 65001;"]),
        ({"local.address": "10.1.2.1"}, ["source address 10.1.2.1;"]),
        ({"local.address": "ether3-dns"}, ["source address 10.1.2.1;"]),
        ({"tcp-md5-key": "a 'b'\\#;}"}, ["password \"a 'b'\\#;}\";"]),
        ({"input.allow-as": "2"}, ["allow local as 2;"]),
    ],
)
def test_what_a_connection_says_is_in_its_protocol(change: dict[str, str], lines: list[str]) -> None:
    assert set(lines) <= set(one_connection(**change))


@pytest.mark.parametrize(
    ("role", "remote_as", "address", "lines"),
    [
        ("ibgp", "", "10.1.2.11", ["neighbor 10.1.2.11 internal;", "direct;"]),
        ("ibgp", "65000", "192.0.2.9", ["neighbor 192.0.2.9 as 65000;", "multihop 255;"]),
        ("ibgp-rr", "65000", "10.1.2.11", ["rr client;", "direct;"]),
    ],
)
def test_a_peer_of_the_own_as_is_near_when_it_is_on_a_subnet_of_ours(
    role: str, remote_as: str, address: str, lines: list[str]
) -> None:
    found = one_connection(**{"local.role": role, "remote.as": remote_as, "remote.address": address})
    assert set(lines) <= set(found)
    channel = next(line for line in found if line.startswith("ipv4"))
    assert "preference 55; gateway recursive;" in channel


def test_both_families_have_a_channel_with_their_own_filters() -> None:
    found = one_connection(afi="ip,ipv6")
    assert [line for line in found if line.startswith("ipv")] == [
        f"ipv{family} {{ preference 235; import filter 'in{family}_anycast-in';"
        f" export filter 'out{family}_anycast-out'; }};"
        for family in (4, 6)
    ]


def test_without_a_filter_everything_comes_in_and_only_bgp_goes_out() -> None:
    rows = home(**{"input.filter": "", "output.filter-chain": ""})
    text = render(rows).text
    assert "ipv4 { preference 235; import all; export filter out4; };" in block(text, "protocol bgp bgp_10_1_2_11 ")
    assert block(text, "filter out4 ") == ["if source != RTS_BGP || dest != RTD_UNICAST then reject;", "accept;"]


def test_a_default_route_that_is_asked_for_passes_every_filter_of_its_peer_alone() -> None:
    rows = home()
    first, second = rows[CONNECTION]
    rows[CONNECTION] = [{**first, "output.default-originate": "always"}, second]
    text = render(rows).text
    assert block(text, "filter 'default4_anycast-out' ")[0] == "if net = 0.0.0.0/0 then accept;"
    assert "if net = 0.0.0.0/0 then accept;" not in block(text, "filter 'out4_anycast-out' ")
    assert block(text, "protocol static originate4 ") == [
        "ipv4 { preference 0; import all; };",
        "route 0.0.0.0/0 blackhole;",
    ]


@pytest.mark.parametrize(("version", "paths"), [("7.20.8", 1), ("7.21", 1), ("7.22rc4", 8), ("7.22.3", 8), ("7.24", 8)])
def test_bgp_shares_load_from_7_22_on(version: str, paths: int) -> None:
    rows = home(version)
    rows["/routing/bgp/instance"] = [{**rows["/routing/bgp/instance"][0], "multipath": "8"}]
    text = render(rows, version).text
    assert ("merge paths on limit 8;" in block(text, "protocol kernel kernel4 ")) == (paths == 8)


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
        ({"tcp-md5-key": 'a"b'}, "quotation mark"),
        ({"local.address": "nosuch"}, "nosuch"),
        ({"local.address": "fd01::1"}, "another family"),
        ({"remote.address": "fe80::11"}, "link-local"),
    ],
)
def test_a_connection_that_cannot_be_made_is_inactive_and_the_others_are_made(change: dict[str, str], why: str) -> None:
    rows = home()
    first, second = rows[CONNECTION]
    rows[CONNECTION] = [second, {**first, **change}]
    rendered = render(rows)
    assert rendered.bgp is not None
    assert [peer.name for peer in rendered.bgp.peers] == ["node02"]
    note = rendered.notes[CONNECTION, "*1"]
    assert note["inactive"] == "true"
    assert why in note[".why"]
    assert rendered.text.count("protocol bgp ") == 1


def test_a_link_local_peer_is_found_through_the_interface_it_is_asked_at() -> None:
    found = one_connection(**{"remote.address": "fe80::11", "local.address": "ether3-dns", "afi": "ipv6"})
    assert {"direct;", 'interface "dns";', "neighbor fe80::11 as 65053;"} <= set(found)


def test_a_rule_that_is_not_emulated_is_inactive_and_its_chain_rejects() -> None:
    rows = home()
    rows["/routing/filter/rule"] = numbered({"chain": "anycast-in", "rule": "if (rpki valid) { accept }"})
    rendered = render(rows)
    assert rendered.notes["/routing/filter/rule", "*1"]["inactive"] == "true"
    assert block(rendered.text, "filter 'in4_anycast-in' ") == ["reject; # a chain without rules"]


def test_the_smallest_own_address_is_the_router_id_when_none_is_set() -> None:
    rows = home()
    rows["/routing/bgp/instance"] = numbered({"name": "anycast", "as": "65000"})
    rendered = render(rows)
    assert rendered.bgp is not None
    assert rendered.bgp.router_id == "10.1.1.1"
    assert "\nrouter id 10.1.1.1;\n" in rendered.text


# --- static routes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("menu", "rows", "protocols"),
    [
        ("/ip/route", [{"gateway": "10.1.2.9"}], {"static4_1": ["route 0.0.0.0/0 via 10.1.2.9;"]}),
        (
            "/ip/route",
            [{"dst-address": "192.0.2.0/24", "gateway": "10.1.2.9,10.1.2.8%ether3-dns"}],
            {"static4_1": ["route 192.0.2.0/24 via 10.1.2.8%'dns' via 10.1.2.9;"]},
        ),
        (
            "/ip/route",
            [{"dst-address": "192.0.2.0/24", "gateway": gateway} for gateway in ("10.1.2.8", "10.1.2.9", "10.1.2.8")],
            {"static4_1": ["route 192.0.2.0/24 via 10.1.2.8 via 10.1.2.9;"]},
        ),
        (
            "/ip/route",
            [
                {"dst-address": "192.0.2.0/24", "gateway": "10.1.2.8"},
                {"dst-address": "192.0.2.0/24", "gateway": "ether2-lan", "distance": "200"},
            ],
            {
                "static4_1": ["route 192.0.2.0/24 via 10.1.2.8;"],
                "static4_200": ['route 192.0.2.0/24 via "lan";'],
            },
        ),
        (
            "/ip/route",
            [{"dst-address": "192.0.2.0/24", "blackhole": "true"}],
            {"static4_1": ["route 192.0.2.0/24 blackhole;"]},
        ),
        (
            "/ipv6/route",
            [{"dst-address": "2001:db8::/32", "gateway": "fe80::1%ether3-dns"}],
            {"static6_1": ["route 2001:db8::/32 via fe80::1%'dns';"]},
        ),
    ],
    ids=["default", "several gateways", "several rows", "floating", "blackhole", "ipv6"],
)
def test_static_routes(menu: str, rows: Sequence[dict[str, str]], protocols: dict[str, list[str]]) -> None:
    text = render({menu: numbered(*rows)}).text
    assert re.findall(r"^protocol static (\S+)", text, re.MULTILINE) == list(protocols)
    for name, routes in protocols.items():
        family, distance = re.fullmatch(r"static(\d)_(\d+)", name).groups()  # type: ignore[union-attr]
        assert block(text, f"protocol static {name} ") == [
            f"ipv{family} {{ preference {255 - int(distance)}; import all; }};",
            *routes,
        ]


@pytest.mark.parametrize(
    "row",
    [
        {"dst-address": "192.0.2.0/24", "gateway": "10.1.2.999"},
        {"dst-address": "192.0.2.0/24", "gateway": "fd01::11"},
        {"dst-address": "2001:db8::/32", "gateway": "10.1.2.9"},
        {"dst-address": "192.0.2.0/24", "gateway": "10.1.2.9", "distance": "255"},
    ],
    ids=["no address", "other family", "other family's target", "never used"],
)
def test_a_route_bird_would_not_read_is_left_out_and_the_others_are_there(row: dict[str, str]) -> None:
    text = render({"/ip/route": numbered(row, {"gateway": "203.0.113.53"})}).text
    assert re.findall(r"^  route .*$", text, re.MULTILINE) == ["  route 0.0.0.0/0 via 203.0.113.53;"]


def test_the_order_of_rows_does_not_matter_to_routes() -> None:
    rows = [{"dst-address": f"192.0.{n}.0/24", "gateway": "10.1.2.9"} for n in (2, 3)]
    assert render({"/ip/route": numbered(*rows)}).text == render({"/ip/route": numbered(*reversed(rows))}).text
