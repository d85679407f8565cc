"""Whatever a person does to the rows on a router: one deploy heals it, a second one has nothing to do.

The plan's properties hold on a model (`tests/unit/routeros/test_plan.py`); here the same on an API that answers like
RouterOS, with its own spellings, ids and refusals.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anycastlab.routeros.apply import apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import read
from anycastlab.routeros.row import MENUS, ORDERED, SETTINGS, tag_of
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.unit.routeros.support import make_site

FILTER = "/ip/firewall/filter"
FOREIGN = [
    {"chain": "input", "action": "accept", "connection-state": "established,related"},
    {"chain": "input", "action": "drop", "comment": "Küche ☕"},
    {"chain": "forward", "action": "drop", "comment": "no"},
    {"chain": "input", "action": "accept", "protocol": "tcp", "dst-port": "179", "src-address": "10.1.2.11"},
]

#: What a hand may do to a row of ours: remove it, move it to the end, switch it, change or add a property.
DEEDS = st.sampled_from(["remove", "last", "disable", "note", "narrow"])


@pytest.fixture(scope="module", params=["7.16.2", "7.22.3"])
def router(request: pytest.FixtureRequest) -> Iterator[RunningRouter]:
    with running_router(version=request.param) as running:
        yield running


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    foreign=st.lists(st.sampled_from(FOREIGN), max_size=4),
    first=st.integers(1, 4),
    second=st.integers(1, 4),
    deeds=st.lists(st.tuples(DEEDS, st.integers(0, 1000)), max_size=6),
)
def test_a_deploy_heals_what_hands_did(
    router: RunningRouter,
    tmp_path: Path,
    foreign: list[dict[str, str]],
    first: int,
    second: int,
    deeds: list[tuple[str, int]],
) -> None:
    connection = Connection(Target(router.host, router.port, "automation", PASSWORD, tls=False))
    try:
        for menu in MENUS:
            if menu in router.server.router.schema.menus and menu not in SETTINGS:
                for row in router.rows(menu):
                    connection.remove(menu, row[".id"])
        deploy(connection, first, tmp_path)
        for row in foreign:
            connection.add(FILTER, row)
        for deed, which in deeds:
            do(connection, router, deed, which)
        before = [row for row in router.rows(FILTER) if not tag_of(row)]

        deploy(connection, second, tmp_path)

        assert plan_site(make_site(nodes=second), read(connection)).plan.steps == ()
        assert [row for row in router.rows(FILTER) if not tag_of(row)] == before
        chain = [row for row in router.rows(FILTER) if row["chain"] == "input"]
        drops = [n for n, row in enumerate(chain) if row["action"] == "drop" and not tag_of(row)]
        accepts = [n for n, row in enumerate(chain) if tag_of(row).startswith("anycastlab:accept:")]
        assert len(accepts) == 2 * second + 4
        assert not drops or max(accepts) < min(drops)
        assert [tag_of(row) for row in chain[:2]] == ["anycastlab:wan-guard:udp", "anycastlab:wan-guard:tcp"]
    finally:
        connection.close()


def deploy(connection: Connection, nodes: int, state: Path) -> None:
    site = make_site(nodes=nodes)
    planned = plan_site(site, read(connection))
    if planned.changes:
        apply(connection, planned, state, site=site)


def do(connection: Connection, router: RunningRouter, deed: str, which: int) -> None:
    own = [
        (menu, row[".id"])
        for menu in MENUS
        if menu in router.server.router.schema.menus and menu not in SETTINGS
        for row in router.rows(menu)
        if tag_of(row) and (menu in ORDERED or deed not in ("last", "narrow"))
    ]
    if not own:
        return
    menu, row_id = own[which % len(own)]
    match deed:
        case "remove" if menu != "/routing/bgp/instance":
            connection.remove(menu, row_id)
        case "last":
            connection.move(menu, row_id, None)
        case "disable":
            connection.call(f"{menu}/disable", f"=numbers={row_id}")
        case "note":
            comment = next(row["comment"] for row in router.rows(menu) if row[".id"] == row_id)
            connection.set(menu, row_id, {"comment": f"{comment} bitte stehen lassen"})
        case "narrow" if menu == FILTER:
            connection.set(menu, row_id, {"src-address-list": "friends", "dst-port": "5353"})
