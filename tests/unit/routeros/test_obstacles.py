"""Rows of a person that undo ours are found, named by id with what they mean, and their harmless twins are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.look_around import look_around
from anycastlab.routeros.obstacles import Obstacle
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import AROUND, DEFAULT_ROUTES, Reading, fresh, reading_commands
from anycastlab.routeros.render import render_text
from tests.unit.routeros.support import make_site

FILTER, NAT = "/ip/firewall/filter", "/ip/firewall/nat"
RAW, MANGLE = "/ip/firewall/raw", "/ip/firewall/mangle"
ADDRESSES = [
    {"address": "203.0.113.2/24", "interface": "ether1-wan"},
    {"address": "10.1.1.1/24", "interface": "ether2", "actual-interface": "bridge"},
    {"address": "10.1.2.1/24", "interface": "ether3-dns"},
]
LISTS = {
    "/interface/list": [{"name": "WAN"}, {"name": "LAN"}],
    "/interface/list/member": [
        {"list": "WAN", "interface": "ether1-wan"},
        {"list": "LAN", "interface": "bridge"},
        {"list": "LAN", "interface": "ether3-dns"},
    ],
}
WAN_ROUTE = {".id": "*80000001", "dst-address": "0.0.0.0/0", "gateway": "203.0.113.1", "active": "true"}


def reading(rows: dict[str, list[dict[str, str]]]) -> Reading:
    base = fresh("7.22.3", "192.0.2.1")
    menus, around = dict(base.menus), {**LISTS, DEFAULT_ROUTES: [WAN_ROUTE]}
    for menu, each in rows.items():
        numbered = [{".id": f"*{number:X}", **row} for number, row in enumerate(each, 0x21)]
        (menus if menu in menus else around)[menu] = numbered
    return Reading(base.version, menus, ADDRESSES, "192.0.2.1", around)


def found(rows: dict[str, list[dict[str, str]]], **site: Any) -> list[Obstacle]:
    return list(look_around(make_site(**site), reading(rows)))


def dns(**more: str) -> dict[str, str]:
    return {"protocol": "udp", "dst-port": "53", **{name.replace("_", "-"): value for name, value in more.items()}}


FORCED = dns(chain="dstnat", action="redirect", comment="force DNS")
MARK = {"chain": "prerouting", "action": "mark-routing", "new-routing-mark": "vpn", "src-address": "10.1.1.0/24"}
VPN = {"dst-address": "0.0.0.0/0", "gateway": "wg0", "routing-table": "vpn", "active": "true"}

BREAKING: dict[str, tuple[dict[str, list[dict[str, str]]], str]] = {
    "redirect": ({NAT: [FORCED]}, "*21 chain=dstnat action=redirect comment='force DNS': sends the questions of"),
    "dst-nat to a Pi-hole": (
        {NAT: [{**FORCED, "action": "dst-nat", "to-addresses": "10.1.1.9", "in-interface-list": "LAN"}]},
        "to 10.1.9.53 to 10.1.1.9: no node answers these clients",
    ),
    "dst-nat to a node": (
        {NAT: [{**FORCED, "action": "dst-nat", "to-addresses": "10.1.2.12", "in-interface": "bridge"}]},
        "to node02 (10.1.2.12)",
    ),
    "in a chain of its own": (
        {NAT: [{"chain": "dstnat", "action": "jump", "jump-target": "dns"}, {**FORCED, "chain": "dns"}]},
        "*22 chain=dns action=redirect",
    ),
    "the nodes' own questions": (
        {NAT: [{**FORCED, "action": "dst-nat", "to-addresses": "10.1.9.53", "in-interface": "ether3-dns"}]},
        "sends what node01 asks the router to the service address (10.1.9.53): local names fail there",
    ),
    "every address but the router's": (
        {NAT: [{**FORCED, "dst-address": "!10.1.1.1"}]},
        "sends the questions of 10.1.1.0/24",
    ),
    "forward drop": (
        {FILTER: [{"chain": "forward", "action": "drop", "in-interface": "bridge", "out-interface": "ether3-dns"}]},
        "chain=forward action=drop: drops the questions of 10.1.1.0/24 to 10.1.9.53: no node answers these",
    ),
    "forward denies all but the internet": (
        {
            FILTER: [
                {"chain": "forward", "action": "accept", "connection-state": "established,related"},
                {"chain": "forward", "action": "accept", "out-interface-list": "WAN"},
                {"chain": "forward", "action": "reject", "comment": "the rest"},
            ]
        },
        "*23 chain=forward action=reject comment='the rest': rejects the questions",
    ),
    "nodes may not into the internet": (
        {FILTER: [{"chain": "forward", "action": "drop", "src-address": "10.1.2.0/24", "connection-state": "new"}]},
        "drops what node01 asks its upstream 203.0.113.53: internet names fail there",
    ),
    "answers are dropped": (
        {FILTER: [{"chain": "forward", "action": "drop", "protocol": "udp", "src-port": "53"}]},
        "drops the answers to the questions",
    ),
    "raw drop": ({RAW: [dns(chain="prerouting", action="drop", in_interface="bridge")]}, f"{RAW} *21"),
    "raw drop of BFD": (
        {RAW: [{"chain": "prerouting", "action": "drop", "protocol": "udp", "dst-port": "3784"}]},
        "drops BFD with node01: node01 is not used, or not watched",
    ),
    "raw drop of BGP on its way out": (
        {RAW: [{"chain": "output", "action": "drop", "protocol": "tcp", "dst-port": "179"}]},
        "drops BGP with node01",
    ),
    "notrack": ({RAW: [dns(chain="prerouting", action="notrack")]}, "out of connection tracking: NAT never sees them"),
    "netwatch cannot ask": (
        {FILTER: [dns(chain="output", action="drop")]},
        "drops netwatch's question to the service address: the last resort is on all the time",
    ),
    "ip-forward": ({"/ip/settings": [{"ip-forward": "false"}]}, "ip-forward=no: the router forwards nothing"),
    "tracking off": ({"/ip/firewall/connection/tracking": [{"enabled": "no"}]}, "there is no NAT, so the last resort"),
    "routing mark": (
        {MANGLE: [MARK], DEFAULT_ROUTES: [WAN_ROUTE, VPN]},
        "by the routing table vpn, where the nodes' route is not: no node answers these clients",
    ),
    "routing rule": (
        {"/routing/rule": [{"src-address": "10.1.1.0/24", "action": "lookup-only-in-table", "table": "vpn"}]},
        "table=vpn: the questions of 10.1.1.0/24 to 10.1.9.53 take the routing table vpn",
    ),
    "routing rule by interface": (
        {"/routing/rule": [{"interface": "bridge", "table": "vpn"}], DEFAULT_ROUTES: [WAN_ROUTE, VPN]},
        "/routing/rule *21",
    ),
    "routing rule that drops": (
        {"/routing/rule": [{"dst-address": "10.0.0.0/8", "action": "unreachable"}]},
        "dst-address=10.0.0.0/8: the questions of 10.1.1.0/24 to 10.1.9.53 are dropped",
    ),
    "vrf": (
        {"/ip/vrf": [{"name": "main", "interfaces": "all"}, {"name": "guests", "interfaces": "ether3-dns,ether9"}]},
        "/ip/vrf *22 name=guests interfaces=ether3-dns,ether9: ether3-dns, towards node03, is in this VRF",
    ),
    "hotspot": (
        {"/ip/hotspot": [{"name": "hotspot1", "interface": "bridge"}]},
        "/ip/hotspot *21 name=hotspot1 interface=bridge: a hotspot answers the DNS questions of clients in 10.1.1.0/24",
    ),
    "dns servers": ({"/ip/dns": [{"servers": "10.1.9.53"}]}, "servers=10.1.9.53: 10.1.9.53 is the service"),
    "dns servers are nodes": (
        {"/ip/dns": [{"servers": "10.1.2.11,10.1.2.12"}]},
        "10.1.2.11 is node01 and 10.1.2.12 is node02: with no node left the router would ask itself",
    ),
    "dns servers by DHCP": ({"/ip/dns": [{"servers": "", "dynamic-servers": "10.1.2.11"}]}, "servers=10.1.2.11"),
    "DoH": (
        {"/ip/dns": [{"servers": "192.0.2.1", "use-doh-server": "https://10.1.2.11/dns-query"}]},
        "use-doh-server=https://10.1.2.11/dns-query: it leads to node01",
    ),
    "DoH by a static name": (
        {
            "/ip/dns": [{"use-doh-server": "https://dns.lan/dns-query"}],
            "/ip/dns/static": [{"name": "dns.lan", "address": "10.1.9.53", "type": "A"}],
        },
        "it leads to the service address",
    ),
    "regexp": (
        {"/ip/dns/static": [{"regexp": r".*\.lan$", "address": "10.1.1.9", "type": "A"}]},
        "its regexp covers probe.anycast.lan, the names by which the probes see",
    ),
    "FWD of the local zone to the nodes": (
        {"/ip/dns/static": [{"name": "lan", "type": "FWD", "forward-to": "10.1.9.53", "match-subdomain": "true"}]},
        "10.1.9.53 is the service address, and nodes ask the router for lan: questions for it go round in a circle",
    ),
    "FWD by a forwarder's name": (
        {
            "/ip/dns/static": [{"regexp": r"\.lan$", "type": "FWD", "forward-to": "adguard"}],
            "/ip/dns/forwarders": [{"name": "adguard", "dns-servers": "10.1.2.13"}],
        },
        "10.1.2.13 is node03",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "told"), BREAKING.values(), ids=BREAKING)
def test_what_breaks_is_named_with_its_id_and_what_helps(rows: dict[str, list[dict[str, str]]], told: str) -> None:
    obstacles = [obstacle for obstacle in found(rows) if obstacle.weight == "breaks"]
    assert any(told in str(obstacle) for obstacle in obstacles), [str(obstacle) for obstacle in found(rows)]
    assert all(obstacle.hint for obstacle in obstacles)
    text = render_text(plan_site(make_site(), reading(rows)).plan)
    assert told in text


# Settings have no rows that could be disabled.
SWITCHABLE = {
    name: rows
    for name, (rows, _) in BREAKING.items()
    if not {"/ip/settings", "/ip/dns", "/ip/firewall/connection/tracking"} & set(rows)
}


@pytest.mark.parametrize("rows", SWITCHABLE.values(), ids=SWITCHABLE)
def test_what_is_disabled_is_not_in_the_way(rows: dict[str, list[dict[str, str]]]) -> None:
    off = {menu: [{**row, "disabled": "true"} for row in each] for menu, each in rows.items() if menu != DEFAULT_ROUTES}
    assert found(off) == []


MAYBE: dict[str, tuple[dict[str, list[dict[str, str]]], str]] = {
    "an address list may except us": (
        {NAT: [{**FORCED, "dst-address-list": "!dns-servers"}]},
        "depending on its other matchers and the rules before it, sends the questions",
    ),
    "a drop behind an accept that an address list decides": (
        {
            FILTER: [
                {"chain": "forward", "action": "accept", "connection-state": "established,related"},
                {"chain": "forward", "action": "accept", "src-address-list": "trusted"},
                {"chain": "forward", "action": "drop", "comment": "the rest"},
            ]
        },
        "depending on its other matchers and the rules before it, drops the questions",
    ),
    "force-DNS behind an accept that an address list decides": (
        {NAT: [dns(chain="dstnat", action="accept", src_address_list="free"), FORCED]},
        "and the rules before it, sends the questions",
    ),
    "force-DNS that excepts the service and not the nodes' upstreams": (
        {NAT: [{**FORCED, "dst-address": "!10.1.9.53", "in-interface-list": "LAN"}]},
        "sends what node01 asks its upstream 203.0.113.53 to the router itself: that one answers it instead",
    ),
    "a kind of interface": ({NAT: [{**FORCED, "in-interface": "all-vlan"}]}, "depending on its other matchers"),
    "one client": ({NAT: [{**FORCED, "src-address": "10.1.1.77"}]}, "depending on its other matchers"),
    "a mark of a table without a default route": ({MANGLE: [MARK]}, "though it has no default route now"),
    "one of several servers": ({"/ip/dns": [{"servers": "10.1.2.11,192.0.2.1"}]}, "asks there first, and answers late"),
    "FWD of another zone": (
        {"/ip/dns/static": [{"name": "corp.example", "type": "FWD", "forward-to": "10.1.9.53"}]},
        "with no node left, these names fail",
    ),
    "a parent of the probes' zone": (
        {"/ip/dns/static": [{"name": "lan", "match-subdomain": "true", "address": "10.1.1.9"}]},
        "its name covers probe.anycast.lan",
    ),
    "a pattern that cannot be read": (
        {"/ip/dns/static": [{"regexp": "(", "address": "10.1.1.9"}]},
        "its regexp covers",
    ),
    "the identity's name": (
        {"/ip/dns/static": [{"name": "id.anycast.lan", "type": "TXT", "text": "node01"}]},
        "by which nodes are told apart",
    ),
    "L3 hardware offload": (
        {"/interface/ethernet/switch": [{"name": "switch1", "l3-hw-offloading": "true"}]},
        "packets that the switch routes meet neither NAT nor connection tracking",
    ),
    "FastTrack in hardware": (
        {
            "/interface/ethernet/switch": [{"name": "switch1", "l3-hw-offloading": "yes"}],
            "/interface/ethernet/switch/port": [{"name": "ether2", "l3-hw-offloading": "no"}],
            FILTER: [{"chain": "forward", "action": "fasttrack-connection", "connection-state": "established"}],
        },
        "FastTrack hands connections to the switch",
    ),
}


@pytest.mark.parametrize(("rows", "told"), MAYBE.values(), ids=MAYBE)
def test_what_may_be_in_the_way_is_a_note(rows: dict[str, list[dict[str, str]]], told: str) -> None:
    obstacles = found(rows)
    assert {obstacle.weight for obstacle in obstacles} == {"may"}
    assert any(told in str(obstacle) for obstacle in obstacles), obstacles


DEFCONF = [
    {"chain": "input", "action": "accept", "connection-state": "established,related,untracked"},
    {"chain": "input", "action": "drop", "connection-state": "invalid"},
    {"chain": "input", "action": "accept", "protocol": "icmp"},
    {"chain": "input", "action": "drop", "in-interface-list": "!LAN"},
    {"chain": "forward", "action": "accept", "ipsec-policy": "in,ipsec"},
    {"chain": "forward", "action": "fasttrack-connection", "connection-state": "established,related"},
    {"chain": "forward", "action": "accept", "connection-state": "established,related,untracked"},
    {"chain": "forward", "action": "drop", "connection-state": "invalid"},
    {"chain": "forward", "action": "drop", "connection-state": "new", "connection-nat-state": "!dstnat",
     "in-interface-list": "WAN"},
]  # fmt: skip

HARMLESS: dict[str, dict[str, list[dict[str, str]]]] = {
    "MikroTik's default configuration": {
        FILTER: DEFCONF,
        NAT: [{"chain": "srcnat", "action": "masquerade", "out-interface-list": "WAN", "ipsec-policy": "out,none"}],
        RAW: [{"chain": "prerouting", "action": "drop", "in-interface-list": "WAN", "src-address": "10.0.0.0/8"}],
        "/ip/settings": [{"ip-forward": "true"}],
        "/ip/firewall/connection/tracking": [{"enabled": "auto"}],
        "/ip/vrf": [{"name": "main", "interfaces": "all", "builtin": "true"}],
        "/ip/dns": [{"servers": "192.0.2.1", "dynamic-servers": "192.0.2.2", "use-doh-server": ""}],
        "/ip/dns/static": [{"name": "router.lan", "address": "10.1.1.1", "type": "A"}],
        "/interface/bridge/settings": [{"use-ip-firewall": "no"}],
        "/interface/ethernet/switch": [{"name": "switch1", "l3-hw-offloading": "no"}],
    },
    "force-DNS that excepts the service": {NAT: [{**FORCED, "dst-address": "!10.1.9.53", "in-interface": "bridge"}]},
    "force-DNS behind an exception": {
        NAT: [dns(chain="dstnat", action="accept", dst_address="10.1.9.53"), {**FORCED, "in-interface": "bridge"}]
    },
    "force-DNS to the service": {
        NAT: [{**FORCED, "action": "dst-nat", "to-addresses": "10.1.9.53", "in-interface": "bridge"}]
    },
    "BGP and BFD without connection tracking": {
        RAW: [
            {"chain": "prerouting", "action": "notrack", "protocol": "tcp", "port": "179"},
            {"chain": "output", "action": "notrack", "protocol": "udp", "dst-port": "3784"},
        ]
    },
    "another subnet": {NAT: [{**FORCED, "src-address": "192.168.99.0/24"}]},
    "a port forward": {NAT: [{"chain": "dstnat", "action": "dst-nat", "in-interface-list": "WAN", "protocol": "tcp",
                              "dst-port": "443", "to-addresses": "10.1.1.5"}]},
    "a mark with an exception": {
        MANGLE: [{"chain": "prerouting", "action": "accept", "dst-address": "10.0.0.0/8"}, MARK],
        DEFAULT_ROUTES: [WAN_ROUTE, VPN],
    },
    "a rule for the main table first": {
        "/routing/rule": [
            {"dst-address": "10.0.0.0/8", "action": "lookup", "table": "main"},
            {"src-address": "10.1.1.0/24", "action": "lookup-only-in-table", "table": "vpn"},
        ]
    },
    "a hotspot for guests": {"/ip/hotspot": [{"name": "guests", "interface": "ether9"}]},
    "a VRF for others": {"/ip/vrf": [{"name": "iot", "interfaces": "ether7"}]},
    "a regexp for something else": {"/ip/dns/static": [{"regexp": r"(^|\.)ads\.example$", "address": "0.0.0.0"}]},
}  # fmt: skip


@pytest.mark.parametrize("rows", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_not_named(rows: dict[str, list[dict[str, str]]]) -> None:
    assert [str(obstacle) for obstacle in found(rows)] == []


@pytest.mark.parametrize(
    ("upstream", "rule"),
    [
        ("10.1.1.1", {"chain": "forward", "action": "drop", "src-address": "10.1.2.0/24", "dst-address": "10.1.1.1"}),
        ("10.1.1.9", {"chain": "forward", "action": "drop", "dst-address": "10.0.0.0/8", "out-interface-list": "WAN"}),
    ],
)
def test_an_upstream_that_is_the_router_or_in_the_lan_is_not_asked_by_way_of_the_provider(
    upstream: str, rule: dict[str, str]
) -> None:
    site = make_site()
    site = site.model_copy(update={"resolver": site.resolver.model_copy(update={"upstreams": (upstream,)})})
    assert look_around(site, reading({FILTER: [rule]})) == ()


def test_rules_that_cannot_be_judged_share_a_line_of_the_plan() -> None:
    """A firewall as MikroTik's guide has it: address lists all over, and a plan that can still be read."""
    rules = [{"chain": "prerouting", "action": "drop", "dst-address-list": f"bad_{number}"} for number in range(4)]
    notes = plan_site(make_site(), reading({RAW: rules})).plan.notes
    (note,) = [note for note in notes if "may be in the way" in note]
    assert note.startswith("4 rules of yours may be in the way of DNS")
    assert f"{RAW} *21, {RAW} *22, {RAW} *23, {RAW} *24." in note
    notes = plan_site(make_site(), reading({RAW: rules[:1]})).plan.notes
    assert any(note.startswith(f"{RAW} *21 chain=prerouting action=drop: depending on") for note in notes)


