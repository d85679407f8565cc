"""Rows of a person that stand in the way stop the plan, are named, and stay as they are."""

from __future__ import annotations

import pytest

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import Reading, fresh
from tests.unit.routeros.support import make_site


def reading(
    version: str = "7.22.3", addresses: list[dict[str, str]] | None = None, **menus: list[dict[str, str]]
) -> Reading:
    base = fresh(version, "192.0.2.1")
    named = {menu.replace("__", "-").replace("_", "/"): rows for menu, rows in menus.items()}
    return Reading(base.version, {**base.menus, **named}, addresses or [], "192.0.2.1")


def refused(site: object, found: Reading) -> str:
    with pytest.raises(PlanError) as caught:
        plan_site(site, found)  # type: ignore[arg-type]
    assert caught.value.hint
    return f"{caught.value.problem} {caught.value.hint}"


def test_a_service_address_inside_a_connected_subnet() -> None:
    told = refused(make_site(), reading(addresses=[{"address": "10.1.9.1/24", "interface": "bridge"}]))
    assert "10.1.9.53 lies in the connected subnet of 10.1.9.1/24 on bridge" in told


def test_a_disabled_address_does_not_count() -> None:
    found = reading(addresses=[{"address": "10.1.9.1/24", "interface": "bridge", "disabled": "true"}])
    assert plan_site(make_site(), found).changes


def test_a_foreign_connection_to_a_node_can_be_handed_over_by_its_comment() -> None:
    row = {".id": "*7", "name": "alt", "remote.address": "10.1.2.12/32", "remote.as": "65053"}
    told = refused(make_site(), reading(_routing_bgp_connection=[row]))
    assert "*7 name=alt" in told
    assert 'comment "anycastlab:connection:node02"' in told
    row["comment"] = "anycastlab:connection:node02"
    plan = plan_site(make_site(), reading(_routing_bgp_connection=[row])).plan
    assert any(getattr(step, "row_id", None) == "*7" for step in plan.steps)


def test_a_foreign_dhcp_network_for_the_same_subnet() -> None:
    site = make_site(router={"dhcp_network": "10.1.1.0/24"})
    row = {".id": "*1", "address": "10.1.1.0/24", "comment": "defconf"}
    told = refused(site, reading(_ip_dhcp__server_network=[row]))
    assert "defconf" in told
    assert "anycastlab:dhcp:10.1.1.0/24" in told


def test_a_foreign_rule_in_our_filter_chain() -> None:
    row = {".id": "*3", "chain": "anycastlab-in", "rule": "accept"}
    assert "*3 chain=anycastlab-in" in refused(make_site(), reading(_routing_filter_rule=[row]))


def test_a_named_instance_that_is_not_there_has_another_as_or_no_multipath() -> None:
    site = make_site(router={"bgp_instance": "main"})
    assert "there is no BGP instance 'main' (there are: none)" in refused(site, reading())
    row = {".id": "*1", "name": "main", "as": "64512"}
    assert "has AS 64512, but router_asn is 65000" in refused(site, reading(_routing_bgp_instance=[row]))
    row["as"] = "65000"
    notes = plan_site(site, reading(_routing_bgp_instance=[row])).plan.notes
    assert any("multipath=(not set)" in note for note in notes)
    row["multipath"] = "8"
    assert plan_site(site, reading(_routing_bgp_instance=[row])).plan.notes == ()


@pytest.mark.parametrize(
    ("version", "paths", "shares"),
    [("7.22.3", "8", True), ("7.22.3", "2", False), ("7.22.3", "", False), ("7.20.8", "8", False)],
)
def test_a_named_instance_without_enough_paths_leaves_nodes_standing_by(version: str, paths: str, shares: bool) -> None:
    """That is a note of the plan; a check that failed on it would undo every deploy."""
    row = {".id": "*1", "name": "main", "as": "65000", "multipath": paths}
    found = reading(version, _routing_bgp_instance=[row])
    assert found.shares_load(make_site(router={"bgp_instance": "main"})) is shares
    assert found.shares_load(make_site()) is (version == "7.22.3")
