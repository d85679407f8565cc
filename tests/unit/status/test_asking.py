"""Only a node's answer is one, unless the last resort is on."""

from __future__ import annotations

import json

import pytest

from anycastlab.status.asking import service_asker
from tests.unit.routeros.support import make_site


@pytest.mark.parametrize(
    ("answer", "last_resort", "told"),
    [
        (["node02"], False, None),
        ([], True, None),
        ([], False, "10.1.9.53 is answered by somebody who is none of the nodes, and the last resort is off"),
        (["pihole\x1b"], False, "10.1.9.53 is answered by 'pihole', which is none of the nodes"),
        (None, True, "10.1.9.53 gave no answer over TCP"),
    ],
)
def test_who_answers(answer: list[str] | None, last_resort: bool, told: str | None) -> None:
    asker = service_asker(make_site(lab="lab"), lambda _: (True, json.dumps([answer])))
    assert asker("tcp", last_resort) == told
