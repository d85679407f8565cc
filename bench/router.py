"""What the router costs: a run that changes nothing, as a whole process and inside, and a plan among 5,000 rules.

The router is the stand-in's API without a data plane, in this process: what is measured is our side, and the API's. A
board answers more slowly; the round trips are what it would be asked.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from anycastlab.routeros.apply import apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import fresh, read
from anycastlab.site.model import Site
from anycastlab.site.parts import Node, Resolver, Router
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router

RUNS = 7
FOREIGN_RULES = 5000
_FILTER = "/ip/firewall/filter"

_INVENTORY = """
router = [("@routeros/127.0.0.1", {{"router_api_port": {port}, "router_tls": False, "router_user": "automation"}})]
"""
_DEPLOY = """
import sys
sys.path.insert(0, {repository!r})
from anycastlab.routeros.operations import configure
from bench.router import site
configure(site=site(), check=False)
"""


def run() -> dict[str, Any]:
    with running_router() as router, tempfile.TemporaryDirectory() as folder:
        connection = _configured(router, Path(folder))

        def whole() -> None:
            plan = plan_site(site(), read(connection))
            assert not plan.changes

        inside = _median(whole)
        connection.close()
        process = _pyinfra(router, Path(folder))
        before = router.server.router.counters.sentences
        process()
        sentences = router.server.router.counters.sentences - before
        return {
            "no_change_s": _median(process),
            "no_change_round_trips": _round_trips(router),
            "no_change_sentences": sentences,
            "read_and_plan_s": inside,
            "plan_among_5000_rules_s": _crowded(),
            "read_and_plan_among_5000_rules_s": _crowded_over_the_api(),
        }


def _round_trips(router: RunningRouter) -> int:
    """What a whole run waits for: log-in, and reading once to plan and once more to execute."""
    connection = Connection(Target(router.host, router.port, "automation", PASSWORD, tls=False))
    for _ in ("prepare", "execute"):
        plan_site(site(), read(connection))
    connection.close()
    return connection.round_trips


def site(nodes: int = 3) -> Site:
    """The lab's site with so many nodes."""
    members = tuple(
        Node(
            name=f"node{number:02}",
            host=f"@incus/node{number:02}",
            platform="incus",
            address=IPv4Address(f"10.1.2.{10 + number}"),
            prefix_length=24,
            gateway=IPv4Address("10.1.2.1"),
            router_id=IPv4Address(f"10.1.2.{10 + number}"),
        )
        for number in range(1, nodes + 1)
    )
    return Site(
        resolver=Resolver(upstreams=("203.0.113.53",), router_dns=IPv4Address("10.1.2.1")),
        nodes=members,
        router=Router(
            host="@routeros/127.0.0.1",
            api_host="127.0.0.1",
            api_port=8728,
            tls=False,
            router_id=IPv4Address("10.1.1.1"),
            lan_networks=(IPv4Network("10.1.1.0/24"),),
            wan_interface="ether1-wan",
        ),
    )


def _configured(router: RunningRouter, state: Path) -> Connection:
    connection = Connection(Target(router.host, router.port, "automation", PASSWORD, tls=False))
    planned = plan_site(site(), read(connection))
    if planned.changes:
        apply(connection, planned, state, site=site())
    return connection


def _pyinfra(router: RunningRouter, folder: Path) -> Callable[[], object]:
    (folder / "inventory.py").write_text(_INVENTORY.format(port=router.port))
    (folder / "deploy.py").write_text(_DEPLOY.format(repository=str(Path(__file__).parents[1])))
    environment = {**os.environ, "ANYCASTLAB_STATE": str(folder), "ANYCASTLAB_ROUTER_PASSWORD": PASSWORD}
    command = [sys.executable, "-m", "pyinfra", "inventory.py", "deploy.py", "-y"]
    return lambda: subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def _rules() -> list[dict[str, str]]:
    return [
        {
            "chain": ("input", "forward")[number % 2],
            "action": "drop" if number > 40 else "accept",
            "src-address": f"10.{number // 250}.{number % 250}.1",
        }
        for number in range(FOREIGN_RULES)
    ]


def _crowded() -> float:
    reading = fresh("7.22.3")
    reading = type(reading)(
        reading.version,
        {**reading.menus, _FILTER: [{".id": f"*{number:X}", **row} for number, row in enumerate(_rules(), 1)]},
    )
    return _median(lambda: plan_site(site(), reading))


def _crowded_over_the_api() -> float:
    with running_router(rows={_FILTER: _rules()}) as router, tempfile.TemporaryDirectory() as folder:
        connection = _configured(router, Path(folder))
        taken = _median(lambda: plan_site(site(), read(connection)))
        connection.close()
        return taken


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
