"""Applying to a router: as planned or as before, whatever happens in between."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anycastlab.routeros import backup as backups
from anycastlab.routeros.apply import Applied, Clock, apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.errors import ApplyError, PlanError, RouterDenied, RouterError
from anycastlab.routeros.observe import observe
from anycastlab.routeros.planning import Planned, plan_removal, plan_restore, plan_site
from anycastlab.routeros.reading import read
from anycastlab.routeros.render import render_text
from anycastlab.routeros.row import MENUS, tag_of
from anycastlab.routeros.transport import Transport, open_transport
from anycastlab.site.model import Site
from anycastlab.virtual_router.dataplane.api import NullDataplane, Row
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.unit.routeros.support import make_site

FILTER = "/ip/firewall/filter"
OLD, NEW = "7.16.2", "7.22.3"
FOREIGN = {
    FILTER: (
        {"chain": "input", "action": "accept", "connection-state": "established,related", "comment": "läuft ☕"},
        {"chain": "input", "action": "accept", "protocol": "tcp", "comment": "anycastlab: web pages, mine"},
        {"chain": "forward", "action": "accept", "protocol": "tcp", "comment": "anycastlab:webpages:mine"},
        {"chain": "input", "action": "drop", "comment": "anycastlab ist nicht mein Präfix"},
    ),
    "/routing/filter/rule": ({"chain": "bgp-in", "rule": "accept"},),
    "/ip/firewall/nat": ({"chain": "srcnat", "action": "masquerade", "out-interface": "ether1-wan"},),
}


class FaultyLine:
    """A transport that misbehaves at the n-th command that is no reading."""

    def __init__(self, inner: Transport, at: int, fault: Callable[[Transport], None]) -> None:
        self._inner = inner
        self._left = at
        self._fault = fault
        self.deadline = 0.0

    def write(self, data: bytes) -> None:
        command = data[1 : 1 + data[0]]  # short enough for one byte of length
        self._left -= not command.endswith((b"/print", b"/login"))
        self._inner.deadline = self.deadline
        if self._left == 0:
            self._left = -1000
            if self._fault is cut_behind:
                self._inner.write(data)
            self._fault(self._inner)
        self._inner.write(data)

    def read(self, length: int) -> bytes:
        self._inner.deadline = self.deadline
        return self._inner.read(length)

    def close(self) -> None:
        self._inner.close()


def cut(line: Transport) -> None:
    line.close()
    raise ConnectionResetError("cut")


def cut_behind(line: Transport) -> None:
    """The command still arrives; its answer does not."""
    cut(line)


def interrupt(_: Transport) -> None:
    raise KeyboardInterrupt


def connect(router: RunningRouter, user: str = "automation", **options: Any) -> Connection:
    return Connection(Target(router.host, router.port, user, PASSWORD, tls=False), **options)


def faulty(router: RunningRouter, at: int, fault: Callable[[Transport], None]) -> Connection:
    """Only the first session misbehaves."""
    opened: list[Transport] = []

    def opener(*where: Any) -> Transport:
        line = open_transport(*where)
        if not opened:
            line = FaultyLine(line, at, fault)  # type: ignore[assignment]
        opened.append(line)
        return line

    return connect(router, opener=opener)


def snapshot(router: RunningRouter) -> dict[str, list[dict[str, str]]]:
    """Everything configured, without ids and without what counts by itself."""
    known = [menu for menu in (*MENUS, "/system/scheduler") if router.server.router.schema.menu(menu)]
    return {menu: [{k: v for k, v in row.items() if k != ".id"} for row in router.rows(menu)] for menu in known}


def plan(connection: Connection, site: Site) -> Planned:
    return plan_site(site, read(connection))


@contextmanager
def home(version: str = NEW, **options: Any) -> Iterator[RunningRouter]:
    """A person's router with rows of their own."""
    with running_router(version=version, rows=FOREIGN, **options) as router:
        yield router


def deploy(router: RunningRouter, site: Site, state: Path, **options: Any) -> Applied:
    connection = connect(router)
    try:
        return apply(connection, plan(connection, site), state, site=site, **options)
    finally:
        connection.close()


