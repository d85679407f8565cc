"""Desired rows: golden plans per version, and what a site may ask for."""

from __future__ import annotations

from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.plan import Change
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import Reading, fresh
from anycastlab.routeros.render import render_json, render_text
from anycastlab.routeros.row import MENUS, Row
from anycastlab.routeros.rows import Device, check, desired_rows
from anycastlab.routeros.version import capabilities
from anycastlab.site.model import Site
from tests import golden
from tests.unit.routeros.support import make_site

GOLDEN = Path(__file__).parent / "golden"
TWIN = {"address6": "fd00:9::53"}


def rows(version: str = "7.22.3", addresses: tuple[str, ...] = (), **changes: object) -> dict[str, Row]:
    device = Device(capabilities(version), tuple(IPv4Interface(a) for a in addresses))
    return {row.tag or row.menu: row for row in desired_rows(make_site(**changes), device)}


@pytest.mark.parametrize("version", ["7.16.2", "7.19.6", "7.20.8 (long-term)", "7.22.3", "7.24"])
def test_the_plan_for_a_fresh_router_is_the_golden_one(version: str) -> None:
    text = render_text(plan_site(make_site(nodes=2), fresh(version, "192.0.2.1")).plan, "192.0.2.1") + "\n"
    golden.compare(GOLDEN / f"{version.split()[0]}.txt", text)


def test_a_drifted_router_is_the_golden_plan() -> None:
    reading = fresh("7.22.3", "192.0.2.1")
    site = make_site(nodes=2, layout="flat", bgp={"password": "geheim"})
    menus: dict[str, list[dict[str, str]]] = {menu: [] for menu in MENUS}
    menus |= {"/ip/dns": [{"allow-remote-requests": "true"}], "/ip/settings": [{"send-redirects": "true"}]}
    planned = plan_site(site, Reading("7.22.3", menus, (), "192.0.2.1"))
    for number, row in enumerate(planned.desired):
        if row.tag and "node02" not in row.tag:
            values = {k: v for k, v in row.creation().items() if v is not None}
            menus[row.menu].append({".id": f"*{number:X}", **values})
    menus["/routing/bgp/connection"][0] |= {"hold-time": "3m", "tcp-md5-key": "alt"}
    menus["/tool/netwatch"][0]["down-script"] = ":log info gone"
    menus["/ip/firewall/filter"].insert(0, {".id": "*AA", "chain": "input", "action": "drop", "comment": "alles zu"})
    menus["/ip/firewall/filter"].append(
        {".id": "*AB", "chain": "input", "action": "accept", "comment": "anycastlab:accept:bgp:node09"}
    )
    planned = plan_site(site, Reading("7.22.3", menus, (), "192.0.2.1"))
    assert reading.menus.keys() >= menus.keys() - {"/ipv6/firewall/filter"}
    text = render_text(planned.plan, "192.0.2.1") + "\n"
    golden.compare(GOLDEN / "drifted.txt", text)
    assert "geheim" not in text
    assert "alt" not in str(render_json(planned.plan)["changes"]).replace("default", "")


def test_redirects_are_switched_off_only_where_the_layout_needs_it() -> None:
    assert "send-redirects" not in rows()["/ip/settings"].properties
    assert rows(layout="flat")["/ip/settings"].properties["send-redirects"] == "no"
    assert "no ICMP redirects" in rows(layout="flat")["/ip/settings"].reason


def test_an_existing_instance_is_joined_and_not_made() -> None:
    found = rows(router={"bgp_instance": "main"})
    assert "anycastlab:instance" not in found
    assert found["anycastlab:connection:node01"].properties["instance"] == "main"


def test_the_dhcp_network_hands_out_one_server_and_the_routers_own_address() -> None:
    found = rows(addresses=("10.1.2.1/24", "10.1.1.254/24"), router={"dhcp_network": "10.1.1.0/24"})
    row = found["anycastlab:dhcp:10.1.1.0/24"]
    assert row.properties == {"address": "10.1.1.0/24", "gateway": "10.1.1.254", "dns-server": "10.1.9.53"}


def test_a_dhcp_network_where_the_router_has_no_address_is_refused() -> None:
    with pytest.raises(PlanError, match=r"dhcp_network 10\.7\.0\.0/24 is no subnet of router"):
        rows(router={"dhcp_network": "10.7.0.0/24"})


def test_the_ipv6_twin_has_its_own_connections_filters_and_firewall() -> None:
    found = rows(service={"address6": "fd00:9::53"})
    assert found["anycastlab:filter:in6"].properties["rule"] == "if (dst == fd00:9::53/128) { accept } else { reject }"
    connection = found["anycastlab:connection:node01:v6"]
    assert connection.properties["remote.address"] == "fd00:2::11"
    assert connection.properties["afi"] == "ipv6"
    assert connection.properties["input.filter"] == "anycastlab-in6"
    assert found["anycastlab:bfd:node01"].properties["addresses"] == "10.1.2.11,fd00:2::11"


