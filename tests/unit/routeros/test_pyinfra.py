"""The router as pyinfra sees it: connector, facts, operations, against a router in this process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import Config, Inventory, State
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops
from pyinfra.api.state import StateStage
from pyinfra.connectors import util as connector_util
from pyinfra.context import ctx_host, ctx_state

from anycastlab.routeros.facts import RouterVersion
from anycastlab.routeros.operations import configure, look_first, remove
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.unit.routeros.support import make_site

HOST = "@routeros/127.0.0.1"


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    monkeypatch.delenv("ANYCASTLAB_ROUTER_USER", raising=False)
    monkeypatch.delenv("ANYCASTLAB_ROUTER_PASSWORD", raising=False)
    return tmp_path


@pytest.fixture
def router() -> Iterator[RunningRouter]:
    with running_router() as running:
        yield running


def run(
    port: int, operation: Any = None, dry: bool = False, diff: bool = False, yes: bool = False, **data: Any
) -> tuple[State, Any]:
    """Connect, prepare and (unless dry) execute, as the command line does."""
    data = {
        "router_api_port": port,
        "router_tls": False,
        "router_user": "automation",
        "router_password": PASSWORD,
        **data,
    }
    inventory = Inventory(([(HOST, data)], {}))
    state = State(inventory, Config(DIFF=diff))
    state.check_for_changes = not yes
    state.current_stage = StateStage.Connect
    connect_all(state)
    if operation is None:
        return state, None
    state.current_stage = StateStage.Prepare
    function, arguments = operation
    meta = add_op(state, function, **arguments)
    (op,) = meta.values()
    try:
        if not dry:
            state.current_stage = StateStage.Execute
            run_ops(state)
    finally:
        for host in inventory:
            host.disconnect()
    return state, op


def deploy(router: RunningRouter, **options: Any) -> Any:
    return run(router.port, (configure, {"site": make_site(), "check": False}), **options)[1]


def test_a_deploy_configures_the_router_and_a_second_one_changes_nothing(router: RunningRouter) -> None:
    assert deploy(router).did_change()
    writes = len(router.writes())
    assert writes > 20
    again = deploy(router)
    assert again.did_succeed()
    assert not again.did_change()
    assert len(router.writes()) == writes


class Listener:
    """Hears what operations tell."""

    def __init__(self) -> None:
        self.summary = ""
        self.details = ""

    def change(self, host: str, summary: str, details: list[str]) -> None:
        assert host
        self.summary, self.details = summary, "\n".join(details)

    def outcome(self, words: str) -> None:
        raise AssertionError(f"nothing has come to an end: {words}")

    def closing(self, sentence: str) -> None:
        raise AssertionError(f"nothing has come to an end: {sentence}")


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    heard = Listener()
    monkeypatch.setattr("anycastlab.tell._teller", heard)
    return heard


def test_a_dry_run_shows_the_plan_and_writes_nothing(router: RunningRouter, listener: Listener) -> None:
    op = deploy(router, dry=True, diff=True)
    assert op.will_change
    assert re.fullmatch(r"\d+ to add, \d+ to change", listener.summary)
    shown = listener.details
    assert "+ anycastlab:connection:node01" in shown
    assert "ipv4-multipath-hash-policy: l3 -> l4" in shown
    assert router.writes() == []


def test_removal_leaves_no_row_and_gives_settings_back(router: RunningRouter) -> None:
    before = {menu: router.rows(menu) for menu in ("/ip/settings", "/ip/dns", "/ip/firewall/filter")}
    deploy(router)
    assert router.rows("/ip/dns") != before["/ip/dns"]
    _, op = run(router.port, (remove, {"site": make_site()}))
    assert op.did_change()
    assert {menu: router.rows(menu) for menu in before} == before
    assert router.rows("/routing/bgp/connection") == []


def test_a_router_that_does_not_exist_yet_still_gives_a_full_plan(listener: Listener) -> None:
    site = make_site()
    _, op = run(
        1,
        (configure, {"site": site, "check": False}),
        dry=True,
        diff=True,
        routeros_may_be_absent=True,
        router_version="7.22.3",
    )
    assert op.will_change
    shown = listener.details
    assert "anycastlab:connection:node03" in shown
    assert "multipath: 8" in shown


def test_a_real_router_that_is_not_there_is_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PyinfraError):
        run(1)
    assert "No API service answers at 127.0.0.1:1" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_wrong_password_is_said_when_connecting(router: RunningRouter, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PyinfraError):
        run(router.port, router_password="falsch-4711")
    assert "does not accept user automation" in caplog.text
    assert "falsch" not in caplog.text


def test_without_credentials_the_way_to_give_them_is_named(
    router: RunningRouter, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PyinfraError):
        run(router.port, router_password=None)
    assert "ANYCASTLAB_ROUTER_PASSWORD" in caplog.text


def test_a_failed_change_fails_the_operation_with_a_sentence(
    router: RunningRouter, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PyinfraError):
        run(router.port, (configure, {"site": make_site(), "check": False}), router_user="reader")
    assert "lacks the policies write, test" in caplog.text
    assert "Traceback" not in caplog.text
    assert router.writes() == []


def test_the_connector_speaks_json_both_ways(router: RunningRouter) -> None:
    state, _ = run(router.port)
    (host,) = state.inventory
    ok, output = host.run_shell_command(json.dumps(["/system/identity/print"]))
    assert ok
    assert json.loads(output.stdout) == {"name": "router"}
    ok, output = host.run_shell_command(json.dumps([["/system/identity/print"], ["/no/such/menu/print"]]))
    assert ok
    assert [json.loads(line) for line in output.stdout_lines] == [[{"name": "router"}], None]
    with ctx_state.use(state), ctx_host.use(host):
        assert host.get_fact(RouterVersion) == "7.22.3 (stable)"
    host.disconnect()


@pytest.mark.parametrize("command", ["uname -a", "[]", '["uname"]', '{"a": 1}', "[[]]"])
def test_what_is_no_router_command_is_refused_in_words(router: RunningRouter, command: str) -> None:
    state, _ = run(router.port)
    (host,) = state.inventory
    ok, output = host.run_shell_command(command)
    assert not ok
    assert "command" in output.stderr
    assert isinstance(output, connector_util.CommandOutput)
    host.disconnect()


FORCED = {"chain": "dstnat", "action": "redirect", "protocol": "udp", "dst-port": "53", "to-ports": "53"}
IN_OUR_CHAIN = {"chain": "anycastlab-in", "rule": "accept"}


@pytest.mark.parametrize("operation", [look_first, configure])
def test_a_refused_plan_is_a_sentence_and_writes_nothing(
    router: RunningRouter, operation: Any, caplog: pytest.LogCaptureFixture
) -> None:
    router.give("/routing/filter/rule", IN_OUR_CHAIN)
    with pytest.raises(PyinfraError):
        run(router.port, (operation, {"site": make_site()}), yes=True)
    assert "a filter rule that is not ours is in our chain" in caplog.text
    assert "Traceback" not in caplog.text
    assert router.writes() == []


def test_what_is_in_the_way_of_a_change_is_said_before_it(
    router: RunningRouter, caplog: pytest.LogCaptureFixture
) -> None:
    router.give("/ip/firewall/nat", FORCED)
    with pytest.raises(PyinfraError):
        run(router.port, (look_first, {"site": make_site()}), yes=True)
    assert "sends the questions of 10.1.1.0/24 to 10.1.9.53 to the router itself" in caplog.text
    assert "Nothing was changed." in caplog.text
    assert router.writes() == []


def test_what_came_into_the_way_later_fails_the_routers_turn_and_is_no_change(
    router: RunningRouter, caplog: pytest.LogCaptureFixture
) -> None:
    deploy(router)
    writes = len(router.writes())
    router.give("/ip/firewall/nat", FORCED)
    _, op = run(router.port, (look_first, {"site": make_site()}), yes=True)
    assert op.did_succeed()
    with pytest.raises(PyinfraError):
        deploy(router, yes=True)
    assert "/ip/firewall/nat *" in caplog.text
    assert len(router.writes()) == writes


def test_a_router_that_this_run_makes_is_not_looked_at_first() -> None:
    _, op = run(9, (look_first, {"site": make_site()}), yes=True, routeros_may_be_absent=True)
    assert op.did_succeed()
    assert not op.did_change()
