"""Plan, restore and verify without pyinfra, with credentials from the private file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anycastlab.routeros.apply import apply
from anycastlab.routeros.control import plan_restore_router, plan_router, restore_router, router_session, verify_router
from anycastlab.routeros.credentials import store_credentials
from anycastlab.routeros.errors import RouterDenied, RouterError
from anycastlab.routeros.render import render_warning
from anycastlab.site.model import Site
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.unit.routeros.support import make_site


@pytest.fixture
def router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningRouter]:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    monkeypatch.delenv("ANYCASTLAB_ROUTER_PASSWORD", raising=False)
    monkeypatch.delenv("ANYCASTLAB_ROUTER_USER", raising=False)
    store_credentials("127.0.0.1", "automation", PASSWORD, tmp_path)
    with running_router() as running:
        yield running


def site_of(router: RunningRouter, nodes: int = 3) -> Site:
    return make_site(nodes=nodes, router={"api_port": router.port})


def test_a_plan_is_only_read(router: RunningRouter) -> None:
    assert plan_router(site_of(router)).changes
    assert router.writes() == []


def test_a_restore_is_shown_first_then_done_then_needs_nothing(router: RunningRouter, tmp_path: Path) -> None:
    with router_session(site_of(router).router) as connection:
        apply(connection, plan_router(site_of(router)), tmp_path, site=site_of(router))
        path = apply(connection, plan_router(site_of(router, nodes=1)), tmp_path).backup
    assert len(router.rows("/routing/bgp/connection")) == 1
    assert plan_restore_router(site_of(router), path).changes
    assert len(router.rows("/routing/bgp/connection")) == 1
    assert restore_router(site_of(router), path) is not None
    assert len(router.rows("/routing/bgp/connection")) == 3
    assert restore_router(site_of(router), path) is None


def a_backup_of_nothing(router: RunningRouter, state: Path) -> Path:
    with router_session(site_of(router).router) as connection:
        return apply(connection, plan_router(site_of(router)), state, site=site_of(router)).backup


def test_what_a_restore_takes_away_is_told(router: RunningRouter, tmp_path: Path) -> None:
    planned = plan_restore_router(site_of(router), a_backup_of_nothing(router, tmp_path))
    (removed, connections, *_) = render_warning(planned.plan)
    assert "rows will be removed from the router: " in removed
    assert "anycastlab:netwatch" in removed
    assert connections == "Nodes whose BGP connection is removed serve nobody afterwards."


def test_only_what_was_shown_is_restored(router: RunningRouter, tmp_path: Path) -> None:
    path = a_backup_of_nothing(router, tmp_path)
    shown = plan_restore_router(site_of(router), path)
    with router_session(site_of(router).router) as connection:
        apply(connection, plan_router(site_of(router, nodes=1)), tmp_path)
    writes = len(router.writes())
    with pytest.raises(RouterError, match="was changed by somebody else since the plan was shown"):
        restore_router(site_of(router), path, shown=shown)
    assert len(router.writes()) == writes


INVENTORY = """\
nodes = [("127.0.0.9", {"node_name": "node01", "address": "10.1.2.11", "prefix_length": 24, "gateway": "10.1.2.1"})]
router = [("@routeros/127.0.0.1", {"router_api_port": PORT, "router_tls": False, "router_id": "10.1.2.1",
    "lan_networks": ["10.1.1.0/24", "10.1.2.0/24"], "wan_interface": "ether1-wan", "router_dns": "10.1.1.1"})]
"""


def test_the_command_refuses_without_a_terminal_and_does_it_when_told(router: RunningRouter, tmp_path: Path) -> None:
    path = a_backup_of_nothing(router, tmp_path)
    writes = len(router.writes())
    inventory = tmp_path / "home.py"
    inventory.write_text(INVENTORY.replace("PORT", str(router.port)))
    command = [str(Path(sys.executable).with_name("anycastlab")), "router", "restore", "-i", str(inventory), str(path)]

    def restore(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
        )

    refused = restore()
    assert refused.returncode == 1
    assert "rows will be removed from the router" in refused.stderr
    assert "There is no terminal to ask on, so nothing was changed. Add -y if this is meant." in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(router.writes()) == writes
    done = restore("-y")
    assert done.returncode == 0, done.stderr
    assert router.rows("/routing/bgp/connection") == []


def test_a_wrong_path_is_a_sentence(router: RunningRouter, tmp_path: Path) -> None:
    with pytest.raises(RouterError, match="cannot be read"):
        restore_router(site_of(router), tmp_path / "nothing.json")


def test_verification_of_an_unconfigured_router_says_so(router: RunningRouter) -> None:
    outcome = verify_router(site_of(router), timeout_s=0)
    assert not outcome.ok
    assert any("its connection is not on the router" in finding.text for finding in outcome.failures)
    assert outcome.to_json()["ok"] is False


def test_without_credentials_there_is_a_sentence(router: RunningRouter, tmp_path: Path) -> None:
    (tmp_path / "router-credentials.json").unlink()
    with pytest.raises(RouterDenied, match="There is no password for router"):
        plan_router(site_of(router))
