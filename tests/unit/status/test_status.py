"""What a node prints becomes its status, and every unhealthy thing becomes a sentence."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from anycastlab.status.answer import Answer
from anycastlab.status.gather import node_status, service_status
from anycastlab.status.model import NodeStatus, RouterStatus, ServiceStatus, Status
from tests.unit.site.test_load import build, lab

SITE = build(lab())
NODE = SITE.nodes[0]


def printed(**changes: str) -> Answer:
    said = {
        "architecture": "x86_64",
        "version": "AdGuard Home, version v0.107.79",
        "bgp": json.dumps({"ipv4Unicast": {"peers": {"10.1.2.1": {"state": "Established"}}}}),
        "bfd": json.dumps([{"peer": "10.1.2.1", "status": "up"}]),
        "advertised": json.dumps({"advertisedRoutes": {"10.1.9.53/32": {}}}),
        "drained": "",
        **changes,
    }
    return Answer(0, "".join(f"{key}\t{value}\n" for key, value in said.items()))


def healthy() -> Status:
    nodes = tuple(node_status(n, SITE, printed(), [n.name]) for n in SITE.nodes)
    router = RouterStatus("10.1.1.1", "7.22.3", tuple(str(n.address) for n in SITE.nodes), redirect_active=False)
    return Status(nodes, router, ServiceStatus("10.1.9.53", True, "node02"))


def test_a_healthy_home_has_no_complaints() -> None:
    assert healthy().complaints() == []


def test_a_node_is_read_from_what_it_printed() -> None:
    status = node_status(NODE, SITE, printed(), ["node01"])
    assert status == NodeStatus(
        "node01", "10.1.2.11", "x86_64", "adguardhome", "v0.107.79", "Established", "up", announced=True, answers=True
    )


def test_the_resolver_is_the_one_that_runs_not_the_one_in_the_inventory() -> None:
    status = node_status(NODE, SITE, printed(resolver="unbound", version="Version 1.22.0"), ["node01"])
    assert (NODE.resolver, status.resolver, status.version) == ("adguardhome", "unbound", "1.22.0")


def test_the_answer_of_another_node_is_no_answer() -> None:
    assert not node_status(NODE, SITE, printed(), ["node02"]).answers


def test_a_daemon_that_prints_an_error_is_a_missing_value_not_a_crash() -> None:
    status = node_status(NODE, SITE, printed(bgp="% BGP instance not found", bfd="", advertised="x"), ["node01"])
    assert (status.bgp, status.bfd, status.announced) == (None, None, False)


def test_an_unreachable_node_says_why() -> None:
    status = node_status(NODE, SITE, Answer(None, stderr="node01 does not exist."), None)
    assert status.problem == "cannot be reached: node01 does not exist."


def test_a_drained_node_is_no_complaint() -> None:
    node = node_status(NODE, SITE, printed(drained="yes operator", advertised="{}"), ["node01"])
    assert replace(healthy(), nodes=(node,)).complaints() == []


@pytest.mark.parametrize("flag", ["deploy", ""], ids=["a deploy's", "empty, as a full disk leaves it"])
def test_a_drain_that_no_person_asked_for_is_a_complaint(flag: str) -> None:
    node = node_status(NODE, SITE, printed(drained=f"yes {flag}", advertised="{}"), ["node01"])
    assert replace(healthy(), nodes=(node,)).complaints() == [
        "node01 was taken out of service by a deploy that has not put it back; `anycastlab up` does."
    ]


def test_the_router_answering_itself_is_named() -> None:
    service = service_status(SITE, [], None)
    assert (service.answers, service.answered_by) == (True, "router")
    status = replace(healthy(), router=replace(healthy().router, redirect_active=True), service=service)
    assert status.complaints() == ["The last resort is on: the router answers itself because no node does."]


def test_a_next_hop_that_is_missing_at_the_router_is_named() -> None:
    status = replace(healthy(), router=replace(healthy().router, next_hops=("10.1.2.12", "10.1.2.13")))
    assert status.complaints() == ["node01 announces, but the router has no active route through it."]


def test_an_ipv6_service_address_without_route_or_answer_is_told() -> None:
    twin = build(lab(service_address6="fd00:10:1:9::53"))
    nodes = tuple(node_status(n, twin, printed(), [n.name]) for n in twin.nodes)
    router = replace(healthy().router, next_hops6=tuple(str(n.address6) for n in twin.nodes))
    good = replace(healthy(), nodes=nodes, router=router, service6=ServiceStatus("fd00:10:1:9::53", True, "node01"))
    assert good.complaints() == []
    bad = replace(good, router=replace(router, next_hops6=router.next_hops6[1:]), service6=ServiceStatus("fd00:9::53"))
    assert bad.complaints() == [
        "node01: the router has no active IPv6 route through it.",
        "The service address fd00:9::53 gives no answer.",
    ]
