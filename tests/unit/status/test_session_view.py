"""Why a session is not there, from the node's own bgpd. The documents are cut from FRR 10.3's output."""

from __future__ import annotations

import json

import pytest

from anycastlab.status.session_view import explainer, last_error
from tests.unit.site.test_load import build, lab


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (
            {"bgpState": "Idle", "lastNotificationReason": "OPEN Message Error/Bad Peer AS"},
            "OPEN Message Error/Bad Peer AS",
        ),
        ({"bgpState": "Connect", "lastResetDueTo": "BFD down received"}, None),
        ({"bgpState": "Connect"}, None),
    ],
)
def test_the_last_error_is_the_peers_word(peer: dict[str, str], said: str | None) -> None:
    assert last_error(json.dumps({"10.1.2.1": peer}), "10.1.2.1") == said


@pytest.mark.parametrize("printed", ["", "% BGP instance not found", "{}", "[]"])
def test_a_node_that_says_nothing_explains_nothing(printed: str) -> None:
    assert last_error(printed, "10.1.2.1") is None


def test_the_node_is_asked_about_the_router() -> None:
    asked: list[str] = []
    node = build(lab()).nodes[1]
    explainer(lambda which, argv: asked.append(f"{which.name}: {argv[-1]}") or "")(node)
    assert asked == ["node02: show bgp neighbors 10.1.2.1 json"]
