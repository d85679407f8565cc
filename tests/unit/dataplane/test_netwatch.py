"""Netwatch: the state machine alone, and the runner with a tester in memory."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router.dataplane import timing
from anycastlab.virtual_router.dataplane.netwatch import MENU, Entry, Netwatch, refuse
from anycastlab.virtual_router.dataplane.watcher import Watcher

from .fake_console import FakeConsole

ROW = {
    ".id": "*1",
    "type": "dns",
    "host": "id.anycast.lan",
    "dns-server": "10.1.9.53",
    "interval": "2s",
    "timeout": "500ms",
    "up-script": "up",
    "down-script": "down",
}
ENTRY = Entry.from_row(ROW, startup_delay_s=0.0)


def started(entry: Entry = ENTRY) -> Netwatch:
    machine = Netwatch()
    machine.update([entry], now=0.0, wall=1000.0)
    return machine


def test_a_row_without_times_has_the_router_s_own() -> None:
    entry = Entry.from_row({".id": "*1", "host": "10.1.2.11"})
    assert (entry.kind, entry.interval_s, entry.timeout_s, entry.startup_delay_s, entry.start_delay_s) == (
        "simple",
        10.0,
        3.0,
        300.0,
        3.0,
    )


def test_after_the_boot_it_waits_startup_delay_and_later_start_delay() -> None:
    machine = Netwatch()
    machine.update([Entry.from_row(ROW)], now=0.0, wall=0.0)
    assert machine.next_at() == 300.0
    machine.update([Entry.from_row(ROW), Entry.from_row({**ROW, ".id": "*2"})], now=10.0, wall=10.0)
    assert machine.next_at() == 13.0
    assert [entry.id for entry in machine.due(13.0)] == ["*2"]


def test_a_test_is_due_every_interval_and_never_twice_at_a_time() -> None:
    machine = started()
    assert machine.due(0.0) == [ENTRY]
    assert machine.due(100.0) == []
    machine.finish(ENTRY, True, 1000.1)
    assert machine.next_at() == 2.0
    assert machine.due(1.9) == []
    assert machine.due(2.0) == [ENTRY]


def test_scripts_run_on_changes_only() -> None:
    machine = started()
    changes = [machine.finish(ENTRY, up, 1000.0 + n) for n, up in enumerate((True, True, False, False, True))]
    assert [change.scripts if change else () for change in changes] == [("up",), (), ("down",), (), ("up",)]
    assert machine.runtime(ROW) == {
        "status": "up",
        "since": "1970-01-01 00:16:44",
        "done-tests": "5",
        "failed-tests": "2",
    }


@pytest.mark.parametrize(("first", "ignored"), [(True, "ignore_initial_up"), (False, "ignore_initial_down")])
def test_the_first_result_may_be_told_not_to_run_its_script(first: bool, ignored: str) -> None:
    entry = replace(ENTRY, ignore_initial_up=ignored.endswith("up"), ignore_initial_down=ignored.endswith("down"))
    machine = started(entry)
    change = machine.finish(entry, first, 1.0)
    assert change is not None
    assert change.scripts == ()
    change = machine.finish(entry, not first, 2.0)
    assert change is not None
    assert change.scripts == (("down",) if first else ("up",))


def test_a_changed_entry_starts_again_and_an_unchanged_one_goes_on() -> None:
    machine = started()
    machine.finish(ENTRY, True, 1001.0)
    machine.update([Entry.from_row({**ROW, "since": "new", "status": "up"}, 0.0)], now=5.0, wall=1005.0)
    assert machine.runtime(ROW)["status"] == "up"
    changed = Entry.from_row({**ROW, "timeout": "400ms"}, 0.0)
    machine.update([changed], now=5.0, wall=1005.0)
    assert machine.runtime(ROW)["status"] == "unknown"
    assert machine.next_at() == 5.0 + timing.START_DELAY_S
    # A late result of the old entry counts for nothing.
    assert machine.finish(ENTRY, False, 1006.0) is None
    assert machine.runtime(ROW)["done-tests"] == "0"


def test_a_change_that_was_taken_back_at_once_starts_the_entry_again() -> None:
    """Switched off and on before the rows were applied: the row is the same, its revision is not."""
    entry = Entry.from_row({**ROW, ".revision": "0"}, 0.0)
    machine = started(entry)
    machine.finish(entry, True, 1001.0)
    machine.update([Entry.from_row({**ROW, ".revision": "2"}, 0.0)], now=5.0, wall=1005.0)
    assert machine.runtime(ROW)["status"] == "unknown"


def test_a_removed_or_disabled_entry_is_forgotten() -> None:
    machine = started()
    machine.update([], now=1.0, wall=1.0)
    assert machine.next_at() is None
    assert machine.runtime(ROW) == {"status": "unknown"}


@given(st.lists(st.booleans(), max_size=40))
def test_scripts_alternate_and_counters_add_up(results: list[bool]) -> None:
    machine = started()
    ran = []
    for up in results:
        change = machine.finish(ENTRY, up, 0.0)
        ran += change.scripts if change else []
    assert all(first != second for first, second in itertools.pairwise(ran))
    assert len(ran) == sum(a != b for a, b in zip([None, *results], results, strict=False))
    runtime = machine.runtime(ROW)
    assert int(runtime["done-tests"]) == len(results)
    assert int(runtime["failed-tests"]) == results.count(False)


@given(st.lists(st.floats(0.0, 30.0), min_size=1, max_size=20))
def test_late_results_never_make_tests_run_faster_than_the_interval(delays: list[float]) -> None:
    machine = started()
    now, starts = 0.0, []
    for delay in delays:
        due_at = machine.next_at()
        assert due_at is not None
        now = max(now, due_at)
        assert machine.due(now)
        starts.append(now)
        now += delay
        machine.finish(ENTRY, True, now)
    assert all(b - a >= ENTRY.interval_s - 1e-9 for a, b in itertools.pairwise(starts))


@pytest.mark.parametrize("row", [{"type": "http-get"}, {"type": "https-get"}, {"thr-avg": "10ms"}, {"ttl": "3"}])
def test_what_is_not_emulated_is_refused(row: dict[str, str]) -> None:
    assert refuse(row) == "=".join(next(iter(row.items())))


def test_dns_and_ping_are_not_refused() -> None:
    assert refuse(ROW) is None
    assert refuse({"host": "10.1.1.1"}) is None


# --- the runner --------------------------------------------------------------------------------------------------


def watch(results: list[bool], up: str = "", down: str = "", rounds: int | None = None) -> FakeConsole:
    """Runs one entry through these results, at once, and returns the console it worked on."""
    rows = {"/ip/firewall/nat": [{".id": "*1", "comment": "redirect", "disabled": "true"}]}
    console = FakeConsole(rows)

    async def scenario() -> None:
        now = 0.0
        left = list(results)
        done = asyncio.Event()

        async def tester(_: Entry) -> bool:
            nonlocal now
            now += 2.0
            if len(left) == 1:
                done.set()
            return left.pop(0) if len(left) > 1 else left[0]

        watcher = Watcher(console, tester, 0.0, clock=lambda: now, wall=lambda: now)
        watcher.start()
        watcher.update({MENU: [{**ROW, "up-script": up, "down-script": down}]})
        async with asyncio.timeout(5):
            await done.wait()
            for _ in range(rounds or 20):
                await asyncio.sleep(0)
        await watcher.stop()

    asyncio.run(scenario())
    return console


TOGGLE_ON = '/ip firewall nat enable [find comment="redirect"]'
TOGGLE_OFF = '/ip firewall nat disable [find comment="redirect"]'


def test_the_redirect_follows_the_results() -> None:
    console = watch([True, False, True, False], TOGGLE_OFF, TOGGLE_ON)
    assert [command for command, _ in console.writes] == [
        "/ip/firewall/nat/disable",
        "/ip/firewall/nat/enable",
        "/ip/firewall/nat/disable",
        "/ip/firewall/nat/enable",
    ]
    assert console.rows["/ip/firewall/nat"][0]["disabled"] == "false"
    assert ("netwatch,info", "event down [ type: dns, host: id.anycast.lan ]") in console.logged


def test_a_failing_script_is_logged_and_netwatch_goes_on() -> None:
    console = watch([False, True], TOGGLE_OFF, "/tool fetch")
    assert [topics for topics, _ in console.logged if "error" in topics] == ["script,error"]
    assert [command for command, _ in console.writes] == ["/ip/firewall/nat/disable"]


def test_a_row_that_cannot_run_is_noted() -> None:
    watcher_console = FakeConsole()

    async def scenario() -> dict[str, str]:
        async def tester(_: Entry) -> bool:
            return True

        watcher = Watcher(watcher_console, tester, 0.0)
        row = {".id": "*9", "type": "dns"}
        watcher.update({MENU: [row]})
        return watcher.runtime(row)

    noted = asyncio.run(scenario())
    assert noted["invalid"] == "true"
    assert "host" in noted[".why"]
