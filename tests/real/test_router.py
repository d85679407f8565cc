"""Our rows on a router that somebody names: taken, shown as sent, undone, removed; nothing else changes.

Settings are left out (they are nobody's rows), nodes live in documentation addresses (RFC 5737), so no session comes
up, and the guard stands on the loopback interface, where no DNS comes from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anycastlab.routeros.apply import apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.errors import ApplyError, RouterError
from anycastlab.routeros.limits import API_PORT, API_TLS_PORT
from anycastlab.routeros.plan import make_plan
from anycastlab.routeros.planning import Planned
from anycastlab.routeros.reading import Reading, read
from anycastlab.routeros.row import MENUS, SETTINGS, Row, tag_of
from anycastlab.routeros.rows import desired_rows
from anycastlab.site.model import Node, Resolver, Router, Site


@pytest.fixture
def session() -> Iterator[Connection]:
    account, _, place = os.environ["ANYCASTLAB_ROUTER"].rpartition("@")
    user, _, password = account.partition(":")
    host, _, port = place.partition(":")
    number = int(port or API_TLS_PORT)
    fingerprint = os.environ.get("ANYCASTLAB_ROUTER_FINGERPRINT")
    plain = number == API_PORT or os.environ.get("ANYCASTLAB_ROUTER_TLS") == "no"
    connection = Connection(Target(host, number, user, password, not plain, fingerprint))
    if any(tag_of(row) for menu in read(connection).menus.values() for row in menu):
        pytest.fail("There are rows of ours on this router already; these tests would take them for their own.")
    yield connection
    reading = read(connection)
    leave_nothing = Planned(make_plan([], reading.menus), (), reading)
    for step in leave_nothing.plan.steps:
        connection.remove(step.menu, step.row_id)  # type: ignore[union-attr]  # there is nothing but removals
    connection.close()


def site(nodes: int = 3) -> Site:
    members = tuple(
        Node(
            name=f"node{number:02}",
            host=f"@ssh/192.0.2.{number}",
            platform="ssh",
            address=f"192.0.2.{number}",
            prefix_length=24,
            gateway="192.0.2.254",
            router_id=f"192.0.2.{number}",
        )
        for number in range(1, nodes + 1)
    )
    router = Router(
        host="@routeros/router",
        api_host="router",
        api_port=API_TLS_PORT,
        router_id="192.0.2.254",
        lan_networks=("198.51.100.0/24",),
        wan_interface="lo",
    )
    service = {"address": "203.0.113.53"}
    resolver = Resolver(upstreams=("192.0.2.53",), router_dns="192.0.2.254")
    return Site(service=service, resolver=resolver, nodes=members, router=router)


def plan(reading: Reading, nodes: int = 3) -> Planned:
    rows: list[Row] = [row for row in desired_rows(site(nodes), reading.device) if row.menu not in SETTINGS]
    return Planned(make_plan(rows, reading.menus), tuple(rows), reading)


def foreign(reading: Reading) -> dict[str, list[dict[str, str]]]:
    return {menu: [row for row in reading.menus.get(menu, ()) if not tag_of(row)] for menu in MENUS}


def test_rows_are_taken_and_shown_as_they_were_sent(session: Connection, tmp_path: Path) -> None:
    before = read(session)
    apply(session, plan(before), tmp_path)
    after = read(session)
    assert plan(after).plan.steps == ()
    assert foreign(after) == foreign(before)


def test_a_failed_check_leaves_the_router_as_before(session: Connection, tmp_path: Path) -> None:
    def failing(_: Connection) -> None:
        raise RouterError("this check fails.")

    before = read(session)
    with pytest.raises(ApplyError) as caught:
        apply(session, plan(before), tmp_path, check=failing)
    assert caught.value.restored
    assert read(session).menus == before.menus


def test_a_node_that_goes_takes_its_rows_along(session: Connection, tmp_path: Path) -> None:
    apply(session, plan(read(session)), tmp_path)
    apply(session, plan(read(session), nodes=1), tmp_path)
    rows = read(session).menus["/routing/bgp/connection"]
    assert [tag_of(row) for row in rows if tag_of(row)] == ["anycastlab:connection:node01"]
