"""What BIRD said in a lab, read."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from anycastlab.virtual_router.dataplane.bird_look import Texts, look, protocol_of
from anycastlab.virtual_router.dataplane.routing import BfdPeer, BgpPath, Hop, Look, Neighbor, Route
from tests.unit.dataplane.recorded import texts

NOW = datetime.fromisoformat("2026-11-30 04:15:00")
SERVICE, SERVICE6 = "10.1.9.53/32", "fd09::53/128"


@pytest.fixture(scope="module")
def up() -> Look:
    return look(texts("up"), NOW)


@pytest.fixture(scope="module")
def killed() -> Look:
    return look(texts("killed"), NOW, ever={"10.1.2.12"})


def neighbor(seen: Look, address: str) -> Neighbor:
    return next(one for one in seen.neighbors if one.address == address)


def session(seen: Look, address: str) -> BfdPeer:
    return next(one for one in seen.bfd if one.address == address)


def via(*addresses: str, live: bool = True) -> tuple[Hop, ...]:
    return tuple(Hop(address, "dns", live) for address in addresses)


def test_an_established_neighbour_with_its_negotiated_timers(up: Look) -> None:
    assert neighbor(up, "10.1.2.11") == Neighbor(
        address="10.1.2.11",
        established=True,
        was_established=True,
        remote_as=65053,
        remote_id="10.1.2.11",
        local_address="10.1.2.1",
        families=(4,),
        hold_s=9.0,
        keepalive_s=3.0,
        prefixes=1,
        uptime_s=61,  # since 04:13:58.977
    )


def test_a_range_that_waits_is_no_neighbour(up: Look) -> None:
    addresses = [one.address for one in up.neighbors]
    assert addresses == ["10.1.2.11", "10.1.2.12", "10.1.2.13", "10.1.2.99", "fd01::11", "fd01::12", "fd01::13"]


def test_one_that_never_answered_never_was(up: Look) -> None:
    never = neighbor(up, "10.1.2.99")
    assert (never.established, never.was_established, never.uptime_s) == (False, False, 0)
    assert never.last_error == "Socket: No route to host"
    assert never.hold_s is None


def test_one_that_lost_its_power_once_was(killed: Look) -> None:
    gone = neighbor(killed, "10.1.2.12")
    assert (gone.established, gone.was_established, gone.prefixes) == (False, True, 0)
    assert gone.last_error == "Socket: Connection closed"
    assert not neighbor(killed, "10.1.2.99").was_established


def test_an_ipv6_session(up: Look) -> None:
    six = neighbor(up, "fd01::11")
    assert (six.local_address, six.families, six.prefixes) == ("fd01::1", (6,), 1)


def test_a_bfd_session_that_is_up(up: Look) -> None:
    assert session(up, "10.1.2.12") == BfdPeer(
        address="10.1.2.12",
        state="up",
        local_address="10.1.2.1",
        tx_ms=100,
        rx_ms=100,
        multiplier=3,
        remote_tx_ms=100,
        remote_rx_ms=100,
        remote_multiplier=3,
        uptime_s=61,
    )


def test_bfd_sessions_that_are_not_up(up: Look, killed: Look) -> None:
    assert session(killed, "10.1.2.12").state == "down"
    assert session(killed, "10.1.2.12").uptime_s == 0
    assert session(killed, "10.1.2.11").state == "up"
    assert session(up, "fd01::13").multihop
    assert session(up, "fd01::13").remote_tx_ms == 0
    off = look(replace(texts("up"), bfd=texts("up").bfd.replace("state:        Up", "state:        AdminDown")), NOW)
    assert session(off, "10.1.2.12").state == "admin-down"


def test_all_paths_are_there_also_unused_ones(up: Look) -> None:
    assert up.paths[SERVICE] == tuple(
        BgpPath((hop,), True, True, "65053", "incomplete", 0, 100) for hop in ("10.1.2.11", "10.1.2.12", "10.1.2.13")
    )
    assert set(up.paths) == {SERVICE, SERVICE6}


def test_ipv6_paths_have_the_announced_next_hop_first(up: Look) -> None:
    first, _, internal = up.paths[SERVICE6]
    assert first.next_hops == ("fd01::11", "fe80::1266:6aff:fe85:1a40")
    assert (first.external, internal.external, internal.as_path) == (True, False, "")


def test_a_path_without_a_usable_next_hop_is_not_valid() -> None:
    text = (
        texts("up").routes.replace("unicast [node02 ", "unreachable [node02 ").replace("\tvia 10.1.2.12 on dns\n", "")
    )
    assert [path.valid for path in look(Texts(routes=text), NOW).paths[SERVICE]] == [True, False, True]


def test_the_kernel_tells_which_next_hops_share(up: Look) -> None:
    assert up.routes[SERVICE] == (Route("bgp", via("10.1.2.11", "10.1.2.12", "10.1.2.13"), 20),)
    # The path of the own AS is worse and not among them.
    assert up.routes[SERVICE6] == (Route("bgp", via("fd01::11", "fd01::12"), 20),)


def test_without_ecmp_one_next_hop_is_used_and_the_other_path_stays(killed: Look) -> None:
    assert killed.routes[SERVICE] == (Route("bgp", via("10.1.2.11"), 20),)
    assert [path.next_hops for path in killed.paths[SERVICE]] == [("10.1.2.11",), ("10.1.2.13",)]


def test_static_routes_used_and_unused(up: Look) -> None:
    shared = (Hop("10.1.1.101", "lan"), Hop("10.1.2.11", "dns"))
    assert up.routes["10.78.0.0/16"] == (
        Route("static", shared, 1),
        Route("static", via("10.1.2.12", live=False), 200, active=False),
    )
    assert up.routes["10.77.0.0/16"] == (Route("static", (Hop(blackhole=True),), 1),)
    assert up.routes["10.79.0.0/16"] == (Route("static", (Hop("", "dns"),), 1),)
    # Its gateway is in no connected network.
    assert "10.80.0.0/16" not in up.routes


def test_connected_and_others_routes_come_from_the_kernel(up: Look) -> None:
    assert up.routes["10.1.2.0/24"] == (Route("connected", (Hop("", "dns"),), 0),)
    assert up.routes["0.0.0.0/0"] == (Route("kernel", (Hop("203.0.113.53", "wan"),), 0),)
    assert [route.hops[0].device for route in up.routes["fe80::/64"]] == ["dns", "lan", "wan"]


def test_a_better_metric_of_others_makes_ours_inactive() -> None:
    """DHCP's default route has metric 0 here, ours 32."""
    bird = "0.0.0.0/0            unicast [static4_1 2026-11-30 04:13:58.191] * (254)\n\tvia 10.1.2.11 on dns\n"
    kernel = (
        '[{"dst":"default","gateway":"203.0.113.53","dev":"wan","protocol":"dhcp","flags":[]},'
        '{"dst":"default","gateway":"10.1.2.11","dev":"dns","protocol":"bird","metric":32,"flags":[]}]'
    )
    seen = look(Texts(routes=bird + "\tType: static univ\n", kernel4=kernel), NOW)
    assert seen.routes["0.0.0.0/0"] == (
        Route("kernel", (Hop("203.0.113.53", "wan"),), 0),
        Route("static", via("10.1.2.11", live=False), 1, active=False),
    )


