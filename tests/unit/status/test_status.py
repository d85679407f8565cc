"""What a node prints becomes its status, and every unhealthy thing becomes a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from anycastlab.site import Site
from anycastlab.status.answer import Answer
from anycastlab.status.gather import gather, node_status, service_status
from anycastlab.status.household import Household, Records, questions
from anycastlab.status.model import NodeStatus, RouterStatus, ServiceStatus, Status
from tests.unit.site.test_load import build, lab

SITE = build(lab())
NODE = SITE.nodes[0]


def heard(*silent: str, site: Site = SITE, **instead: Records) -> Household:
    """What others hear when all is well, but that `silent` nodes say nothing and `instead` gives another identity."""
    asked = questions(site)
    answers: list[Records] = []
    for question in asked:
        if question.node in silent and question.node:
            answers.append(None)
        elif question.kind == "identity":
            answers.append(instead.get(question.node, [question.node or "node02"]))
        else:
            answers.append([])
    return Household.of(site, asked, answers)


def probe_says(wan: dict[str, Any]) -> dict[str, str]:
    """What a node prints of its probe's state, 2.5 s after it was written."""
    fine = {"good": True, "last": {"outcome": "ok", "latency_s": 0.001, "detail": "", "age_s": 0.1}}
    state = {
        "written": 1000.0,
        "since": 900.0,
        "state": "announcing",
        "effective": True,
        "cause": "healthy",
        "reason": "",
        "p95_s": None,
        "problems": {},
        "questions": {"resolver": fine, "local": fine, "wan": wan},
    }
    return {"probe": json.dumps(state), "clock": "1002.500000000"}


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
    nodes = tuple(node_status(n, SITE, printed(), heard()) for n in SITE.nodes)
    router = RouterStatus("10.1.1.1", "7.22.3", tuple(str(n.address) for n in SITE.nodes), redirect_active=False)
    return Status(nodes, router, ServiceStatus("10.1.9.53", True, "node02"))


def test_a_healthy_home_has_no_complaints() -> None:
    assert healthy().complaints() == []


def test_a_node_is_read_from_what_it_printed() -> None:
    status = node_status(NODE, SITE, printed(), heard())
    assert status == NodeStatus(
        "node01", "10.1.2.11", "x86_64", "adguardhome", "v0.107.79", "Established", "up", announced=True, answers=True,
        internet=True,
    )  # fmt: skip


def test_the_resolver_is_the_one_that_runs_not_the_one_in_the_inventory() -> None:
    status = node_status(NODE, SITE, printed(resolver="unbound", version="Version 1.22.0"), heard())
    assert (NODE.resolver, status.resolver, status.version) == ("adguardhome", "unbound", "1.22.0")


def test_the_answer_of_another_node_is_no_answer() -> None:
    assert not node_status(NODE, SITE, printed(), heard(node01=["node02"])).answers


def test_a_daemon_that_prints_an_error_is_a_missing_value_not_a_crash() -> None:
    status = node_status(NODE, SITE, printed(bgp="% BGP instance not found", bfd="", advertised="x"), heard())
    assert (status.bgp, status.bfd, status.announced) == (None, None, False)


def test_an_unreachable_node_says_why() -> None:
    status = node_status(NODE, SITE, Answer(None, stderr="node01 does not exist."), heard("node01"))
    assert status.problem == "cannot be reached: node01 does not exist."


def test_a_drained_node_is_no_complaint() -> None:
    node = node_status(NODE, SITE, printed(drained="yes operator", advertised="{}"), heard())
    assert replace(healthy(), nodes=(node,)).complaints() == []


@pytest.mark.parametrize("flag", ["deploy", ""], ids=["a deploy's", "empty, as a full disk leaves it"])
def test_a_drain_that_no_person_asked_for_is_a_complaint(flag: str) -> None:
    node = node_status(NODE, SITE, printed(drained=f"yes {flag}", advertised="{}"), heard())
    assert replace(healthy(), nodes=(node,)).complaints() == [
        "node01 was taken out of service by a deploy that has not put it back; `anycastlab up` does."
    ]


def test_a_probe_that_cannot_talk_to_its_peers_is_a_complaint() -> None:
    why = "messages in the name of node02 do not bear this home's key"
    node = replace(healthy().nodes[0], peers_problem=why)
    assert replace(healthy(), nodes=(node,)).complaints() == [
        f"node01: {why}; so no fault that all share is told from its own."
    ]


def test_the_router_answering_itself_is_named() -> None:
    service = service_status(SITE, [], None, "10.1.9.53")
    assert (service.answers, service.answered_by) == (True, "router")
    status = replace(healthy(), router=replace(healthy().router, redirect_active=True), service=service)
    assert status.complaints() == ["The last resort is on: the router answers itself because no node does."]


def test_a_next_hop_that_is_missing_at_the_router_is_named() -> None:
    status = replace(healthy(), router=replace(healthy().router, next_hops=("10.1.2.12", "10.1.2.13")))
    assert status.complaints() == ["node01 announces, but the router has no active route through it."]


def test_an_ipv6_service_address_without_route_or_answer_is_told() -> None:
    twin = build(lab(service_address6="fd00:10:1:9::53"))
    nodes = tuple(node_status(n, twin, printed(), heard(site=twin)) for n in twin.nodes)
    router = replace(healthy().router, next_hops6=tuple(str(n.address6) for n in twin.nodes))
    good = replace(healthy(), nodes=nodes, router=router, service6=ServiceStatus("fd00:10:1:9::53", True, "node01"))
    assert good.complaints() == []
    bad = replace(good, router=replace(router, next_hops6=router.next_hops6[1:]), service6=ServiceStatus("fd00:9::53"))
    assert bad.complaints() == [
        "node01: the router has no active IPv6 route through it.",
        "The service address fd00:9::53 gives no answer.",
    ]


