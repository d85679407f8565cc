"""Routing tables, rules and marks as the kernel is told of them."""

from __future__ import annotations

import pytest

from anycastlab.virtual_router.dataplane import nft, policy_routing
from anycastlab.virtual_router.dataplane.api import Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interface, Interfaces

INTERFACES = Interfaces.of([Interface("ether1-wan", "wan", ()), Interface("ether2-lan", "lan", ())])
VPN = policy_routing.table_number("vpn")
TABLES: Snapshot = {"/routing/table": [{"name": "main"}, {".id": "*1", "name": "vpn", "fib": ""}]}


def lines(snapshot: Snapshot, before: frozenset[str] = frozenset()) -> list[str]:
    return policy_routing.commands({**TABLES, **snapshot}, INTERFACES, before)


def test_a_table_has_a_number_of_its_own_that_marks_mean_too() -> None:
    assert policy_routing.table_number("main") == 254
    assert policy_routing.table_number("vpn2") != VPN
    assert lines({}) == [
        "rule flush protocol 186",
        f"route flush table {VPN}",
        f"rule add fwmark {VPN} lookup {VPN} priority 1000 protocol 186",
    ]


def test_a_table_that_is_gone_is_emptied() -> None:
    assert policy_routing.commands({}, INTERFACES, frozenset({"vpn"})) == [
        "rule flush protocol 186",
        f"route flush table {VPN}",
    ]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"gateway": "203.0.113.1"}, "0.0.0.0/0 via 203.0.113.1"),
        ({"gateway": "203.0.113.1%ether1-wan"}, "0.0.0.0/0 via 203.0.113.1 dev wan"),
        ({"gateway": "ether1-wan", "dst-address": "10.9.0.0/16"}, "10.9.0.0/16 dev wan"),
        ({"blackhole": ""}, "blackhole 0.0.0.0/0"),
    ],
)
def test_routes_of_other_tables(row: dict[str, str], line: str) -> None:
    found = lines({"/ip/route": [{**row, "routing-table": "vpn"}, {"gateway": "203.0.113.1"}]})
    assert [each for each in found if "replace" in each] == [f"route replace {line} table {VPN} metric 1 protocol 186"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"src-address": "10.1.1.0/24", "table": "vpn"}, [f"from 10.1.1.0/24 lookup {VPN} priority 2000"]),
        ({"interface": "ether2-lan", "table": "main"}, ["from all iif lan lookup 254 priority 2000"]),
        (
            {"dst-address": "10.1.9.53/32", "action": "lookup-only-in-table", "table": "vpn"},
            [
                f"from all to 10.1.9.53/32 lookup {VPN} priority 2000",
                "from all to 10.1.9.53/32 unreachable priority 2001",
            ],
        ),
        ({"dst-address": "10.0.0.0/8", "action": "drop"}, ["from all to 10.0.0.0/8 blackhole priority 2000"]),
        ({"action": "unreachable"}, ["from all unreachable priority 2000"]),
        ({"min-prefix": "0"}, ["from all lookup 254 suppress_prefixlength 0 priority 2000"]),
        ({"interface": "gone", "table": "vpn"}, []),
        ({"table": "vpn", "disabled": "true"}, []),
    ],
)
def test_rules(row: dict[str, str], told: list[str]) -> None:
    found = [each for each in lines({"/routing/rule": [row]}) if each.startswith("rule add from")]
    assert found == [f"rule add {each} protocol 186" for each in told]


def test_a_routing_mark_is_the_tables_number() -> None:
    row = {".id": "*1", "chain": "prerouting", "action": "mark-routing", "new-routing-mark": "vpn"}
    text, notes = nft.render({"/ip/firewall/mangle": [row, {**row, ".id": "*2", "passthrough": "false"}]}, INTERFACES)
    assert f'counter meta mark set {VPN} comment "/ip/firewall/mangle *1"' in text
    assert f'counter meta mark set {VPN} accept comment "/ip/firewall/mangle *2"' in text
    assert notes == {}
    assert nft.refuse("/ip/firewall/mangle", {**row, "action": "mark-connection"}) == "action=mark-connection"


@pytest.mark.parametrize(("enabled", "untracked"), [("auto", 0), ("true", 0), ("no", 4), ("false", 4)])
def test_tracking_can_be_switched_off(enabled: str, untracked: int) -> None:
    text, _ = nft.render({nft.TRACKING: [{"enabled": enabled}]}, INTERFACES)
    assert text.count("    notrack\n") == untracked