def test_our_own_rows_are_never_in_the_way() -> None:
    guard = {"chain": "input", "action": "drop", "comment": "anycastlab:wan-guard:udp", "in-interface": "ether1-wan"}
    redirect = {**FORCED, "dst-address": "10.1.9.53", "comment": "anycastlab:redirect:udp"}
    assert found({FILTER: [guard], NAT: [redirect]}) == []


# --- the provider's side ---

SECOND = {"dst-address": "0.0.0.0/0", "gateway": "lte1", "distance": "2"}


def exposed(rows: dict[str, list[dict[str, str]]], **site: Any) -> str:
    with pytest.raises(PlanError) as caught:
        plan_site(make_site(**site), reading(rows))
    return str(caught.value)


def test_a_second_provider_without_a_guard_is_refused() -> None:
    told = exposed({DEFAULT_ROUTES: [WAN_ROUTE, SECOND]})
    assert "Router 192.0.2.1: default routes" not in told
    assert "/ip/route *22 dst-address=0.0.0.0/0 gateway=lte1: the provider is (also) behind lte1" in told
    assert "it would answer the whole internet" in told
    assert "/ip/firewall/filter/add chain=input in-interface=lte1 protocol=udp dst-port=53 action=drop" in told


def test_pppoe_over_the_named_interface_is_refused() -> None:
    """The classic: packets come in by pppoe-out1, and a rule for ether1 never meets them."""
    told = exposed(
        {DEFAULT_ROUTES: [{"dst-address": "0.0.0.0/0", "immediate-gw": "pppoe-out1", "gateway": "pppoe-out1"}]}
    )
    assert "wan_interface is 'ether1-wan', which carries no default route" in told
    assert "Set wan_interface to 'pppoe-out1'" in told


