"""What the router's rows of firewall, netwatch and DNS do, seen from its neighbours, its kernel and a client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest
from librouteros.exceptions import TrapError

from anycastlab.routeros.rows_fallback import NETWATCH_TAG, holding, script
from tests.lab.router_lab import NODES, SERVICE, Api, RouterLab, add_redirect, eventually

DISABLE = '/ip/firewall/nat/disable [find where comment~"^anycastlab:redirect"]'
ENABLE = '/ip firewall nat enable [find comment~"^anycastlab:redirect"]'
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


# --- firewall -----


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
    ("form", "flushed", "port"),
    [("apart", True, 4053), ("joined", True, 4055), ("apart", False, 4054)],
    ids=["ports apart", "ports joined", "not flushed"],
)
def test_a_client_with_one_socket_is_moved_only_if_its_tracked_connection_is_flushed(
    built: RouterLab, form: str, flushed: bool, port: int
) -> None:
    """With the script the product writes, in both forms that RouterOS shows a tracked connection in."""
    built.fresh(connection_form=form)
    with built.api() as api:
        _moved_with_one_socket(built, api, form, flushed, port)


def _moved_with_one_socket(router: RouterLab, api: Api, form: str, flushed: bool, port: int) -> None:
    api.neighbours()
    api.served()
    add_redirect(api)
    switch_on = script("enable", IPv4Address(SERVICE))
    add_netwatch(api, DISABLE, switch_on if flushed else ENABLE)
    eventually(lambda: api.rows("/tool/netwatch")[0]["status"], lambda seen: seen == "up")
    # One socket: NAT was decided with its first packet.
    assert router.ask("nas.lan", "A", port=port)[0].startswith("10.1.2.1")
    source = (
        {"src-address": "10.1.1.101", "src-port": port} if form == "apart" else {"src-address": f"10.1.1.101:{port}"}
    )
    tracked = [row for row in api.rows("/ip/firewall/connection") if source.items() <= row.items()]
    assert [row["dst-address"] for row in tracked] == [SERVICE if form == "apart" else f"{SERVICE}:53"]
    for node in NODES:
        router.run(node, "systemctl", "stop", "answerer")
    eventually(lambda: {row["disabled"] for row in api.rows("/ip/firewall/nat")}, lambda seen: seen == {False})
    router_answers = ["10.1.1.20"]
    if flushed:
        assert eventually(lambda: router.ask("nas.lan", "A", port=port), lambda seen: seen == router_answers)
    else:
        assert router.ask("nas.lan", "A", port=port, count=3) == ["ConnectionRefusedError"] * 3
        # A new socket is not bound to the old decision.
        assert router.ask("nas.lan", "A") == router_answers


def test_the_redirect_is_held_whatever_a_safe_mode_takes_back(router: RouterLab, api: Api) -> None:
    """An administrator's safe mode ends after netwatch fired: off with all nodes dead, then on with healthy nodes."""
    api.neighbours()
    api.served()
    add_redirect(api)
    service = IPv4Address(SERVICE)
    add_netwatch(api, script("disable", service), script("enable", service))
    watch = api.rows("/tool/netwatch")[0]
    api.set("/tool/netwatch", watch[".id"], test_script=holding(service), comment=NETWATCH_TAG)
    status = lambda: api.rows("/tool/netwatch")[0]["status"]  # noqa: E731
    off = lambda: {row["disabled"] for row in api.rows("/ip/firewall/nat")}  # noqa: E731
    eventually(status, lambda seen: seen == "up")
    for verb, before, after in (("stop", True, False), ("start", False, True)):
        with router.api() as administrator:
            administrator.do("/safe-mode/take")
            for node in NODES:
                router.run(node, "systemctl", verb, "answerer")
            eventually(off, lambda seen, after=after: seen == {after})  # type: ignore[misc]
            administrator.do("/safe-mode/unroll")
        # Taken back, and right again by the next tests; nobody touched netwatch.
        eventually(off, lambda seen, after=after: seen == {after}, timeout_s=5)  # type: ignore[misc]
        messages = [row["message"] for row in api.rows("/log") if "script" in row["topics"]]
        word = "no node answers" if verb == "stop" else "the nodes answer again"
        assert sum(word in message for message in messages) == 2, (before, messages)