def test_ipv6_is_spread_by_port_where_the_router_can_be_told() -> None:
    assert rows(service=TWIN)["/ipv6/settings"].properties == {"multipath-hash-policy": "l4"}
    assert "/ipv6/settings" not in rows()
    menus = dict(fresh("7.22.3").menus)
    can, cannot = ({"multipath-hash-policy": "l3", "forward": "true"}, {"forward": "true"})
    for row, told in ((can, False), (cannot, True)):
        plan = plan_site(make_site(service=TWIN), Reading("7.22.3", {**menus, "/ipv6/settings": [row]})).plan
        assert any(step.row.menu == "/ipv6/settings" for step in plan.of(Change)) is not told
        assert any("each IPv6 client always asks one node" in note for note in plan.notes) is told


def test_the_plan_says_that_the_last_resort_is_ipv4s_alone() -> None:
    notes = plan_site(make_site(service=TWIN), fresh("7.22.3")).plan.notes
    assert any("last resort is IPv4's alone" in note for note in notes)
    assert plan_site(make_site(), fresh("7.22.3")).plan.notes == ()


def test_in_the_flat_layout_icmpv6_redirects_are_dropped_on_their_way_out() -> None:
    assert "anycastlab:no-redirects" not in rows(service=TWIN)
    assert "anycastlab:no-redirects" not in rows(layout="flat")
    row = rows(service=TWIN, layout="flat")["anycastlab:no-redirects"]
    assert (row.properties["chain"], row.properties["icmp-options"]) == ("output", "137:0")


def test_a_setting_that_is_not_needed_any_more_is_given_back_unless_a_person_changed_it() -> None:
    menus = dict(fresh("7.22.3").menus)
    originals = {"/ipv6/settings": {"multipath-hash-policy": "l3"}, "/ip/settings": {"send-redirects": "true"}}

    def settings(site: Site, policy: str) -> dict[str, str | None]:
        actual = {"/ipv6/settings": [{"multipath-hash-policy": policy}], "/ip/settings": [{"send-redirects": "false"}]}
        plan = plan_site(site, Reading("7.22.3", {**menus, **actual}), originals).plan
        return {p.name: p.new for step in plan.of(Change) for p in step.properties}

    assert settings(make_site(), "l4")["multipath-hash-policy"] == "l3"
    assert "multipath-hash-policy" not in settings(make_site(), "l3-inner")
    assert "multipath-hash-policy" not in settings(make_site(service=TWIN), "l4")
    assert settings(make_site(), "l3")["send-redirects"] == "true"
    assert "send-redirects" not in settings(make_site(layout="flat"), "l3")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row("/no/such/menu", "anycastlab:x", {}), "/no/such/menu does not exist"),
        (Row("/routing/bgp/connection", "anycastlab:x", {"afi": "ip"}), "/routing/bgp/connection has no afi"),
        (
            Row("/routing/bgp/connection", "anycastlab:x", {"hold-time": "1s"}),
            "hold-time=1s lies outside 3s..18h12m15s",
        ),
        (Row("/routing/bgp/connection", "anycastlab:x", {"local.role": "friend"}), "local.role=friend is none of"),
        (Row("/routing/bgp/connection", "anycastlab:x", {"use-bfd": "maybe"}), "use-bfd=maybe is neither"),
        (
            Row("/routing/bgp/connection", "anycastlab:x", {"remote.as": "4294967296"}),
            "remote.as=4294967296 lies outside",
        ),
        (
            Row("/routing/bgp/connection", "anycastlab:x", {"tcp-md5-key": "k" * 81}),
            "tcp-md5-key=*** is longer than 80 bytes",
        ),
        (Row("/tool/netwatch", "anycastlab:x", {"interval": "500ms"}), "interval=500ms lies outside 1s.."),
    ],
)
def test_what_a_version_does_not_take_is_known_before_it_is_sent(row: Row, problem: str) -> None:
    found = list(check([row], capabilities("7.16.2").schema))
    assert len(found) == 1
    assert problem in found[0]


def test_a_key_too_long_for_the_router_stops_the_plan_without_showing_it() -> None:
    site = make_site()
    keyed = site.model_copy(update={"bgp": site.bgp.model_copy(update={"password": "geheim" * 20})})  # past its type
    with pytest.raises(PlanError, match=r"RouterOS 7\.22\.3 does not take .* tcp-md5-key=\*\*\*") as caught:
        plan_site(keyed, fresh("7.22.3"))
    assert "geheim" not in str(caught.value)


def test_names_like_no_and_10_are_names() -> None:
    found = rows(names=["no", "10"])
    assert found["anycastlab:connection:no"].properties["name"] == "anycastlab-no"
    assert found["anycastlab:connection:10"].properties["name"] == "anycastlab-10"


def test_a_router_that_was_never_seen_is_planned_like_a_fresh_one() -> None:
    plan = plan_site(make_site(), fresh("7.22.3")).plan
    assert len(plan.steps) == 28
    assert "one node serves" not in render_text(plan)


def test_what_pyinfra_may_print_of_a_plan_holds_no_key() -> None:
    site = make_site(bgp={"password": "geheim"})
    assert "geheim" not in repr((plan_site(site, fresh("7.22.3")), site))
