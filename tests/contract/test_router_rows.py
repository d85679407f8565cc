"""What the client writes is what the lab's router can make true: no row refused, inactive or invalid, scripts run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from anycastlab.routeros.apply import apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import read
from anycastlab.routeros.rollback import undo_script
from anycastlab.routeros.row import ORDERED
from anycastlab.routeros.rows_fallback import script
from anycastlab.virtual_router.dataplane import bird, nft
from anycastlab.virtual_router.dataplane.api import NullDataplane, Row
from anycastlab.virtual_router.dataplane.plane import LinuxDataplane, create
from anycastlab.virtual_router.dataplane.script import Interpreter
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.unit.routeros.support import make_site

VERSIONS = ["7.16.2", "7.19.6", "7.20.8 (long-term)", "7.22.3", "7.24"]


class Judging(NullDataplane):
    """Refuses and remarks as the real data plane does, and runs nothing."""

    real: LinuxDataplane

    def refuse(self, menu: str, row: Row) -> str | None:
        return self.real.refuse(menu, row)

    def annotate(self, menu: str, row: Row) -> dict[str, str]:
        return self.real.annotate(menu, row)


def connect(router: RunningRouter) -> Connection:
    return Connection(Target(router.host, router.port, "automation", PASSWORD, tls=False))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ipv6", [False, True])
def test_every_row_is_taken_and_rendered(version: str, ipv6: bool, tmp_path: Path) -> None:
    service = {"address6": "fd00:9::53"} if ipv6 else {}
    site = make_site(service=service, bgp={"password": "geheim"}, layout="flat")
    plane = Judging()
    with running_router(version=version, dataplane=plane) as router:
        plane.real = create(router.server.router.config)
        connection = connect(router)
        apply(connection, plan_site(site, read(connection)), tmp_path, site=site)
        connection.close()
        snapshot = router.call(router.server.router.store.snapshot)
    ruleset, problems = nft.render(snapshot, plane.real.interfaces)
    assert problems == {}
    assert "3784" in ruleset
    rendered = bird.render(snapshot, plane.real.version, plane.real.interfaces, "router")
    assert rendered.notes == {}
    for node in site.nodes:
        assert f"neighbor {node.address} " in rendered.text
        assert (f"neighbor {node.address6} " in rendered.text) == ipv6
    assert "10.1.9.53/32" in rendered.text


def run_script(router: RunningRouter, source: str, policies: Sequence[str]) -> None:
    """As netwatch or the scheduler runs it, on the router's own loop."""
    assert isinstance(router.dataplane, NullDataplane)
    console = router.dataplane.console
    assert console is not None
    work = Interpreter(console, frozenset(policies), "test").run(source)
    asyncio.run_coroutine_threadsafe(work, router._loop).result(10)


def test_the_toggle_scripts_switch_our_redirects_only_and_flush_the_service_address(tmp_path: Path) -> None:
    site = make_site()
    plane = NullDataplane()
    foreign = {"chain": "dstnat", "action": "redirect", "protocol": "udp", "dst-port": "53", "disabled": "true"}
    with running_router(dataplane=plane, rows={"/ip/firewall/nat": (foreign,)}) as router:
        connection = connect(router)
        apply(connection, plan_site(site, read(connection)), tmp_path, site=site)
        connection.close()
        for verb, disabled in (("enable", "false"), ("disable", "true")):
            plane.runtime["/ip/firewall/connection"] = [
                {".id": "*1", "dst-address": "10.1.9.53:53"},
                {".id": "*2", "dst-address": "10.1.9.5:53"},
                {".id": "*3", "dst-address": "110.1.9.53:53"},
                {".id": "*4", "dst-address": "10.1.9.53:853"},
                {".id": "*5", "dst-address": "10.1.9.53", "dst-port": "53"},
                {".id": "*6", "dst-address": "10.1.9.5", "dst-port": "53"},
            ]
            run_script(router, script(verb, IPv4Address("10.1.9.53")), ["read", "write", "test", "reboot"])
            rows = router.rows("/ip/firewall/nat")
            assert [row["disabled"] for row in rows if row.get("comment", "").startswith("anycastlab:")] == [
                disabled
            ] * 2
            assert [row["disabled"] for row in rows if not row.get("comment")] == ["true"]
            assert [row[".id"] for row in plane.runtime["/ip/firewall/connection"]] == ["*2", "*3", "*6"]


def without_ids(router: RunningRouter, menu: str) -> list[dict[str, str]]:
    """Rows in order; where order means nothing, by name."""
    rows = [{k: v for k, v in row.items() if k != ".id"} for row in router.rows(menu)]
    return rows if menu in ORDERED else sorted(rows, key=lambda row: row.get("name", ""))


def test_the_armed_roll_back_undoes_a_change_on_the_router_alone(tmp_path: Path) -> None:
    """The script is run by the router, after this program died in the middle: every row is as before."""
    before_site, after_site = make_site(), make_site(names=["node01", "node04"], bgp={"hold_s": 30, "password": "neu"})
    menus = [
        "/ip/firewall/filter",
        "/routing/bgp/connection",
        "/routing/bfd/configuration",
        "/tool/netwatch",
        "/ip/dns",
    ]
    foreign = {"/ip/firewall/filter": ({"chain": "input", "action": "drop", "comment": "Rest ☕"},)}
    with running_router(version="7.16.2", rows=foreign) as router:
        connection = connect(router)
        apply(connection, plan_site(before_site, read(connection)), tmp_path, site=before_site)
        first = router.rows("/ip/firewall/filter")[2][".id"]
        connection.move("/ip/firewall/filter", first, None)
        reading = read(connection)
        before = {menu: without_ids(router, menu) for menu in menus}
        planned = plan_site(after_site, reading)
        source = undo_script(planned.plan, reading)
        apply(connection, planned, tmp_path, site=after_site)
        connection.close()
        run_script(router, source, ["read", "write", "test"])
        for menu in menus:
            assert without_ids(router, menu) == before[menu]
