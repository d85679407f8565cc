"""What a node was deployed with is compared with the files, and what looks at the home looks for that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anycastlab.site import deployed
from anycastlab.site.load import Machines, build
from anycastlab.site.model import Site
from tests.unit.site.test_load import lab
from tests.unit.site.test_settings import home


def records(site: Site) -> dict[str, dict[str, Any]]:
    return {node.name: deployed.parse(deployed.to_json(site, node)) for node in site.nodes}


def looked_for(files: Machines, was: Site) -> Site:
    return build(deployed.as_deployed(files, records(was), build(files)))


def test_a_home_that_is_as_its_files_say_needs_no_word() -> None:
    files = lab(forward_zones={"corp.example": "10.8.0.1"}, service_address6="fd00:10:1:9::53")
    site = build(files)
    assert deployed.notes(records(site), site) == []
    assert looked_for(files, site) == site


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layout": "flat"}, "deployed with layout=flat, the files say routed"),
        ({"bfd_interval_ms": 50}, "deployed with bfd_interval_ms=50, the files say 100"),
        ({"service_address6": "fd00:10:1:9::53"}, "service_address6=fd00:10:1:9::53, the files say none"),
        ({"resolver": "unbound", "dot": True}, "deployed with dot=True, the files say False; resolver=unbound, the"),
        ({"upstreams": ["203.0.113.9"]}, "deployed with other upstreams than the files say"),
        ({"node_asn": 65054, "dot": True}, "dot=True, the files say False; node_asn=65054, the files say 65053"),
    ],
)
def test_a_run_with_other_settings_is_told_and_looked_for(changes: dict[str, Any], said: str) -> None:
    files, was = lab(), build(lab(**changes))
    (note,) = deployed.notes(records(was), build(files))
    assert note.startswith("All nodes were deployed with")
    assert said in note
    assert note.endswith("; `anycastlab up` brings that to what the files say.")
    assert looked_for(files, was).nodes == was.nodes
    assert looked_for(files, was) == was


def test_a_lab_that_could_not_have_adguard_home_is_not_told_to_try_again() -> None:
    files = lab()
    (note,) = deployed.notes(records(build(lab(resolver="unbound"))), build(files))
    assert note.endswith("; a lab does so where AdGuard Home cannot be had.")


def router_record(site: Site) -> dict[str, Any]:
    return deployed.parse(deployed.to_line(site))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layout": "flat"}, "All nodes and the router were deployed with layout=flat, the files say routed; "),
        ({"node_asn": 65054}, "All nodes and the router were deployed with node_asn=65054, the files say 65053; "),
        ({"wan_interface": "ether2"}, "The router was deployed with wan_interface=ether2, the files say ether1; "),
        (
            {"lan_networks": ["10.1.1.0/24", "10.1.2.0/24", "10.1.3.0/24"]},
            "The router was deployed with other lan_networks than the files say; ",
        ),
    ],
)
def test_the_router_says_with_what_it_was_deployed(changes: dict[str, Any], said: str) -> None:
    was = build(lab(**changes))
    (note,) = deployed.notes(records(was), build(lab()), router_record(was))
    assert note.startswith(said)


def test_the_router_speaks_for_a_home_whose_nodes_are_all_gone() -> None:
    files, was = lab(), build(lab(layout="flat", bfd_interval_ms=50))
    there = build(deployed.as_deployed(files, {}, build(files), router_record(was)))
    assert there == was


def test_nodes_that_differ_are_named_and_a_home_is_looked_at_as_most_of_it_is() -> None:
    files, was = lab(), build(lab(bfd_interval_ms=50))
    site = build(files)
    half = {**records(site), "node02": records(was)["node02"]}
    assert deployed.notes(half, site) == [
        "node02 was deployed with bfd_interval_ms=50, the files say 100; "
        "`anycastlab up` brings that to what the files say."
    ]
    assert build(deployed.as_deployed(files, half, site)).bfd.interval_ms == 100
    most = {**records(was), "node02": records(site)["node02"]}
    assert build(deployed.as_deployed(files, most, site)).bfd.interval_ms == 50


def test_boards_have_addresses_of_their_own() -> None:
    files = home()
    was = build(home(router_dns="192.0.2.2"))
    assert "router_dns=192.0.2.2, the files say 192.0.2.1" in deployed.notes(records(was), build(files))[0]
    assert looked_for(files, was).resolver.router_dns == was.resolver.router_dns


def test_no_secret_is_written_down() -> None:
    site = build(lab(bgp_password="hush"))
    assert "hush" not in deployed.to_json(site, site.nodes[0])
    assert not any("password" in key for key in records(site)["node01"])
    assert "hush" not in deployed.to_line(site)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "7", "[" * 100_000, '{"nosuch": 1, "bgp_password": "x"}'])
def test_what_is_no_record_says_nothing(text: str) -> None:
    assert deployed.parse(text) == {}


def test_a_record_somebody_wrote_cannot_break_the_terminal() -> None:
    site = build(lab())
    record = json.dumps({"layout": "\x1b[31mflat\n" + "x" * 1000})
    (note,) = deployed.notes({"node01": deployed.parse(record)}, site)
    assert note.isprintable()
    assert len(note) < 200