def test_a_provider_whom_a_persons_own_rules_keep_out_is_a_note() -> None:
    rows = {DEFAULT_ROUTES: [SECOND], FILTER: DEFCONF}
    (obstacle,) = found(rows)
    assert (obstacle.weight, obstacle.hint) == ("may", "Set wan_interface to 'lte1'.")
    assert found({DEFAULT_ROUTES: [WAN_ROUTE, SECOND], FILTER: DEFCONF}) == []


def test_an_accept_before_the_drop_does_not_keep_anybody_out() -> None:
    rules = [dns(chain="input", action="accept"), *DEFCONF]
    assert "lte1" in exposed({DEFAULT_ROUTES: [WAN_ROUTE, SECOND], FILTER: rules})


def test_a_gateway_among_the_clients_is_no_second_provider() -> None:
    lte = {"dst-address": "0.0.0.0/0", "gateway": "10.1.1.77", "distance": "5"}
    assert found({DEFAULT_ROUTES: [WAN_ROUTE, lte]}) == []


def test_without_a_default_route_nothing_is_said() -> None:
    assert found({DEFAULT_ROUTES: []}) == []


# --- reading ---


@pytest.mark.parametrize("version", ["7.16.2", "7.19.6", "7.22.3", "7.24"])
def test_all_is_read_side_by_side_and_whatever_is_missing_says_nothing(version: str) -> None:
    commands = reading_commands(version)
    assert [command for command in commands if command in AROUND.values()] == list(AROUND.values())
    bare = replace(reading({}), around={}, addresses=())
    assert look_around(make_site(), bare) == ()


def test_bridged_packets_in_the_firewall_matter_where_clients_and_nodes_share_a_bridge() -> None:
    addresses = [{"address": "10.1.0.0/16", "interface": "bridge"}]
    shared = replace(reading({"/interface/bridge/settings": [{"use-ip-firewall": "true"}]}), addresses=addresses)
    (obstacle,) = look_around(make_site(), replace(shared, around={**shared.around, DEFAULT_ROUTES: []}))
    assert "clients and nodes share bridge" in str(obstacle)
    assert found({"/interface/bridge/settings": [{"use-ip-firewall": "true"}]}) == []