# The household ------------------------------------------------------------------------------------------------------


class Machines:
    """A healthy lab whose client says `answers`, or cannot be asked at all."""

    site = SITE

    def __init__(self, household: Household | None) -> None:
        self.household = household

    def run_on_client(self, argv: Sequence[str]) -> tuple[bool, str]:
        if self.household is None:
            return False, "client01 does not exist."
        wires = json.loads(argv[-1])
        assert [wire[:1] + wire[2:] for wire in wires] == [q.wire[:1] + q.wire[2:] for q in questions(SITE)]
        return True, json.dumps([asked.records for asked in self.household.asked])

    def run_all(self, commands: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
        return dict.fromkeys(commands, printed())


def seen(household: Household | None) -> Status:
    return gather(Machines(household), lambda _: healthy().router)


def test_a_home_whose_household_resolves_is_healthy() -> None:
    assert seen(heard()).complaints() == []


def test_healthy_means_that_internet_names_resolve() -> None:
    """Everything that is ours works, and the upstream has one wrong digit."""
    asked = questions(SITE)
    answers: list[Records] = [None if q.kind == "internet" else [q.node or "node01"] for q in asked]
    found = seen(Household.of(SITE, asked, answers))
    (complaint,) = found.complaints()
    assert complaint.startswith("No internet name resolves through 10.1.9.53. Look at upstreams (203.0.113.53)")
    assert [node.internet for node in found.nodes] == [False] * 3
    assert found.to_json()["household"] == (complaint,)


def test_a_node_that_answers_itself_and_nobody_else_is_named() -> None:
    (complaint,) = seen(heard("node02")).complaints()
    assert complaint.startswith("node02 gives other machines no answer at 10.1.2.12, port 53 over UDP and TCP.")


def test_a_client_that_is_gone_is_not_the_nodes_fault() -> None:
    (complaint,) = seen(None).complaints()
    assert complaint == ("Nobody could ask the service address: the lab's client cannot ask: client01 does not exist.")


@pytest.mark.parametrize(
    ("wan", "good", "age_s"),
    [
        ({"good": True, "last": {"outcome": "ok", "latency_s": 0.04, "detail": "", "age_s": 3.0}}, True, 5.5),
        ({"good": False, "last": {"outcome": "wrong", "latency_s": 4.0, "detail": "SERVFAIL", "age_s": 1}}, False, 3.5),
        ({"good": None, "last": {"outcome": "silent", "latency_s": 6.0, "detail": "", "age_s": 0.5}}, False, 3.0),
        ({"good": True, "last": {"outcome": "silent", "latency_s": 6.0, "detail": "", "age_s": 0.5}}, True, 3.0),
        ({"good": None, "last": None}, None, None),
    ],
)
def test_what_the_probe_knows_of_the_wan_comes_with_its_age(
    wan: dict[str, Any], good: bool | None, age_s: float | None
) -> None:
    found = node_status(NODE, SITE, printed(**probe_says(wan)), heard())
    assert (found.wan, found.wan_age_s) == (good, age_s)


# --- the router's part ---------------------------------------------------------------------------------------------


def with_router(status: Status, **changes: Any) -> Status:
    return replace(status, router=replace(status.router, **changes))


def test_below_7_22_one_node_serves_and_the_others_stand_by() -> None:
    first, *others = (str(node.address) for node in SITE.nodes)
    seen = with_router(healthy(), next_hops=(first,), standing_by=tuple(others))
    assert seen.complaints() == []
    gone = with_router(healthy(), next_hops=(first,), standing_by=tuple(others[1:]))
    assert gone.complaints() == [f"{SITE.nodes[1].name} announces, but the router has no active route through it."]


def test_a_router_that_is_gone_is_not_the_nodes_fault() -> None:
    """Its machine is off: no session, no answer on the way through it, and three healthy nodes."""
    alone = replace(healthy(), household=("Nobody resolves.",))
    nodes = tuple(replace(node, bgp="Active", bfd="down", announced=False, answers=False) for node in alone.nodes)
    told = with_router(replace(alone, nodes=nodes), problem="no answer from 127.0.0.1.").complaints()
    assert told[0] == "The router: no answer from 127.0.0.1."
    assert len(told) == 2
    assert not any(node.name in sentence for node in SITE.nodes for sentence in told)


def test_a_router_that_only_refuses_us_hides_nothing_of_the_nodes() -> None:
    first, *others = healthy().nodes
    broken = replace(healthy(), nodes=(replace(first, bgp="Active"), *others))
    told = with_router(broken, problem="wrong password.").complaints()
    assert any(first.name in sentence for sentence in told)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"netwatch": "up", "redirect_wrong": True, "redirect_active": True}, "is on although netwatch gets answers"),
        ({"netwatch": "down", "redirect_wrong": True}, "is off although netwatch gets no answer"),
        ({"netwatch": "missing"}, "/tool/netwatch is missing"),
        ({"netwatch": "off"}, "/tool/netwatch is disabled"),
        ({"netwatch": "down", "redirect_active": True}, "The last resort is on"),
    ],
)
def test_a_last_resort_that_is_not_as_it_must_be_is_told(changes: dict[str, Any], sentence: str) -> None:
    (told,) = with_router(healthy(), **changes).complaints()
    assert sentence in told
