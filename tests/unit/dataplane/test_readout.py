"""What was seen of BGP, BFD and routes, as rows of the router."""

from __future__ import annotations

from dataclasses import replace

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router.dataplane import bird, readout
from anycastlab.virtual_router.dataplane.peers import Bgp
from anycastlab.virtual_router.dataplane.routing import BfdPeer, BgpPath, Hop, Look, Neighbor, Route

from .rows_of_a_home import INTERFACES, home

SERVICE = "10.1.9.53/32"


def bgp(**connection: str) -> Bgp:
    found = bird.render(home(**connection), Version(7, 22, 3), INTERFACES, "router").bgp
    assert found is not None
    return found


def neighbor(address: str) -> Neighbor:
    return Neighbor(
        address=address,
        established=True,
        was_established=True,
        remote_as=65053,
        remote_id="10.1.2.11",
        local_address="10.1.2.1",
        local_id="10.1.2.1",
        families=(4,),
        hold_s=9.0,
        keepalive_s=3.0,
        prefixes=1,
        uptime_s=65,
    )


def lost(address: str, error: str = "") -> Neighbor:
    return Neighbor(address=address, established=False, was_established=bool(error), last_error=error)


def bfd_peer(address: str, state: str = "up") -> BfdPeer:
    return BfdPeer(
        address=address,
        state=state,
        local_address="10.1.2.1",
        tx_ms=150,
        rx_ms=250,
        multiplier=4,
        remote_tx_ms=100,
        remote_rx_ms=100,
        remote_multiplier=3,
        uptime_s=9,
    )


def route(protocol: str, *hops: Hop) -> Route:
    return Route(protocol, hops, distance=20)


def via(*gateways: str) -> tuple[Hop, ...]:
    return tuple(Hop(gateway, "dns") for gateway in gateways)


def path(gateway: str, valid: bool = True) -> BgpPath:
    return BgpPath((gateway,), valid=valid, as_path="65053", origin="igp")


def test_nothing_runs_nothing_is_shown() -> None:
    assert readout.bgp_sessions(Look(), bgp()) == []
    assert readout.routes(Look(), bgp(), INTERFACES) == []
    # BFD that is wanted is down, not absent.
    assert [row["state"] for row in readout.bfd_sessions(Look(), bgp())] == ["down", "down"]


def test_a_session() -> None:
    seen = Look(neighbors=(neighbor("10.1.2.11"), lost("10.1.2.12")))
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
    seen = Look(neighbors=(lost("10.1.2.11", "BFD down received"),))
    (row,) = readout.bgp_sessions(seen, bgp())
    assert "established" not in row
    assert "uptime" not in row
    assert row[".about"] == "BFD down received"


def test_ids_of_sessions_survive_a_new_look() -> None:
    one = readout.bgp_sessions(Look(neighbors=(neighbor("10.1.2.12"),)), bgp())
    two = readout.bgp_sessions(Look(neighbors=(neighbor("10.1.2.11"), neighbor("10.1.2.12"))), bgp())
    assert one[0][".id"] == two[1][".id"] != two[0][".id"]


def test_bfd_shows_what_was_negotiated() -> None:
    counted = replace(bfd_peer("10.1.2.11"), packets_received=7, changes=3)
    seen = Look(bfd=(counted, bfd_peer("10.1.2.12", "down")))
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
    assert (down["state"], down["actual-tx-interval"]) == ("down", "1s")
    assert "up" not in down
    assert "hold-time" not in down


def test_a_peer_without_use_bfd_has_no_bfd_row() -> None:
    assert readout.bfd_sessions(Look(bfd=(bfd_peer("10.1.2.11"),)), bgp(**{"use-bfd": "false"})) == []


def test_ecmp_is_one_row_per_next_hop() -> None:
    seen = Look(
        paths={SERVICE: (path("10.1.2.11"), path("10.1.2.12"))},
        routes={
            SERVICE: (route("bgp", *via("10.1.2.11", "10.1.2.12")),),
            "10.1.2.0/24": (route("connected", Hop(device="dns")),),
        },
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
    seen = Look(
        paths={service: tuple(BgpPath((own, link)) for link, own in nodes.items())},
        routes={service: (route("bgp", *via(*nodes)),)},
    )
    rows = readout.routes(seen, bgp(), INTERFACES)
    assert [(row["afi"], row["gateway"], row["active"], row["ecmp"]) for row in rows] == [
        ("ip6", own, "true", "true") for own in nodes.values()
    ]
    assert [row["immediate-gw"].split("%")[0] for row in rows] == list(nodes)
    assert [row["belongs-to"] for row in rows] == [f"bgp-IP6-{own}" for own in nodes.values()]


def test_the_standby_path_is_shown_without_active() -> None:
    seen = Look(
        paths={SERVICE: (path("10.1.2.11"), path("10.1.2.12"), path("10.1.2.13", valid=False))},
        routes={SERVICE: (route("bgp", *via("10.1.2.11")),)},
    )
    rows = readout.routes(seen, bgp(), INTERFACES)
    assert [(row["gateway"], row.get("active"), row.get("ecmp")) for row in rows] == [
        ("10.1.2.11", "true", None),
        ("10.1.2.12", None, None),
    ]


def test_ip_route_leaves_out_what_a_configured_row_stands_for() -> None:
    seen = Look(
        routes={"0.0.0.0/0": (route("static", *via("203.0.113.53")),), SERVICE: (route("bgp", *via("10.1.2.11")),)}
    )
    rows = readout.ip_routes(readout.routes(seen, bgp(), INTERFACES))
    assert [(row["dst-address"], row["dynamic"]) for row in rows] == [("10.1.9.53/32", "true")]
