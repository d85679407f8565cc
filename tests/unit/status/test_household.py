"""What the household's questions are, and what their answers mean."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from anycastlab.status.household import Household, Question, Records, questions
from tests.unit.site.test_load import build, lab

SITE = build(lab(blocklist=["ads.lab.example"], wan_probe_suffix="rnd.lab.example"))
ASKED = questions(SITE, token=lambda: "fresh")


def good(question: Question) -> Records:
    if question.kind == "identity":
        return [question.node or "node02"]
    return {"internet": ["198.18.1.1"], "local": [], "reverse": [], "blocked": ["0.0.0.0"]}[question.kind]


def household(changes: Mapping[tuple[str, str], Records] | None = None) -> Household:
    """All well, but for `changes`: (kind, node) → what came instead."""
    changes = changes or {}
    return Household.of(SITE, ASKED, [changes.get((q.kind, q.node), good(q)) for q in ASKED])


def test_each_kind_is_asked_through_the_service_address_and_each_node_from_outside() -> None:
    assert [question.wire for question in ASKED if not question.node] == [
        ["10.1.9.53", "id.anycast.lan", "TXT", "udp"],
        ["10.1.9.53", "fresh.probe.anycast.rnd.lab.example", "A", "udp"],
        ["10.1.9.53", "fresh.probe.anycast.lan", "A", "udp"],
        ["10.1.9.53", "1.2.1.10.in-addr.arpa", "PTR", "udp"],
        ["10.1.9.53", "ads.lab.example", "A", "udp"],
    ]
    assert [(q.kind, q.server, q.protocol) for q in ASKED if q.node == "node03"] == [
        ("identity", "10.1.2.13", "udp"),
        ("identity", "10.1.2.13", "tcp"),
        ("internet", "10.1.2.13", "udp"),
    ]


def test_what_is_not_set_up_is_not_asked() -> None:
    site = build(lab(reverse_zones=[]))
    assert [q.kind for q in questions(site, nodes=[])] == ["identity", "internet", "local"]


def test_all_well() -> None:
    found = household()
    assert (found.ok, found.answered_by, found.internet(), found.internet("node01")) == (True, "node02", True, True)
    assert found.sentence() == "internet, local, reverse and blocked names are answered as they should be"
    assert found.to_json()["complaints"] == []


def test_an_upstream_with_one_wrong_digit() -> None:
    found = household({("internet", node): None for node in ("", "node01", "node02", "node03")})
    assert found.complaints() == [
        "No internet name resolves through 10.1.9.53. Look at upstreams (203.0.113.53): is each one right, and is the "
        "provider's line up?"
    ]
    assert found.sentence() == "local, reverse and blocked names are answered as they should be"


def test_one_node_that_cannot_resolve_is_named() -> None:
    found = household({("internet", "node02"): None})
    assert [c.partition(".")[0] for c in found.complaints()] == ["No internet name resolves through node02"]


def test_a_node_with_a_firewall_does_not_answer() -> None:
    found = household({("identity", "node01"): None, ("internet", "node01"): None})
    assert found.complaints() == [
        "node01 gives other machines no answer at 10.1.2.11, port 53 over UDP and TCP. If it has a firewall, let DNS "
        "in there (with ufw: `ufw allow 53`)."
    ]
    assert not found.answers("node01")


@pytest.mark.parametrize(("answer", "who"), [(["node03"], "'node03'"), ([], "somebody")])
def test_another_who_answers_for_a_node_is_no_firewall(answer: list[str], who: str) -> None:
    found = household({("identity", "node01"): answer, ("internet", "node01"): None})
    (complaint,) = found.complaints()
    assert complaint.startswith(
        f"Other machines are answered by {who} at 10.1.2.11, port 53 over UDP and TCP, and not by node01."
    )
    assert "a second resolver there" in complaint
    assert not found.answers("node01")


def test_udp_alone_is_half() -> None:
    answers = [None if q.protocol == "tcp" and q.node == "node01" else good(q) for q in ASKED]
    assert "port 53 over TCP." in Household.of(SITE, ASKED, answers).complaints()[0]


@pytest.mark.parametrize(
    ("kind", "answer", "beginning"),
    [
        ("local", None, "No local name resolves through 10.1.9.53. Look at router_dns (10.1.2.1)"),
        ("reverse", None, "Addresses have no names through 10.1.9.53 (asked for 1.2.1.10.in-addr.arpa)."),
        ("blocked", ["198.18.0.99"], "ads.lab.example is in the blocklist, but 10.1.9.53 does not block it."),
        ("identity", None, "The service address 10.1.9.53 gives no answer."),
    ],
)
def test_each_kind_that_fails_has_its_sentence(kind: str, answer: Records, beginning: str) -> None:
    (complaint,) = household({(kind, ""): answer}).complaints()
    assert complaint.startswith(beginning)


def test_the_router_may_answer() -> None:
    assert household({("identity", ""): []}).answered_by == "router"


def test_one_node_is_judged_for_itself() -> None:
    """After its change, before the next one's turn."""
    assert household().complaints_of("node01") == []
    assert household({("identity", ""): None, ("local", ""): None}).complaints_of("node01") == []
    (silent,) = household({("identity", "node01"): None}).complaints_of("node01")
    assert silent.startswith("node01 gives other machines no answer")
    (useless,) = household({("internet", "node01"): None}).complaints_of("node01")
    assert useless.startswith("No internet name resolves through node01.")
    assert household({("internet", "node02"): None}).complaints_of("node01") == []


def test_no_node_is_blamed_for_a_line_that_is_down() -> None:
    everywhere: dict[tuple[str, str], Records] = {("internet", q.node): None for q in ASKED}
    assert household(everywhere).complaints_of("node01") == []


@pytest.mark.parametrize(("answer", "shown"), [([], "the router"), (["pihole"], "'pihole'")])
def test_who_answers_must_be_a_node_while_nodes_answer(answer: list[str], shown: str) -> None:
    """A rule that sends all DNS to another resolver: there are answers, and none of them is a node's."""
    (complaint,) = household({("identity", ""): answer}).complaints()
    assert f"is answered by {shown}, not by a node, although nodes answer" in complaint
    assert "`anycastlab router verify`" in complaint