def test_a_default_route_that_is_only_announced_is_none_of_the_routers() -> None:
    text = "0.0.0.0/0            blackhole [originate4 2026-11-30 04:13:58.191] * (0)\n\tType: static univ\n"
    assert look(Texts(routes=text), NOW).routes == {}


def test_a_next_hop_behind_a_dead_link_is_not_live() -> None:
    kernel = texts("up").kernel4.replace(
        '"gateway":"10.1.2.12","dev":"dns","weight":1,"flags":[]',
        '"gateway":"10.1.2.12","dev":"dns","weight":1,"flags":["dead","linkdown"]',
    )
    seen = look(replace(texts("up"), kernel4=kernel), NOW)
    assert [hop.live for hop in seen.routes[SERVICE][0].hops] == [True, False, True]


def test_without_bird_there_are_the_kernels_routes_and_nothing_else() -> None:
    said = texts("up")
    seen = look(Texts(kernel4=said.kernel4, kernel6=said.kernel6), NOW)
    assert (seen.neighbors, seen.bfd, seen.paths) == ((), (), {})
    assert seen.routes["10.1.2.0/24"][0].protocol == "connected"
    # What a dead BIRD left behind still forwards.
    assert seen.routes[SERVICE][0].active
    assert look(Texts(), NOW) == Look()


def test_a_clock_that_was_set_back_does_not_make_uptimes_negative() -> None:
    assert neighbor(look(texts("up"), datetime.fromisoformat("2026-11-29")), "10.1.2.11").uptime_s == 0


def test_the_protocol_of_a_neighbour() -> None:
    assert protocol_of(texts("up").protocols, "10.1.2.12") == "node02"
    assert protocol_of(texts("up").protocols, "fd01::13") == "node03ibgp"
    assert protocol_of(texts("up").protocols, "10.1.2.14") is None
