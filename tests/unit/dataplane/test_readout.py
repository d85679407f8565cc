"""FRR's JSON to what the router shows."""

from __future__ import annotations

import json
from typing import Any

from anycastlab.virtual_router.dataplane import frr, frr_look, readout
from anycastlab.virtual_router.dataplane.peers import Bgp
from anycastlab.virtual_router.dataplane.routing import Look
from anycastlab.virtual_router.version import Version

from .rows_of_a_home import INTERFACES, home


def bgp(**connection: str) -> Bgp:
    found = frr.render(home(**connection), Version(7, 22, 3), INTERFACES, "router").bgp
    assert found is not None
    return found


def neighbor(state: str = "Established", ever: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "remoteAs": 65053,
        "bgpState": state,
        "connectionsEstablished": ever,
        "bgpTimerUpMsec": 65_000,
        "bgpTimerHoldTimeMsecs": 9000,
        "bgpTimerKeepAliveIntervalMsecs": 3000,
        "remoteRouterId": "10.1.2.11",
        "localRouterId": "10.1.2.1",
        "hostLocal": "10.1.2.1",
        "addressFamilyInfo": {"ipv4Unicast": {"acceptedPrefixCounter": 1}},
        **more,
    }


def bfd_peer(address: str, status: str = "up", **more: Any) -> dict[str, Any]:
    return {
        "peer": address,
        "local": "10.1.2.1",
        "multihop": False,
        "status": status,
        "uptime": 9,
        "receive-interval": 250,
        "transmit-interval": 150,
        "detect-multiplier": 4,
        "remote-receive-interval": 100,
        "remote-transmit-interval": 100,
        "remote-detect-multiplier": 3,
        **more,
    }


def route(protocol: str, *gateways: str, selected: bool = True) -> list[dict[str, Any]]:
    hops = [
        {"ip": gateway, "interfaceName": "dns", "fib": selected, "active": True}
        if gateway[0].isdigit()
        else {"interfaceName": gateway, "directlyConnected": True, "fib": selected, "active": True}
        for gateway in gateways
    ]
    return [
        {"protocol": protocol, "selected": selected, "installed": selected, "distance": 20, "nexthops": hops},
    ]


def path(gateway: str, *, valid: bool = True) -> dict[str, Any]:
    return {
        "valid": valid,
        "pathFrom": "external",
        "path": "65053",
        "origin": "IGP",
        "metric": 0,
        "nexthops": [{"ip": gateway, "used": True}],
    }


def looked(*documents: Any) -> Look:
    return frr_look.look("\n".join(json.dumps(each, indent=1) for each in documents))


def test_documents_are_told_apart_whatever_stands_between_them() -> None:
    text = 'bgpd is not running\n{"a": 1}\n[2]\n% Unknown {command\n{}\n{"b": '
    assert list(frr_look.documents(text)) == [{"a": 1}, [2], {}]


def test_nothing_runs_nothing_is_shown() -> None:
    seen = frr_look.look("Exiting: failed to connect to any daemons.\n")
    assert readout.bgp_sessions(seen, bgp()) == []
    assert readout.routes(seen, bgp(), INTERFACES) == []
    # BFD that is wanted is down, not absent.
    assert [row["state"] for row in readout.bfd_sessions(seen, bgp())] == ["down", "down"]


def test_a_session() -> None:
    seen = looked({"10.1.2.11": neighbor(), "10.1.2.12": neighbor("Active", ever=0)})
    (row,) = readout.bgp_sessions(seen, bgp())
    wanted = {
        "name": "node01-1",
        "remote.address": "10.1.2.11",
        "remote.as": "65053",
        "local.as": "65000",
        "local.role": "ebgp",
        "hold-time": "9s",
        "keepalive-time": "3s",
        "uptime": "1m5s",
        "use-bfd": "true",
        "prefix-count": "1",
        "established": "true",
        "input.filter": "anycast-in",
    }
    assert wanted.items() <= row.items()


def test_a_session_that_was_up_once_stays_without_the_flag() -> None:
    seen = looked({"10.1.2.11": neighbor("Active", lastResetDueTo="BFD down received")})
    (row,) = readout.bgp_sessions(seen, bgp())
    assert "established" not in row
    assert "uptime" not in row
    assert row[".about"] == "BFD down received"


