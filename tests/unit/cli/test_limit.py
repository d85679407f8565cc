"""`--limit` takes the names that every table shows, and refuses those that name nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

# A process of its own: pyinfra's command line replaces the standard library's sockets.
_PROGRAM = """
import json, sys
import pyinfra_cli
from pyinfra.api.inventory import Inventory
from anycastlab.errors import AnycastlabError
from anycastlab.limit import chosen
nodes = ["@incus/node01", "@incus/far:node02", ("192.0.2.13", {"node_name": "node03"})]
names = [*nodes, "@incus/router", "@routeros/192.0.2.1", "@incus/client01"]
inventory = Inventory(
    (names, {}), nodes=(nodes, {}), router_machine=(["@incus/router"], {}), router=(["@routeros/192.0.2.1"], {})
)
found = []
for patterns in json.loads(sys.argv[1]):
    try:
        found.append(sorted(host.name for host in chosen(inventory, patterns, "--limit")))
    except AnycastlabError as error:
        found.append(str(error))
print(json.dumps(found))
"""
CASES: dict[str, tuple[list[str], Any]] = {
    "short": (["node02"], ["@incus/far:node02"]),
    "a board": (["node03"], ["192.0.2.13"]),
    "pyinfra's": (["@incus/node01"], ["@incus/node01"]),
    "several": (["node01", "node03"], ["192.0.2.13", "@incus/node01"]),
    "wildcard": (["node0?"], ["192.0.2.13", "@incus/far:node02", "@incus/node01"]),
    "group": (["nodes"], ["192.0.2.13", "@incus/far:node02", "@incus/node01"]),
    "the router": (["router"], ["@incus/router", "@routeros/192.0.2.1"]),
    "nobody": (
        ["nosuch"],
        "--limit nosuch: the inventory has no machine and no group of this name; nothing was changed.",
    ),
    "one of two": (["node01", "node"], "--limit node: the inventory has no machine"),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    patterns = json.dumps([patterns for patterns, _ in CASES.values()])
    result = subprocess.run([sys.executable, "-c", _PROGRAM, patterns], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return dict(zip(CASES, json.loads(result.stdout), strict=True))


@pytest.mark.parametrize("case", list(CASES))
def test_what_a_limit_names(answers: dict[str, Any], case: str) -> None:
    expected = CASES[case][1]
    if isinstance(expected, str):
        assert answers[case].startswith(expected)
        assert "Its machines are client01, node01, node02, node03, router." in answers[case]
    else:
        assert answers[case] == expected
