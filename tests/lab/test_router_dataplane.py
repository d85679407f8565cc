"""What the virtual router's rows do, seen from its neighbours, its kernel and a client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from librouteros.exceptions import TrapError

from anycastlab.lab.router import UNIT
from anycastlab.virtual_router.dataplane.daemons import RELOAD
from tests.lab.router_lab import NODES, SERVICE, Api, RouterLab, eventually

GOLDEN = Path(__file__).parents[1] / "unit" / "dataplane" / "golden"
DISABLE = '/ip/firewall/nat/disable [find where comment~"^redirect"]'
ENABLE = '/ip firewall nat enable [find comment~"^redirect"]'
FLUSH = '/ip/firewall/connection/remove [find where dst-address~"^10.1.9.53"]'


@pytest.fixture(scope="module")
def built() -> Iterator[RouterLab]:
    lab = RouterLab()
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


def add_redirect(api: Api) -> None:
    for protocol in ("udp", "tcp"):
        api.add(
            "/ip/firewall/nat",
            chain="dstnat",
            action="redirect",
            protocol=protocol,
            dst_address=SERVICE,
            dst_port="53",
            to_ports="53",
            comment=f"redirect {protocol}",
            disabled="yes",
        )
    api.set("/ip/dns", allow_remote_requests="yes")


def add_netwatch(api: Api, up: str, down: str) -> None:
    api.add(
        "/tool/netwatch",
        type="dns",
        host="nas.lan",
        dns_server=SERVICE,
        record_type="A",
        interval="1s",
        timeout="500ms",
        start_delay="0s",
        up_script=up,
        down_script=down,
    )


# --- BGP, BFD, routes -----


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


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("frr-*.conf")), ids=lambda path: path.stem)
def test_frr_finds_no_difference_in_a_configuration_it_has_applied(router: RouterLab, path: Path) -> None:
    """Else every later change would touch lines, and with them sessions, that did not change."""
    router.run("router", "systemctl", "stop", UNIT)
    router.put("router", "/root/golden.conf", path.read_bytes())
    router.run("router", "python3", RELOAD, "--reload", "/root/golden.conf")
    printed = router.run("router", "python3", RELOAD, "--test", "--stdout", "/root/golden.conf")
    assert "Lines To" not in printed


def connections(lab: RouterLab) -> dict[str, tuple[int, int]]:
    """The TCP connection of each session by its ports: a session that was reset has another one."""
    neighbours = json.loads(lab.vtysh("router", "show bgp neighbors json"))
    return {name: (state["portLocal"], state["portForeign"]) for name, state in neighbours.items()}


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
    router.run("router", "rm", "/etc/frr/frr.conf")
    router.power_cut()
    with router.api() as api:
        api.served()
        api.set("/ip/firewall/nat", api.row("/ip/firewall/nat", comment="redirect udp")[".id"], disabled="no")
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


# --- firewall -----


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


def test_dns_from_the_wan_is_refused_by_an_input_rule_and_other_rules_stay(router: RouterLab, api: Api) -> None:
    api.set("/ip/dns", allow_remote_requests="yes")
    api.settled()
    assert router.ask("nas.lan", "A", server="203.0.113.2") == ["10.1.1.20"]
    api.add(
        "/ip/firewall/filter",
        chain="input",
        action="drop",
        protocol="udp",
        dst_port="53",
        in_interface_list="!LAN",
        comment="no DNS from outside",
    )
    api.add(
        "/ip/firewall/filter", chain="input", action="drop", dst_address="203.0.113.2", protocol="udp", dst_port="53"
    )
    api.settled()
    assert router.ask("nas.lan", "A", server="203.0.113.2") == ["TimeoutError"]
    assert router.ask("nas.lan", "A", server="10.1.1.1") == ["10.1.1.20"]


def test_what_is_not_emulated_is_refused_by_name(api: Api) -> None:
    for menu, row, reason in (
        ("/ip/firewall/filter", {"chain": "input", "action": "tarpit", "protocol": "tcp"}, "action=tarpit"),
        ("/ip/firewall/filter", {"chain": "input", "action": "drop", "content": "x"}, "content=x"),
        ("/tool/netwatch", {"type": "http-get", "host": "10.1.2.11"}, "type=http-get"),
    ):
        with pytest.raises(TrapError, match=re.escape(reason)):
            api.add(menu, **row)


# --- last resort -----


def test_netwatch_switches_the_redirect_on_when_no_node_answers_and_off_again(router: RouterLab, api: Api) -> None:
    api.neighbours()
    api.served()
    add_redirect(api)
    add_netwatch(api, f"{DISABLE}; {FLUSH}", f"{ENABLE}; {FLUSH}")
    status = lambda: api.rows("/tool/netwatch")[0]["status"]  # noqa: E731
    eventually(status, lambda seen: seen == "up")
    assert router.ask("nas.lan", "A")[0].startswith("10.1.2.1")
    # when both stop answering
    for node in NODES:
        router.run(node, "systemctl", "stop", "answerer")
    eventually(status, lambda seen: seen == "down")
    # then the router itself answers at the service address
    assert eventually(lambda: router.ask("nas.lan", "A"), lambda seen: seen == ["10.1.1.20"])
    assert {row["disabled"] for row in api.rows("/ip/firewall/nat")} == {False}
    # when they are back
    for node in NODES:
        router.run(node, "systemctl", "start", "answerer")
    eventually(status, lambda seen: seen == "up")
    eventually(lambda: {row["disabled"] for row in api.rows("/ip/firewall/nat")}, lambda seen: seen == {True})
    messages = [row["message"] for row in api.rows("/log") if "netwatch" in row["topics"]]
    assert any("down" in message for message in messages)


@pytest.mark.parametrize(
    ("flush", "served", "port"), [(FLUSH, True, 4053), ("", False, 4054)], ids=["flushed", "not flushed"]
)
def test_a_client_with_one_socket_is_moved_only_if_its_tracked_connection_is_flushed(
    router: RouterLab, api: Api, flush: str, served: bool, port: int
) -> None:
    api.neighbours()
    api.served()
    add_redirect(api)
    add_netwatch(api, DISABLE, f"{ENABLE}; {flush}")
    eventually(lambda: api.rows("/tool/netwatch")[0]["status"], lambda seen: seen == "up")
    # One socket: NAT was decided with its first packet.
    assert router.ask("nas.lan", "A", port=port)[0].startswith("10.1.2.1")
    tracked = [row for row in api.rows("/ip/firewall/connection") if row["src-address"] == f"10.1.1.101:{port}"]
    assert [row["dst-address"] for row in tracked] == [f"{SERVICE}:53"]
    for node in NODES:
        router.run(node, "systemctl", "stop", "answerer")
    eventually(lambda: {row["disabled"] for row in api.rows("/ip/firewall/nat")}, lambda seen: seen == {False})
    router_answers = ["10.1.1.20"]
    if served:
        assert eventually(lambda: router.ask("nas.lan", "A", port=port), lambda seen: seen == router_answers)
    else:
        assert router.ask("nas.lan", "A", port=port, count=3) == ["ConnectionRefusedError"] * 3
        # A new socket is not bound to the old decision.
        assert router.ask("nas.lan", "A") == router_answers


def test_a_script_that_is_not_understood_runs_not_at_all_and_is_reported(api: Api) -> None:
    add_redirect(api)
    add_netwatch(api, "", f'{ENABLE}; /tool fetch url="http://10.1.1.1/"')
    eventually(lambda: api.rows("/tool/netwatch")[0]["status"], lambda seen: seen == "down")
    eventually(
        lambda: [row["message"] for row in api.rows("/log") if "script,error" in row["topics"]],
        lambda messages: any("fetch" in message for message in messages),
    )
    assert {row["disabled"] for row in api.rows("/ip/firewall/nat")} == {True}


def test_a_stored_script_with_more_rights_than_netwatch_is_silently_not_run(api: Api) -> None:
    add_redirect(api)
    api.add("/system/script", name="toggle", source=ENABLE, policy="read,write,test,policy")
    add_netwatch(api, "", "/system script run toggle")
    eventually(lambda: api.rows("/tool/netwatch")[0]["status"], lambda seen: seen == "down")
    assert {row["disabled"] for row in api.rows("/ip/firewall/nat")} == {True}
    # The same script with netwatch's own rights does run.
    script = api.row("/system/script", name="toggle")
    api.set("/system/script", script[".id"], policy="read,write,test")
    watch = api.rows("/tool/netwatch")[0]
    api.set("/tool/netwatch", watch[".id"], timeout="400ms")
    eventually(lambda: {row["disabled"] for row in api.rows("/ip/firewall/nat")}, lambda seen: seen == {False})


# --- names -----


def test_static_names_count_at_once_and_unknown_local_names_do_not_exist(router: RouterLab, api: Api) -> None:
    api.set("/ip/dns", allow_remote_requests="yes")
    api.settled()
    assert router.ask("x1y2.lan", "A", server="10.1.1.1") == ["NXDOMAIN"]
    assert router.ask("20.1.1.10.in-addr.arpa", "PTR", server="10.1.1.1") == ["nas.lan."]
    row = api.add("/ip/dns/static", name="x1y2.lan", address="10.1.1.99")
    api.rows("/ip/dns/static")
    assert router.ask("x1y2.lan", "A", server="10.1.2.1") == ["10.1.1.99"]
    api.do("/ip/dns/static/remove", **{".id": row})
    api.rows("/ip/dns/static")
    assert router.ask("x1y2.lan", "A", server="10.1.1.1") == ["NXDOMAIN"]


def test_ping_tells_who_answers(api: Api) -> None:
    replies = api.do("/ping", address="10.1.2.11", count="2", interval="200ms")
    assert [row["packet-loss"] for row in replies] == [0, 0]
    silent = api.do("/ping", address="10.1.2.99", count="1", interval="200ms")
    assert silent[0]["packet-loss"] == 100