def test_questions_for_the_service_never_leave_by_the_default_route(router: RouterLab, api: Api) -> None:
    api.neighbours()
    api.served()
    api.add("/ip/route", dst_address="0.0.0.0/0", gateway="203.0.113.1")
    count = (
        "nft add table ip probe; nft 'add chain ip probe leaving { type filter hook postrouting priority 0; }';"
        f"nft add rule ip probe leaving oifname wan ip daddr {SERVICE} counter"
    )
    router.run("router", "sh", "-ec", count)

    def unseen() -> bool:
        return "counter packets 0 " in router.run("router", "nft", "list", "table", "ip", "probe")

    try:
        for node in NODES:
            router.node_bgp(node, f"no network {SERVICE}/32")
        eventually(api.next_hops, lambda hops: hops == {})
        router.ask("nas.lan", "A", timeout_s=0.3)
        assert not unseen()
        router.run("router", "sh", "-ec", f"nft delete table ip probe; {count}")
        # With the route the product writes they end here, dst-nat still comes first, and the nodes' routes still win.
        api.add("/ip/route", dst_address=f"{SERVICE}/32", blackhole="yes", distance="254")
        api.settled()
        assert router.ask("nas.lan", "A", timeout_s=0.3) == ["TimeoutError"]
        assert unseen()
        add_redirect(api)
        for row in api.rows("/ip/firewall/nat"):
            api.do("/ip/firewall/nat/enable", numbers=row[".id"])
        api.settled()
        assert router.ask("nas.lan", "A") == ["10.1.1.20"]
        for row in api.rows("/ip/firewall/nat"):
            api.do("/ip/firewall/nat/disable", numbers=row[".id"])
    finally:
        for node in NODES:
            router.node_bgp(node, f"network {SERVICE}/32")
        router.run("router", "nft", "delete", "table", "ip", "probe")
    eventually(api.next_hops, lambda hops: sum(hops.values()) == len(NODES))
    assert router.ask("nas.lan", "A")[0].startswith("10.1.2.1")


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


# --- a person's rows -----


def test_routing_marks_rules_and_settings_of_a_person_do_what_they_do(router: RouterLab, api: Api) -> None:
    api.neighbours()
    api.established()
    api.served()
    add_redirect(api)
    ask = "id.anycast.lan"
    assert router.ask(ask)[0] in NODES
    api.add("/routing/table", name="vpn", fib="")
    api.add("/ip/route", dst_address="0.0.0.0/0", gateway="203.0.113.1", routing_table="vpn")

    def lost(menu: str, **row: str) -> None:
        row_id = api.add(menu, **row)
        api.settled()
        assert router.ask(ask) == ["TimeoutError"], (menu, row)
        api.do(f"{menu}/remove", numbers=row_id)
        api.settled()
        assert router.ask(ask)[0] in NODES, (menu, row)

    mark = {"chain": "prerouting", "action": "mark-routing", "new_routing_mark": "vpn", "src_address": "10.1.1.0/24"}
    lost("/ip/firewall/mangle", **mark)
    lost("/routing/rule", src_address="10.1.1.0/24", action="lookup-only-in-table", table="vpn")
    lost("/routing/rule", interface="ether2-lan", table="vpn")
    lost("/routing/rule", dst_address=f"{SERVICE}/32", action="unreachable")
    lost("/ip/firewall/raw", chain="prerouting", action="drop", protocol="udp", dst_port="53")

    for row in api.rows("/ip/firewall/nat"):
        api.do("/ip/firewall/nat/enable", numbers=str(row[".id"]))
    api.settled()
    assert router.ask(ask) == ["NXDOMAIN"]  # the last resort
    untracked = api.add("/ip/firewall/raw", chain="prerouting", action="notrack", protocol="udp", dst_port="53")
    api.settled()
    assert router.ask(ask)[0] in NODES  # NAT never saw it
    api.do("/ip/firewall/raw/remove", numbers=untracked)
    api.set("/ip/firewall/connection/tracking", enabled="no")
    api.settled()
    assert router.ask(ask)[0] in NODES
    api.set("/ip/firewall/connection/tracking", enabled="auto")
    api.set("/ip/settings", ip_forward="no")
    for row in api.rows("/ip/firewall/nat"):
        api.do("/ip/firewall/nat/disable", numbers=str(row[".id"]))
    api.settled()
    assert router.ask(ask) == ["TimeoutError"]
