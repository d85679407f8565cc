"""BGP, BFD and routes of the virtual router, seen from its neighbours and its kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.router_lab import NODES, SERVICE, Api, RouterLab, add_redirect, eventually

GOLDEN = Path(__file__).parents[1] / "unit" / "dataplane" / "golden"


@pytest.fixture(scope="module")
def built() -> Iterator[RouterLab]:
    lab = RouterLab("tr")
    lab.build()
    yield lab
    lab.remove()


@pytest.fixture
def router(built: RouterLab) -> RouterLab:
    built.fresh()
    return built


@pytest.fixture
def api(router: RouterLab) -> Iterator[Api]:
    with router.api() as session:
        yield session


def kernel_next_hops(lab: RouterLab, prefix: str = f"{SERVICE}/32") -> set[str]:
    found = json.loads(lab.run("router", "ip", "-json", "route", "show", prefix))
    return {hop["gateway"] for route in found for hop in (route.get("nexthops") or [route])}


def connections(lab: RouterLab) -> set[str]:
    """The TCP connections of the sessions with their ports: a session that was reset has another one."""
    return set(lab.run("router", "ss", "-Htn", "state", "established", "( sport = :179 or dport = :179 )").splitlines())


def test_sessions_and_bfd_come_up_at_the_negotiated_intervals(api: Api) -> None:
    # given node02 asked to be slower than the node itself wants to be
    api.neighbours()
    slow = api.row("/routing/bfd/configuration", addresses="10.1.2.12/32")
    api.set("/routing/bfd/configuration", slow[".id"], min_rx="250ms", min_tx="150ms", multiplier="4")
    # when
    sessions = api.established()
    # then
    assert {(row["name"], row["remote.address"], row["remote.as"]) for row in sessions} == {
        ("node01-1", "10.1.2.11", 65053),
        ("node02-1", "10.1.2.12", 65053),
    }
    assert all(row["hold-time"] == "9s" and row["use-bfd"] for row in sessions)

    def bfd() -> dict[str, tuple[str, str, str, str]]:
        return {
            row["remote-address"]: (
                row["state"],
                row.get("actual-tx-interval", ""),
                row.get("required-min-rx", ""),
                row.get("hold-time", ""),
            )
            for row in api.rows("/routing/bfd/session")
        }

    # The node's own 100 ms times 3: it may send every 250 ms at most, so silence is noticed after 750 ms.
    wanted = {"10.1.2.11": ("up", "100ms", "100ms", "300ms"), "10.1.2.12": ("up", "150ms", "250ms", "750ms")}
    eventually(bfd, lambda seen: seen == wanted)


def test_from_7_22_the_service_address_has_both_next_hops_and_clients_meet_both_nodes(
    router: RouterLab, api: Api
) -> None:
    api.neighbours()
    api.set("/ip/settings", ipv4_multipath_hash_policy="l4")
    eventually(api.next_hops, lambda hops: hops == {"10.1.2.11": True, "10.1.2.12": True})
    assert kernel_next_hops(router) == {"10.1.2.11", "10.1.2.12"}
    ecmp = [row for row in api.rows("/routing/route") if row["dst-address"] == f"{SERVICE}/32"]
    assert all(row["ecmp"] and row["bgp"] for row in ecmp)
    answers = router.ask("id.anycast.lan", count=40)
    assert set(answers) == set(NODES)


def test_below_7_22_one_node_serves_and_the_other_takes_over(built: RouterLab) -> None:
    built.fresh("7.20.8")
    with built.api() as api:
        api.neighbours("7.20.8")
        eventually(api.next_hops, lambda hops: hops == {"10.1.2.11": True, "10.1.2.12": False})
        assert kernel_next_hops(built) == {"10.1.2.11"}
        assert set(built.ask("id.anycast.lan", count=20)) == {"node01"}
        built.node_bgp("node01", f"no network {SERVICE}/32")
        try:
            eventually(lambda: kernel_next_hops(built), lambda hops: hops == {"10.1.2.12"})
            assert set(built.ask("id.anycast.lan", count=5)) == {"node02"}
        finally:
            built.node_bgp("node01", f"network {SERVICE}/32")


def test_before_7_20_the_connection_carries_as_and_router_id(built: RouterLab) -> None:
    built.fresh("7.16.2")
    with built.api() as api:
        api.neighbours("7.16.2")
        assert {row["local.id"] for row in api.established()} == {"10.1.2.1"}
        eventually(lambda: kernel_next_hops(built), lambda hops: len(hops) == 1)


def test_the_filter_lets_only_the_service_address_in(router: RouterLab, api: Api) -> None:
    wild = ("0.0.0.0/0", "10.99.0.0/24", "10.1.9.0/24")
    for prefix in wild:
        router.node_bgp("node01", f"network {prefix}")
    try:
        # given no filter: the router takes what it is told (the negative control)
        api.neighbours(filtered=False)
        eventually(lambda: {p for p in wild if kernel_next_hops(router, p)}, lambda seen: seen == set(wild))
        # when the filter is set
        api.add("/routing/filter/rule", chain="in", rule=f"if (dst == {SERVICE}/32) {{ accept }} else {{ reject }}")
        for row in api.rows("/routing/bgp/connection"):
            api.set("/routing/bgp/connection", row[".id"], input__filter="in")
        # then only the /32 is left, and it is still there
        eventually(lambda: {p for p in wild if kernel_next_hops(router, p)}, lambda seen: seen == set())
        eventually(api.next_hops, lambda hops: hops == {"10.1.2.11": True, "10.1.2.12": True})
    finally:
        for prefix in wild:
            router.node_bgp("node01", f"no network {prefix}")


def test_a_rule_that_is_not_understood_is_inactive_and_lets_nothing_in(router: RouterLab, api: Api) -> None:
    api.neighbours()
    api.served()
    rule = api.row("/routing/filter/rule", chain="in")
    api.set("/routing/filter/rule", rule[".id"], rule="if (bgp-communities includes 65053:1) { accept }")
    assert api.row("/routing/filter/rule", chain="in")["inactive"]
    eventually(lambda: kernel_next_hops(router), lambda hops: hops == set())
    # and it is put right again
    api.set("/routing/filter/rule", rule[".id"], rule="if (dst in 10.1.9.0/24 && dst-len == 32) {accept}")
    assert not api.row("/routing/filter/rule", chain="in").get("inactive")
    eventually(lambda: kernel_next_hops(router), lambda hops: len(hops) == len(NODES))


def test_an_unrelated_change_resets_no_session(router: RouterLab, api: Api) -> None:
    api.neighbours()
    api.established()
    before = connections(router)
    api.add("/routing/filter/rule", chain="other", rule="accept")
    api.add("/ip/route", dst_address="192.0.2.0/24", gateway="10.1.2.12")
    connection = api.row("/routing/bgp/connection", name="node01")
    api.set("/routing/bgp/connection", connection[".id"], comment="told apart")
    api.rows("/routing/bgp/session")
    assert connections(router) == before
    assert kernel_next_hops(router, "192.0.2.0/24") == {"10.1.2.12"}


def test_an_ipv6_neighbour_brings_the_twin_prefix(router: RouterLab, api: Api) -> None:
    router.run("router", "ip", "-6", "address", "replace", "fd01::1/64", "dev", "dns", "nodad")
    router.run("node01", "ip", "-6", "address", "replace", "fd01::11/64", "dev", "eth0", "nodad")
    router.vtysh(
        "node01",
        "configure terminal",
        "router bgp 65053",
        "neighbor fd01::1 remote-as 65000",
        "neighbor fd01::1 timers connect 1",
        "neighbor fd01::1 bfd",
        "address-family ipv6 unicast",
        "network fd53::53/128",
        "neighbor fd01::1 activate",
    )
    api.add("/routing/bgp/instance", name="main", **{"as": "65000"}, router_id="10.1.2.1", multipath="8")
    api.add("/routing/filter/rule", chain="six", rule="if (dst == fd53::53/128) { accept }")
    api.add("/routing/bfd/configuration", addresses="fd01::11")
    api.add(
        "/routing/bgp/connection",
        name="six",
        instance="main",
        local__role="ebgp",
        remote__address="fd01::11",
        remote__as="65053",
        afi="ipv6",
        use_bfd="yes",
        input__filter="six",
    )
    api.established(1)
    eventually(lambda: api.next_hops("fd53::53/128"), lambda hops: hops == {"fd01::11": True})
    eventually(lambda: api.row("/routing/bfd/session", remote_address="fd01::11"), lambda row: row["state"] == "up")


def test_a_restart_of_the_service_is_not_felt_and_a_restart_of_the_machine_is_healed(router: RouterLab) -> None:
    with router.api() as api:
        api.neighbours()
        api.served()
        add_redirect(api)
        before = connections(router)
    router.restart()
    assert connections(router) == before
    assert kernel_next_hops(router) == {"10.1.2.11", "10.1.2.12"}
    with router.api() as api:
        api.served()
        assert router.ask("nas.lan", "A", server="10.1.1.1") == ["10.1.1.20"]
    # Everything gone but the saved rows.
    router.run("router", "rm", "/etc/bird/bird.conf")
    router.power_cut()
    with router.api() as api:
        api.served()
        redirect = api.row("/ip/firewall/nat", comment="anycastlab:redirect:udp")
        api.set("/ip/firewall/nat", redirect[".id"], disabled="no")
        assert eventually(lambda: router.ask("nas.lan", "A"), lambda seen: seen == ["10.1.1.20"])


def test_a_wrong_key_keeps_the_session_down_and_the_right_one_brings_it_up(router: RouterLab, api: Api) -> None:
    router.vtysh("node01", "configure terminal", "router bgp 65053", "neighbor 10.1.2.1 password right")
    try:
        api.neighbours(tcp_md5_key="wrong")
        row = api.row("/routing/bgp/connection", name="node02")
        api.set("/routing/bgp/connection", row[".id"], tcp_md5_key="")
        assert [row["name"] for row in api.established(1)] == ["node02-1"]
        # A session that never was has no row at all.
        assert [row["name"] for row in api.rows("/routing/bgp/session")] == ["node02-1"]
        row = api.row("/routing/bgp/connection", name="node01")
        api.set("/routing/bgp/connection", row[".id"], tcp_md5_key="right")
        api.established()
    finally:
        router.vtysh("node01", "configure terminal", "router bgp 65053", "no neighbor 10.1.2.1 password")


def test_an_input_drop_that_hits_bfd_shows_in_the_session_rows(api: Api) -> None:
    api.neighbours()
    api.established()
    up = lambda rows: {row["state"] for row in rows} == {"up"}  # noqa: E731
    eventually(lambda: api.rows("/routing/bfd/session"), up)
    # when
    drop = api.add("/ip/firewall/filter", chain="input", action="drop", protocol="udp", dst_port="3784")
    # then BFD is down for both
    eventually(lambda: api.rows("/routing/bfd/session"), lambda rows: {row["state"] for row in rows} == {"down"})
    # when an accept is placed before the drop
    api.add(
        "/ip/firewall/filter",
        chain="input",
        action="accept",
        protocol="udp",
        dst_port="3784",
        src_address="10.1.2.0/24",
        place_before=drop,
    )
    eventually(lambda: api.rows("/routing/bfd/session"), up)
    api.established()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("bird-*.conf")), ids=lambda path: path.stem)
def test_bird_takes_every_configuration(built: RouterLab, path: Path) -> None:
    built.put("router", "/root/golden.conf", path.read_bytes())
    built.run("router", "bird", "-p", "-c", "/root/golden.conf")