def test_ids_of_sessions_survive_a_new_look() -> None:
    one = readout.bgp_sessions(looked({"10.1.2.12": neighbor()}), bgp())
    two = readout.bgp_sessions(looked({"10.1.2.11": neighbor(), "10.1.2.12": neighbor()}), bgp())
    assert one[0][".id"] == two[1][".id"] != two[0][".id"]


def test_bfd_shows_what_was_negotiated() -> None:
    seen = looked(
        [bfd_peer("10.1.2.11"), bfd_peer("10.1.2.12", "down")],
        [{"peer": "10.1.2.11", "control-packet-input": 7, "session-up": 1, "session-down": 2}],
    )
    up, down = readout.bfd_sessions(seen, bgp())
    # RFC 5880, 6.8.2 and 6.8.4
    wanted = {
        "state": "up",
        "up": "true",
        "actual-tx-interval": "150ms",
        "required-min-rx": "250ms",
        "hold-time": "750ms",
        "multiplier": "4",
        "packets-rx": "7",
        "state-changes": "3",
    }
    assert wanted.items() <= up.items()
    assert down["state"] == "down"
    assert "up" not in down
    assert "hold-time" not in down


def test_a_peer_without_use_bfd_has_no_bfd_row() -> None:
    assert readout.bfd_sessions(looked([bfd_peer("10.1.2.11")]), bgp(**{"use-bfd": "false"})) == []


def test_ecmp_is_one_row_per_next_hop() -> None:
    seen = looked(
        {"10.1.9.53/32": route("bgp", "10.1.2.11", "10.1.2.12"), "10.1.2.0/24": route("connected", "dns")},
        {"routes": {"10.1.9.53/32": [path("10.1.2.11"), path("10.1.2.12")]}, "tableVersion": 3},
    )
    rows = readout.routes(seen, bgp(), INTERFACES)
    ecmp = [row for row in rows if row["dst-address"] == "10.1.9.53/32"]
    assert [(row["gateway"], row["active"], row["ecmp"], row["bgp.session"]) for row in ecmp] == [
        ("10.1.2.11", "true", "true", "node01-1"),
        ("10.1.2.12", "true", "true", "node02-1"),
    ]
    (connected,) = [row for row in rows if "connect" in row]
    assert connected["gateway"] == "ether3-dns"
    assert "ecmp" not in connected


def test_ipv6_next_hops_are_the_addresses_neighbours_announced_not_the_kernels() -> None:
    service, nodes = "fd00:10:1:9::53/128", {"fe80::11": "fd00:10:1:2::11", "fe80::12": "fd00:10:1:2::12"}
    hops = [{"ip": link, "interfaceName": "dns", "fib": True, "active": True} for link in nodes]
    paths = [
        {**path(own), "nexthops": [{"ip": own, "scope": "global"}, {"ip": link, "scope": "link-local", "used": True}]}
        for link, own in nodes.items()
    ]
    entry = {"protocol": "bgp", "selected": True, "installed": True, "distance": 20, "nexthops": hops}
    seen = looked({service: [entry]}, {"routes": {service: paths}, "tableVersion": 3})
    rows = readout.routes(seen, bgp(), INTERFACES)
    assert [(row["afi"], row["gateway"], row["active"], row["ecmp"]) for row in rows] == [
        ("ip6", own, "true", "true") for own in nodes.values()
    ]
    assert [row["immediate-gw"].split("%")[0] for row in rows] == list(nodes)
    assert [row["belongs-to"] for row in rows] == [f"bgp-IP6-{own}" for own in nodes.values()]


def test_the_standby_path_is_shown_without_active() -> None:
    seen = looked(
        {"10.1.9.53/32": route("bgp", "10.1.2.11")},
        {
            "routes": {"10.1.9.53/32": [path("10.1.2.11"), path("10.1.2.12"), path("10.1.2.13", valid=False)]},
            "tableVersion": 3,
        },
    )
    rows = readout.routes(seen, bgp(), INTERFACES)
    assert [(row["gateway"], row.get("active"), row.get("ecmp")) for row in rows] == [
        ("10.1.2.11", "true", None),
        ("10.1.2.12", None, None),
    ]


def test_ip_route_leaves_out_what_a_configured_row_stands_for() -> None:
    seen = looked({"0.0.0.0/0": route("static", "203.0.113.53"), "10.1.9.53/32": route("bgp", "10.1.2.11")})
    rows = readout.ip_routes(readout.routes(seen, bgp(), INTERFACES))
    assert [(row["dst-address"], row["dynamic"]) for row in rows] == [("10.1.9.53/32", "true")]