VERSIONS = [OLD, "7.18", "7.19.6 (stable)", "7.20.8 (long-term)", "7.22rc4", NEW, "7.24"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_takes_its_rows_and_has_nothing_to_do_afterwards(version: str, tmp_path: Path) -> None:
    site = make_site(bgp={"password": "geheim"}, names=["no", "10", "node03"])
    with home(version) as router:
        before = snapshot(router)
        deploy(router, site, tmp_path)
        connection = connect(router)
        assert plan(connection, site).plan.steps == ()
        assert [row for row in router.rows(FILTER) if not tag_of(row)] != []
        foreign = {menu: [row for row in rows if not tag_of(row)] for menu, rows in snapshot(router).items()}
        for menu, rows in FOREIGN.items():
            assert foreign[menu] == before[menu], rows
        apply(connection, plan_removal(site, read(connection), {}), tmp_path)
        connection.close()
        after = snapshot(router)
        for menu in before:
            if menu not in ("/ip/dns", "/ip/settings"):
                assert after[menu] == before[menu]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_failed_check_takes_everything_back(version: str, tmp_path: Path) -> None:
    def failing(_: Connection) -> None:
        raise RouterError("node02 bgp: no session.", "Look at node02.")

    with home(version) as router:
        before = snapshot(router)
        with pytest.raises(ApplyError, match=r"no session\. Router 127\.0\.0\.1:\d+ is as before") as caught:
            deploy(router, make_site(), tmp_path, check=failing)
        assert caught.value.restored
        assert snapshot(router) == before


@pytest.mark.parametrize("fault", [cut, cut_behind])
@pytest.mark.parametrize(
    ("version", "at"), [*((OLD, at) for at in (1, 2, 13, 26, 27)), *((NEW, at) for at in (1, 2, 13, 27, 28))]
)
def test_a_lost_connection_leaves_the_router_as_before(
    version: str, at: int, fault: Callable[[Transport], None], tmp_path: Path
) -> None:
    """At the first command (taking safe mode, arming), in the middle, and at the last (releasing, disarming)."""
    with home(version) as router:
        before = snapshot(router)
        connection = faulty(router, at, fault)
        planned = plan(connection, make_site())
        with pytest.raises(ApplyError, match=r"broke at .* is as before"):
            apply(connection, planned, tmp_path, site=make_site())
        connection.close()
        assert snapshot(router) == before


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("at", [2, 14, 27])
def test_ctrl_c_leaves_the_router_as_before_and_says_so(version: str, at: int, tmp_path: Path) -> None:
    said: list[str] = []
    with home(version) as router:
        before = snapshot(router)
        connection = faulty(router, at, interrupt)
        planned = plan(connection, make_site())
        with pytest.raises(KeyboardInterrupt):
            apply(connection, planned, tmp_path, site=make_site(), log=said.append)
        connection.close()
        assert snapshot(router) == before
        assert said[-1] == f"interrupted: Router 127.0.0.1:{router.port} is as before."


class Refusing(NullDataplane):
    """A router that refuses a certain row, late in the change."""

    def refuse(self, menu: str, row: Row) -> str | None:
        return "refused for this test" if menu == "/tool/netwatch" and row.get("name") == "anycastlab" else None


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_write_refused_half_way_takes_everything_back(version: str, tmp_path: Path) -> None:
    with home(version, dataplane=Refusing()) as router:
        before = snapshot(router)
        with pytest.raises(ApplyError, match=r"refused /tool/netwatch/add.* is as before"):
            deploy(router, make_site(), tmp_path)
        assert snapshot(router) == before


def test_a_rule_the_router_took_but_does_not_use_takes_everything_back(tmp_path: Path) -> None:
    plane = NullDataplane()
    plane.notes["/routing/filter/rule", "anycastlab:filter:in"] = {"inactive": "true"}
    with home(dataplane=plane) as router:
        before = snapshot(router)
        with pytest.raises(ApplyError, match="is inactive"):
            deploy(router, make_site(), tmp_path)
        assert snapshot(router) == before


def test_a_change_of_an_existing_setup_is_undone_to_that_setup(tmp_path: Path) -> None:
    def failing(_: Connection) -> None:
        raise RouterError("x.")

    changed = make_site(names=["node01", "node04"], bgp={"hold_s": 30}, bfd={"interval_ms": 300})
    for version in (OLD, NEW):
        with home(version) as router:
            deploy(router, make_site(), tmp_path)
            connection = connect(router)
            first = plan(connection, changed)
            assert len(first.plan.steps) > 8
            connection.close()
            before = snapshot(router)
            with pytest.raises(ApplyError) as caught:
                deploy(router, changed, tmp_path, check=failing)
            assert caught.value.restored
            assert snapshot(router) == before


# --- more steps than safe mode remembers -----------------------------------------------------------------------------


def test_a_plan_larger_than_safe_mode_is_applied_and_undone_in_chunks(tmp_path: Path) -> None:
    def failing(_: Connection) -> None:
        raise RouterError("x.")

    site = make_site(nodes=40)
    with home() as router:
        before = snapshot(router)
        with pytest.raises(ApplyError) as caught:
            deploy(router, site, tmp_path, check=failing)
        assert caught.value.restored
        assert snapshot(router) == before
        deploy(router, site, tmp_path)
        assert len(router.rows("/routing/bgp/connection")) == 40


def test_when_others_fill_the_history_the_change_is_undone_by_ourselves(tmp_path: Path) -> None:
    """With more than 100 changes RouterOS leaves safe mode and undoes nothing."""
    with home() as router:
        before = snapshot(router)
        other = connect(router, "admin")

        def flooded(_: Connection) -> None:
            for number in range(120):
                other.set("/system/identity", None, {"name": f"router{number}"})
            raise RouterError("x.")

        with pytest.raises(ApplyError) as caught:
            deploy(router, make_site(), tmp_path, check=flooded)
        assert caught.value.restored
        assert snapshot(router) == before
        other.close()


# --- refused before the first write ----------------------------------------------------------------------------------


def test_safe_mode_held_elsewhere_stops_before_any_write(tmp_path: Path) -> None:
    with home() as router:
        other = connect(router, "admin")
        other.call("/safe-mode/take")
        with pytest.raises(RouterError, match="held by admin in another session; nothing was changed"):
            deploy(router, make_site(), tmp_path)
        assert router.writes() == []
        other.close()


@pytest.mark.parametrize(
    ("user", "missing"), [("reader", "policies write, test, sensitive"), ("insensitive", "policy sensitive")]
)
def test_missing_policies_are_named_before_any_write(user: str, missing: str, tmp_path: Path) -> None:
    site = make_site(bgp={"password": "x"})
    with home() as router:
        connection = connect(router, user)
        with pytest.raises(RouterDenied, match=missing):
            apply(connection, plan(connection, site), tmp_path, site=site)
        connection.close()
        assert router.writes() == []


def test_a_service_address_that_is_on_the_router_already() -> None:
    address = {"address": "10.1.9.53/32", "interface": "ether2-lan"}
    with home() as router:
        router.give("/ip/address", address)
        connection = connect(router, "admin")
        with pytest.raises(PlanError, match=r"already an address of the router: 10\.1\.9\.53/32 on ether2-lan"):
            plan(connection, make_site())
        connection.close()


def test_a_router_upgraded_since_the_plan_was_made_gets_no_write(tmp_path: Path) -> None:
    with home("7.20.8") as old, home(NEW) as new:
        connection = connect(old)
        planned = plan(connection, make_site())
        connection.close()
        connection = connect(new)
        with pytest.raises(RouterError, match=r"runs RouterOS 7\.22\.3 .*, but the plan was made for 7\.20\.8"):
            apply(connection, planned, tmp_path, site=make_site())
        connection.close()
        assert new.writes() == []


@pytest.mark.parametrize(
    ("menu", "prefix", "gateway"),
    [("/ip/route", "10.1.9.53/32", "10.1.1.9"), ("/ipv6/route", "fd00:9::53/128", "fd00:2::9")],
)
def test_a_static_route_that_would_hide_the_nodes(menu: str, prefix: str, gateway: str, tmp_path: Path) -> None:
    site = make_site(service={"address6": "fd00:9::53"})
    with home() as router:
        connection = connect(router, "admin")
        connection.add(menu, {"dst-address": prefix, "gateway": gateway})
        writes = len(router.writes())
        with pytest.raises(RouterError, match=f"static route for the service address .*{prefix} via {gateway}"):
            apply(connection, plan(connection, site), tmp_path, site=site)
        connection.close()
        assert len(router.writes()) == writes


@pytest.mark.parametrize(
    "row",
    [
        {"dst-address": "10.1.9.53/32", "blackhole": "yes", "disabled": "yes"},
        {"dst-address": "10.1.9.53/32", "blackhole": "", "distance": "250"},
    ],
)
def test_a_static_route_that_hides_nothing_is_no_conflict(row: dict[str, str], tmp_path: Path) -> None:
    """Switched off, or farther than what BGP brings: a blackhole of a person's own."""
    with home(flag_form="empty") as router:
        connection = connect(router)
        connection.add("/ip/route", row)
        apply(connection, plan(connection, make_site()), tmp_path, site=make_site())
        assert plan(connection, make_site()).plan.steps == ()
        connection.close()
        assert [tag_of(each) for each in router.rows("/ip/route")] == ["", "anycastlab:blackhole"]


def test_our_own_blackhole_that_somebody_brought_near_is_put_right(tmp_path: Path) -> None:
    with home() as router:
        deploy(router, make_site(), tmp_path)
        connection = connect(router, "admin")
        (own,) = connection.print("/ip/route", [".id"], "?comment=anycastlab:blackhole")
        connection.set("/ip/route", own[".id"], {"distance": "1"})
        connection.close()
        deploy(router, make_site(), tmp_path)
        assert router.rows("/ip/route")[-1]["distance"] == "254"


def test_an_interface_that_is_not_there_is_a_wrong_name_and_no_matter_of_the_version(tmp_path: Path) -> None:
    with home() as router, pytest.raises(ApplyError, match="does not match any value of interface") as caught:
        deploy(router, make_site(router={"wan_interface": "ether1-wann"}), tmp_path)
    assert "no interface of that name" in caught.value.hint
    assert "wan_interface" in caught.value.hint
    assert "version" not in caught.value.hint


@pytest.mark.parametrize(
    ("saved", "now", "told"),
    [
        ("7.19.6", "7.22.3", r"RouterOS 7\.19\.6.*; 7\.22\.3 does not take its rows: /routing/bgp/connection has no"),
        ("7.22.3", "7.19.6", "does not take its rows: /routing/bgp/instance does not exist"),
        ("7.22.3", "7.24", ""),
    ],
)
def test_a_backup_of_another_version_is_checked_before_it_is_offered(
    saved: str, now: str, told: str, tmp_path: Path
) -> None:
    with home(saved) as router:
        path = deploy(router, make_site(), tmp_path).backup
        connection = connect(router)
        apply(connection, plan_removal(make_site(), read(connection), {}), tmp_path)
        (path,) = set(tmp_path.glob("routers/*/*.json")) - {path}
        connection.close()
    with home(now) as router:
        connection = connect(router)
        if told:
            with pytest.raises(PlanError, match=told) as caught:
                plan_restore(backups.load(path), read(connection))
            assert "anycastlab up" in caught.value.hint
        else:
            apply(connection, plan_restore(backups.load(path), read(connection)), tmp_path)
        connection.close()
        assert bool(router.writes()) == (not told)


def test_without_room_for_the_backup_nothing_is_changed(tmp_path: Path) -> None:
    blocker = tmp_path / "routers"
    blocker.write_text("a file where a folder has to be")
    with home() as router:
        with pytest.raises(RouterError, match=r"backup .* cannot be written"):
            deploy(router, make_site(), tmp_path)
        assert router.writes() == []


def test_two_own_rows_with_one_tag_stop_the_plan(tmp_path: Path) -> None:
    with home() as router:
        deploy(router, make_site(), tmp_path)
        connection = connect(router)
        twin = {"chain": "input", "action": "accept", "comment": "anycastlab:accept:bgp:node01 kopiert"}
        row_id = connection.add(FILTER, twin)
        with pytest.raises(PlanError, match=f"two rows with the tag .*{row_id.replace('*', '[*]')}"):
            plan(connection, make_site())
        connection.close()


# --- the armed roll-back of older versions ---------------------------------------------------------------------------


def test_below_7_18_a_roll_back_is_armed_while_the_change_is_made_and_gone_afterwards(tmp_path: Path) -> None:
    armed: list[dict[str, str]] = []
    with home(OLD) as router:
        deploy(router, make_site(), tmp_path, check=lambda _: armed.extend(router.rows("/system/scheduler")))
        (entry,) = armed
        assert entry["name"] == "anycastlab-rollback"
        assert entry["policy"].split(",") == ["read", "write", "test"] or set(entry["policy"].split(",")) == {
            "read",
            "write",
            "test",
        }
        assert (
            '/routing/bgp/connection/remove [find comment~"^anycastlab:connection:node01( |\\$)"]' in entry["on-event"]
        )
        assert router.rows("/system/scheduler") == []


def test_a_router_whose_device_mode_forbids_the_scheduler_is_changed_with_a_note(tmp_path: Path) -> None:
    with home(OLD, device_mode="home") as router:
        applied = deploy(router, make_site(), tmp_path)
        assert any("no armed roll-back" in note for note in applied.notes)
        assert len(router.rows("/routing/bgp/connection")) == 3


# --- backups ---------------------------------------------------------------------------------------------------------


def test_a_backup_is_private_names_host_and_time_and_can_be_put_back(tmp_path: Path) -> None:
    with home() as router:
        deploy(router, make_site(bgp={"password": "geheim"}), tmp_path)
        before = snapshot(router)
        path = deploy(router, make_site(nodes=1, bgp={"password": "anders"}), tmp_path).backup
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        saved = json.loads(path.read_text())
        assert saved["host"] == f"127.0.0.1:{router.port}"
        assert saved["taken_at"].startswith("20")
        connection = connect(router)
        planned = plan_restore(backups.load(path), read(connection))
        assert planned.changes
        apply(connection, planned, tmp_path)
        assert plan_restore(backups.load(path), read(connection)).plan.steps == ()
        connection.close()
        assert snapshot(router) == before


FOREIGN_BACKUP = {
    "format": 1,
    "host": "h",
    "version": "7.22",
    "taken_at": "2026",
    "rows": {"/user": [{"name": "evil", "comment": "anycastlab:x"}]},
    "settings": {},
}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": 99}', '{"format": 1, "host": "x"}', "\x00", json.dumps(FOREIGN_BACKUP)],
)
def test_what_is_no_backup_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(RouterError, match="is not a router backup"):
        backups.load(path)


