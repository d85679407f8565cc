"""Plan, restore and verify without pyinfra, with credentials from the private file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anycastlab.routeros.apply import apply
from anycastlab.routeros.control import plan_restore_router, plan_router, restore_router, router_session, verify_router
from anycastlab.routeros.credentials import store_credentials
from anycastlab.routeros.errors import RouterDenied, RouterError
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
