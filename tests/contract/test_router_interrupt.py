"""The real pyinfra command line against a slow router: Ctrl-C and kill in the middle of a change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anycastlab.virtual_router.dataplane.api import NullDataplane, Row
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router

REPOSITORY = Path(__file__).parents[2]
ENOUGH_WRITES = 8
MENUS = ["/ip/firewall/filter", "/ip/firewall/nat", "/routing/bgp/connection", "/ip/dns", "/ip/settings"]

INVENTORY = """
router = [("@routeros/127.0.0.1", {{"router_api_port": {port}, "router_tls": False, "router_user": "automation"}})]
"""
DEPLOY = """
import sys
sys.path.insert(0, {repository!r})
from anycastlab.routeros.operations import configure
from tests.unit.routeros.support import make_site
configure(site=make_site(), check=False)
"""


class Slow(NullDataplane):
    """Each write takes a moment, so that there is a middle."""

    def refuse(self, menu: str, row: Row) -> str | None:
        del menu, row
        time.sleep(0.05)
        return None


@pytest.fixture(params=["7.22.3", "7.16.2"])
def router(request: pytest.FixtureRequest) -> Iterator[RunningRouter]:
    with running_router(version=request.param, dataplane=Slow()) as running:
        yield running


@pytest.fixture
def pyinfra(router: RunningRouter, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "inventory.py").write_text(INVENTORY.format(port=router.port))
    (tmp_path / "deploy.py").write_text(DEPLOY.format(repository=str(REPOSITORY)))
    process = subprocess.Popen(
        [sys.executable, "-m", "pyinfra", "inventory.py", "deploy.py", "-y"],
        cwd=tmp_path,
        env={**os.environ, "ANYCASTLAB_STATE": str(tmp_path / "state"), "ANYCASTLAB_ROUTER_PASSWORD": PASSWORD},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def until_in_the_middle(router: RunningRouter, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 30
    while len(router.writes()) < ENOUGH_WRITES:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, "the change never began"
        time.sleep(0.02)


def state(router: RunningRouter) -> dict[str, list[dict[str, str]]]:
    return {menu: router.rows(menu) for menu in MENUS}


def test_ctrl_c_in_the_middle_leaves_the_router_as_before_and_says_so(
    router: RunningRouter, pyinfra: subprocess.Popen[str]
) -> None:
    before = state(router)
    until_in_the_middle(router, pyinfra)
    pyinfra.send_signal(signal.SIGINT)
    output, _ = pyinfra.communicate(timeout=30)
    assert f"interrupted: Router 127.0.0.1:{router.port} is as before." in output
    assert "Traceback" not in output
    assert PASSWORD not in output
    assert pyinfra.returncode == 130
    assert state(router) == before


def test_a_killed_run_is_undone_by_the_router_or_armed_to_be(
    router: RunningRouter, pyinfra: subprocess.Popen[str]
) -> None:
    before = state(router)
    until_in_the_middle(router, pyinfra)
    pyinfra.kill()
    pyinfra.communicate(timeout=30)
    if router.server.router.config.version.startswith("7.16"):
        (entry,) = router.rows("/system/scheduler")
        assert entry["name"] == "anycastlab-rollback"
        return
    end = time.monotonic() + 10
    while state(router) != before and time.monotonic() < end:
        time.sleep(0.1)
    assert state(router) == before
