"""Scripts at their times: when a row is due, with which rights it runs, and what the router adds to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router import limits
from anycastlab.virtual_router.scheduler import Plan
from anycastlab.virtual_router.testing import RunningRouter, running_router
from tests.unit.virtual_router.support import Client, connected

BOOT = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
SCHEDULER, SCRIPT, NAT = "/system/scheduler", "/system/script", "/ip/firewall/nat"


class Clock:
    """Local time that a test moves forward."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now().astimezone() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[RunningRouter]:
    monkeypatch.setattr(limits, "SCHEDULER_TICK", 0.02)
    rows = {NAT: [{"chain": "dstnat", "comment": "redirect", "disabled": "yes"}]}
    with running_router(rows=rows, clock=clock) as running:
        yield running


IN_A_WHILE = timedelta(minutes=10)


def soon() -> list[str]:
    at = datetime.now().astimezone() + IN_A_WHILE
    return [f"=start-date={at:%Y-%m-%d}", f"=start-time={at:%H:%M:%S}"]


def until(client: Client, menu: str, name: str, value: str, seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(row.get(name) == value for row in client.rows(f"{menu}/print")):
            return True
        time.sleep(0.02)
    return False


def until_run(client: Client, name: str, seconds: float = 5) -> bool:
    """At least once: on a busy machine the next run may come before the next look."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(row["name"] == name and int(row["run-count"]) for row in client.rows(f"{SCHEDULER}/print")):
            return True
        time.sleep(0.02)
    return False


def until_empty(client: Client, menu: str, seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while client.rows(f"{menu}/print") and time.monotonic() < deadline:
        time.sleep(0.02)
    return client.rows(f"{menu}/print") == []


@pytest.mark.parametrize(
    ("row", "now", "run"),
    [
        ({"start-date": "2026-11-29", "start-time": "12:10:00"}, 0, 600),
        ({"start-date": "2026-11-29", "start-time": "12:10:00"}, 600, None),
        ({"start-date": "2026-11-29", "start-time": "11:59:00"}, 0, None),
        ({"start-date": "2026-11-29", "start-time": "11:59:00", "interval": "5m"}, 0, 240),
        ({"start-date": "2026-11-29", "start-time": "12:10:00", "interval": "1m"}, 605, 660),
        ({"start-time": "startup"}, 0, 3),
        ({"start-time": "startup"}, 3, None),
        ({"start-time": "startup", "interval": "10s"}, 14, 23),
    ],
)
def test_the_next_run(row: dict[str, str], now: int, run: int | None) -> None:
    found = Plan.of(row, BOOT).after(BOOT + timedelta(seconds=now))
    assert found == (None if run is None else BOOT + timedelta(seconds=run))


@given(st.integers(-10_000, 10_000), st.integers(1, 5000))
def test_the_next_run_lies_ahead_on_the_grid_and_less_than_an_interval_away(now: int, interval: int) -> None:
    plan = Plan(BOOT, timedelta(seconds=interval))
    moment = BOOT + timedelta(seconds=now)
    found = plan.after(moment)
    assert found is not None
    assert found > moment
    assert (found - BOOT) % plan.interval == timedelta(0) if plan.interval else False
    assert found == BOOT or found - moment <= timedelta(seconds=interval)


def test_an_inline_script_runs_at_its_time_and_once(router: RunningRouter, clock: Clock) -> None:
    with connected(router, "automation") as client:
        source = f"{NAT}/enable [find comment=redirect]\n{SCHEDULER}/remove [find name=undo]"
        client.ret(f"{SCHEDULER}/add", "=name=undo", "=policy=read,write,test", f"=on-event={source}", *soon())
        assert "next-run" in client.rows(f"{SCHEDULER}/print")[0]
        assert not until(client, NAT, "disabled", "false", 0.2)
        clock.ahead = IN_A_WHILE
        assert until(client, NAT, "disabled", "false")
        assert until_empty(client, SCHEDULER)
    assert [row["user"] for row in router.writes()] == ["automation", "scheduler", "scheduler"]


def test_a_stored_script_is_run_by_name_with_the_rights_of_the_row(router: RunningRouter, clock: Clock) -> None:
    with connected(router) as client:
        client.ret(f"{SCRIPT}/add", "=name=on", "=policy=read,write", f"=source={NAT}/enable [find comment=redirect]")
        client.ret(f"{SCHEDULER}/add", "=name=weak", "=policy=read", "=on-event=on", "=interval=1s", *soon())
        clock.ahead = IN_A_WHILE
        assert until_run(client, "weak")
        assert client.rows(f"{NAT}/print")[0]["disabled"] == "true"
        client.ok(f"{SCHEDULER}/set", "=.id=weak", "=policy=read,write")
        clock.ahead += timedelta(seconds=1)
        assert until(client, NAT, "disabled", "false")


def test_a_failing_script_is_logged(router: RunningRouter, clock: Clock) -> None:
    with connected(router) as client:
        client.ret(f"{SCHEDULER}/add", "=name=bad", "=on-event=/nonsense/print", *soon())
        clock.ahead = IN_A_WHILE
        deadline = time.monotonic() + 6
        failed: list[str] = []
        while not failed and time.monotonic() < deadline:
            failed = [row["message"] for row in client.rows("/log/print") if "scheduler (bad) failed" in row["message"]]
            time.sleep(0.02)
        assert failed
        assert "no such command prefix" in failed[0]


def test_device_mode_home_takes_the_row_and_never_runs_it(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(limits, "SCHEDULER_TICK", 0.02)
    with running_router(device_mode="home", clock=clock) as router, connected(router) as client:
        assert client.rows("/system/device-mode/print")[0]["scheduler"] == "false"
        client.ret(f"{SCHEDULER}/add", "=name=never", "=on-event=:log info ran", "=interval=1s", *soon())
        clock.ahead = IN_A_WHILE
        assert not until(client, "/log", "message", "ran", 0.3)


def test_the_router_fills_in_who_when_and_what_rights(router: RunningRouter) -> None:
    with connected(router, "automation") as client:
        client.ret(f"{SCHEDULER}/add", "=name=x")
        (row,) = client.rows(f"{SCHEDULER}/print")
        assert row["owner"] == "automation"
        assert row["policy"] == "read,write,test,sensitive"
        assert row["start-date"] == f"{datetime.now().astimezone():%Y-%m-%d}"
        assert client.refusal(f"{SCHEDULER}/add", "=name=y", "=policy=reboot") == "not enough permissions (9)"
        assert (
            client.refusal(f"{SCHEDULER}/add", "=name=y", "=start-time=soon") == "invalid value for argument start-time"
        )


def test_a_script_is_run_on_demand_by_those_who_have_its_rights(router: RunningRouter) -> None:
    with connected(router) as admin, connected(router, "automation") as other:
        number = admin.ret(f"{SCRIPT}/add", "=name=on", f"=source={NAT}/enable [find comment=redirect]")
        assert other.refusal(f"{SCRIPT}/run", "=number=on") == "not enough permissions (9)"
        admin.ok(f"{SCRIPT}/run", f"=.id={number}")
        assert admin.rows(f"{NAT}/print")[0]["disabled"] == "false"
        assert admin.refusal(f"{SCRIPT}/run", "=number=nosuch") == "no such item"
        admin.ok(f"{SCRIPT}/set", "=.id=on", "=source=:error broken")
        assert admin.refusal(f"{SCRIPT}/run", "=number=on") == "broken"
