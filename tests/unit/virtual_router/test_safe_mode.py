"""Safe mode: undone when its session is lost, kept when it is released, and its limits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from anycastlab.virtual_router import limits
from anycastlab.virtual_router.testing import RunningRouter, running_router
from tests.unit.virtual_router.support import Client, connected

LIST = "/ip/firewall/address-list"


@pytest.fixture
def router() -> Iterator[RunningRouter]:
    with running_router(rows={LIST: [{"list": "before", "address": "10.0.0.1"}]}) as running:
        yield running


def lists(router: RunningRouter) -> list[str]:
    return [row["list"] for row in router.rows(LIST)]


def add(client: Client, name: str, address: str = "10.0.0.2") -> str:
    return client.ret(f"{LIST}/add", f"=list={name}", f"=address={address}")


def gone(router: RunningRouter, name: str) -> bool:
    deadline = time.monotonic() + 3
    while name in lists(router) and time.monotonic() < deadline:
        time.sleep(0.02)
    return name not in lists(router)


def test_losing_the_session_undoes_everything_since_the_take(router: RunningRouter) -> None:
    client = Client(router).login()
    client.ok("/safe-mode/take")
    add(client, "mine")
    client.ok(f"{LIST}/remove", "=.id=*1")
    client.ok("/ip/settings/set", "=send-redirects=no")
    client.close()
    assert gone(router, "mine")
    assert lists(router) == ["before"]
    assert router.rows("/ip/settings")[0]["send-redirects"] == "true"


def test_losing_it_undoes_other_sessions_changes_too(router: RunningRouter) -> None:
    with connected(router) as other:
        client = Client(router).login()
        client.ok("/safe-mode/take")
        add(other, "others")
        client.close()
        assert gone(router, "others")


def test_a_release_keeps_the_changes(router: RunningRouter) -> None:
    client = Client(router).login()
    client.ok("/safe-mode/take")
    add(client, "mine")
    client.ok("/safe-mode/release")
    client.close()
    time.sleep(0.2)
    assert lists(router) == ["before", "mine"]


def test_an_unroll_undoes_and_the_session_goes_on(router: RunningRouter) -> None:
    with connected(router) as client:
        client.ok("/safe-mode/take")
        add(client, "mine")
        client.ok("/safe-mode/unroll")
        assert lists(router) == ["before"]
        assert client.rows("/safe-mode/print") == [{"enabled": "false", "current": "false"}]
        assert client.refusal("/safe-mode/unroll") == "Safe Mode has not been taken. Action aborted."


def test_quit_keeps_the_changes(router: RunningRouter) -> None:
    client = Client(router).login()
    client.ok("/safe-mode/take")
    add(client, "mine")
    client.talk("/quit")
    client.close()
    time.sleep(0.2)
    assert lists(router) == ["before", "mine"]


def test_on_error_release_keeps_them_when_the_session_is_lost(router: RunningRouter) -> None:
    client = Client(router).login()
    client.ok("/safe-mode/take", "=on-error=release")
    add(client, "mine")
    client.close()
    time.sleep(0.2)
    assert lists(router) == ["before", "mine"]
    with connected(router) as other:
        assert other.refusal("/safe-mode/take", "=on-error=explode") == "input does not match any value of on-error"


def test_one_session_holds_it_and_the_others_are_told_who(router: RunningRouter) -> None:
    with connected(router) as holder, connected(router) as same, connected(router, "automation") as another:
        holder.ok("/safe-mode/take")
        holder.ok("/safe-mode/take")
        assert (
            same.refusal("/safe-mode/take") == "Safe Mode is taken by current user in another session. Action aborted."
        )
        assert another.refusal("/safe-mode/take") == "Safe Mode is taken by another user (admin). Action aborted."
        assert another.refusal("/safe-mode/release") == "Safe Mode has not been taken. Action aborted."
        assert holder.rows("/safe-mode/print") == [
            {"enabled": "true", "user": "admin", "current": "true", "owner": "api"}
        ]
        assert same.rows("/safe-mode/print")[0]["current"] == "false"
        holder.ok("/safe-mode/release")
        another.ok("/safe-mode/take")


def test_a_stale_hold_of_a_silent_session_blocks_until_it_ends(router: RunningRouter) -> None:
    stale = Client(router).login()
    stale.ok("/safe-mode/take")
    with connected(router) as client:
        client.refusal("/safe-mode/take")
        stale.close()
        deadline = time.monotonic() + 3
        while client.rows("/safe-mode/print")[0]["enabled"] == "true" and time.monotonic() < deadline:
            time.sleep(0.02)
        client.ok("/safe-mode/take")


def test_too_many_changes_leave_safe_mode_with_nothing_undone(router: RunningRouter) -> None:
    client = Client(router).login()
    client.ok("/safe-mode/take")
    for number in range(limits.SAFE_MODE_ACTIONS):
        add(client, "many", f"10.9.0.{number}")
    assert client.rows("/safe-mode/print")[0]["enabled"] == "true"
    assert len(client.rows("/system/history/print", "?floating-undo=true")) == limits.SAFE_MODE_ACTIONS
    add(client, "many", "10.9.1.1")
    assert client.rows("/safe-mode/print")[0]["enabled"] == "false"
    client.close()
    time.sleep(0.2)
    assert lists(router).count("many") == limits.SAFE_MODE_ACTIONS + 1


@pytest.mark.parametrize("version", ["7.16.2", "7.17.2"])
def test_before_7_18_there_is_none(version: str) -> None:
    with running_router(version=version) as router, connected(router) as client:
        assert client.refusal("/safe-mode/take") == "no such command prefix"
