"""A row that a person handed over by our comment is given back as it was; one that we made goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anycastlab.routeros import backup as backups
from anycastlab.routeros import originals
from anycastlab.routeros.apply import apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.planning import plan_removal, plan_restore, plan_site
from anycastlab.routeros.reading import read
from anycastlab.routeros.render import render_text
from anycastlab.site.model import Site
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.unit.routeros.support import make_site

NETWORK = "/ip/dhcp-server/network"
TAG = "anycastlab:dhcp:10.1.1.0/24"
MINE = {
    "address": "10.1.1.0/24",
    "gateway": "10.1.1.254",
    "dns-server": "10.1.1.1,9.9.9.9",
    "domain": "home.arpa",
    "comment": "defconf",
}
WITH, WITHOUT = make_site(router={"dhcp_network": "10.1.1.0/24"}), make_site()


class Home:
    """A router and the control machine's record of it."""

    def __init__(self, router: RunningRouter, state: Path) -> None:
        self.router, self.state = router, state
        self.connection = Connection(Target(router.host, router.port, "automation", PASSWORD, tls=False))

    def up(self, site: Site) -> str:
        planned = plan_site(site, read(self.connection), originals.load(self.state, self.connection.host))
        if planned.changes:
            originals.remember(self.state, planned)
            apply(self.connection, planned, self.state, site=site)
            originals.settle(self.state, planned)
        return render_text(planned.plan)

    def down(self) -> None:
        known = originals.load(self.state, self.connection.host)
        apply(self.connection, plan_removal(WITHOUT, read(self.connection), known), self.state)
        originals.forget(self.state, self.connection.host)

    def network(self) -> list[dict[str, str]]:
        names = (".id", *MINE)
        return [{name: row[name] for name in names if name in row} for row in self.router.rows(NETWORK)]

    def hand_over(self) -> None:
        (row,) = self.router.rows(NETWORK)
        self.connection.set(NETWORK, row[".id"], {"comment": f"{TAG} {row.get('comment', '')}".strip()})


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with running_router(rows={NETWORK: (MINE,)}) as router:
        found = Home(router, tmp_path)
        yield found
        found.connection.close()


def test_a_network_that_was_handed_over_gets_its_old_values_back(home: Home) -> None:
    before = home.network()
    home.hand_over()
    home.up(WITH)
    (row,) = home.network()
    assert (row["dns-server"], row["gateway"], row["comment"]) == ("10.1.9.53", "10.1.1.1", f"{TAG} defconf")
    shown = home.up(WITHOUT)
    assert "as it was before it was handed over" in shown
    assert home.network() == before
    assert home.up(WITHOUT).endswith("nothing to change.")


def test_it_is_given_back_by_a_teardown_and_each_time_as_it_was_then(home: Home) -> None:
    home.hand_over()
    home.up(WITH)
    home.up(WITHOUT)
    (row,) = home.network()
    home.connection.set(NETWORK, row[".id"], {"dns-server": "9.9.9.9"})
    home.hand_over()
    home.up(WITH)
    home.down()
    (row,) = home.network()
    assert (row["dns-server"], row["gateway"], row["comment"]) == ("9.9.9.9", "10.1.1.254", "defconf")


def test_one_that_was_as_we_want_it_already_stays_and_only_loses_the_tag(home: Home) -> None:
    home.up(WITHOUT)
    (row,) = home.network()
    home.connection.set(NETWORK, row[".id"], {"dns-server": "10.1.9.53", "gateway": "10.1.1.1"})
    home.hand_over()
    assert NETWORK not in home.up(WITH)
    home.up(WITHOUT)
    (row,) = home.network()
    assert (row["dns-server"], row["domain"], row["comment"]) == ("10.1.9.53", "home.arpa", "defconf")


def test_one_that_we_made_goes(tmp_path: Path) -> None:
    with running_router() as router:
        home = Home(router, tmp_path)
        home.up(WITH)
        assert len(home.network()) == 1
        home.up(WITHOUT)
        assert home.network() == []
        home.connection.close()


def test_what_another_control_machine_made_goes_too(home: Home, tmp_path: Path) -> None:
    home.up(make_site(nodes=2))
    other = Home(home.router, tmp_path / "other")
    other.up(make_site(nodes=3))
    other.connection.close()
    home.up(make_site(nodes=2))
    names = [row["name"] for row in home.router.rows("/routing/bgp/connection")]
    assert names == ["anycastlab-node01", "anycastlab-node02"]


def test_a_backup_of_before_gives_a_handed_over_row_back(home: Home) -> None:
    home.up(WITHOUT)
    before = home.network()
    home.hand_over()
    saved = backups.take(read(home.connection), backups.now())
    saved = replace(saved, rows={menu: rows for menu, rows in saved.rows.items() if menu != NETWORK})
    home.up(WITH)
    known = originals.load(home.state, home.connection.host)
    apply(home.connection, plan_restore(saved, read(home.connection), known), home.state)
    assert home.network() == before


def test_without_a_record_a_row_of_a_running_home_counts_as_ours(home: Home) -> None:
    home.hand_over()
    home.up(WITH)
    originals.forget(home.state, home.connection.host)
    home.up(WITHOUT)
    assert home.network() == []


def test_the_record_is_nobody_else_s_to_read(home: Home) -> None:
    home.hand_over()
    home.up(WITH)
    (file,) = home.state.glob("routers/*/settings-before.json")
    assert file.stat().st_mode & 0o777 == 0o600