def test_a_router_that_stays_away_is_said_to_be_unchecked(tmp_path: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with home() as router:
        connection = faulty(router, 5, cut)
        planned = plan(connection, make_site())

        def gone(*_: Any) -> Transport:
            raise RouterError("Router cannot be reached.")

        original, connection._opener = connection._opener, gone
        assert original is not gone
        with pytest.raises(ApplyError, match="does not answer, so its state could not be checked") as caught:
            apply(
                connection,
                planned,
                tmp_path,
                site=make_site(),
                clock=Clock(monotonic=lambda: now[0], sleep=sleep),
            )
        assert not caught.value.restored


def test_a_redirect_undone_with_the_change_is_switched_again(tmp_path: Path) -> None:
    """The nodes died during the change: netwatch's own switching was undone with it."""
    plane = NullDataplane()

    def nodes_die(connection: Connection) -> None:
        for row in router.rows("/ip/firewall/nat"):
            if tag_of(row):
                connection.call("/ip/firewall/nat/enable", f"=numbers={row['.id']}")
        plane.notes["/tool/netwatch", "anycastlab"] = {"status": "down"}
        raise RouterError("no answer.")

    with home(dataplane=plane) as router:
        deploy(router, make_site(), tmp_path)
        with pytest.raises(ApplyError) as caught:
            deploy(router, make_site(nodes=2), tmp_path, check=nodes_die)
        assert caught.value.restored
        assert redirects(router) == ["false", "false"]


def redirects(router: RunningRouter) -> list[str]:
    return [row["disabled"] for row in router.rows("/ip/firewall/nat") if tag_of(row)]


@pytest.mark.parametrize("form", [{"dst-address": "10.1.9.53:53"}, {"dst-address": "10.1.9.53", "dst-port": "53"}])
@pytest.mark.parametrize(("status", "disabled"), [("down", "false"), ("up", "true")])
def test_a_redirect_that_is_not_as_netwatch_wants_it_is_planned_and_mended(
    tmp_path: Path, status: str, disabled: str, form: dict[str, str]
) -> None:
    """An administrator's safe mode took back what netwatch had done. Connections of before are forgotten with it."""
    plane = NullDataplane()
    site = make_site()
    with home(dataplane=plane) as router:
        deploy(router, site, tmp_path)
        connection = connect(router)
        for row in router.rows("/ip/firewall/nat"):
            if tag_of(row):
                verb = "disable" if status == "down" else "enable"
                connection.call(f"/ip/firewall/nat/{verb}", f"=numbers={row['.id']}")
        plane.notes["/tool/netwatch", "anycastlab"] = {"status": status}
        plane.runtime["/ip/firewall/connection"] = [{".id": "*1", **form}, {".id": "*2", "dst-address": "10.1.9.5:53"}]
        planned = plan(connection, site)
        told = render_text(planned.plan)
        assert told.count("disabled:") == 2
        assert f"netwatch gets {'no answer' if status == 'down' else 'answers'} from the nodes" in told
        assert observe(connection, site).redirect_wrong
        apply(connection, planned, tmp_path, site=site)
        assert redirects(router) == [disabled] * 2
        assert [row[".id"] for row in plane.runtime["/ip/firewall/connection"]] == ["*2"]
        assert not observe(connection, site).redirect_wrong
        assert plan(connection, site).plan.steps == ()
        connection.close()
