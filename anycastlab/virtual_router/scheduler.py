"""`/system/scheduler`: runs scripts at their times, with the rights of the row. `/system/script/run` runs them at once.

A row runs at start date and time, then every interval; one with `start-time=startup` runs 3 s after the start, then
every interval. Without an interval it runs once (MikroTik documentation, Scheduler). What a restart missed is not made
up for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from anycastlab.virtual_router import limits
from anycastlab.virtual_router.dataplane.api import CommandRefused, Console
from anycastlab.virtual_router.dataplane.script import Interpreter
from anycastlab.virtual_router.dataplane.script_tree import ScriptError
from anycastlab.virtual_router.logs import stamp
from anycastlab.virtual_router.router import Router
from anycastlab.virtual_router.store import Row
from anycastlab.virtual_router.times import parse_ms

MENU = "/system/scheduler"
SCRIPTS = "/system/script"
_AFTER_STARTUP = timedelta(seconds=3)


@dataclass(frozen=True)
class Plan:
    """When a row runs: first at `start`, then every `interval` if there is one."""

    start: datetime
    interval: timedelta | None

    @classmethod
    def of(cls, row: Mapping[str, str], booted: datetime) -> Plan:
        """`booted` has a time zone, and the row's times are in it. Raises ValueError for a row without times."""
        interval = timedelta(milliseconds=parse_ms(row.get("interval", "0s"))) or None
        if row.get("start-time") == "startup":
            return cls(booted + _AFTER_STARTUP, interval)
        moment = datetime.fromisoformat(f"{row.get('start-date', '')} {row.get('start-time', '')}")
        return cls(moment.replace(tzinfo=booted.tzinfo), interval)

    def after(self, moment: datetime) -> datetime | None:
        """The first run later than `moment`; None when there is none any more."""
        if moment < self.start:
            return self.start
        if self.interval is None:
            return None
        passed = (moment - self.start) // self.interval
        return self.start + (passed + 1) * self.interval


async def run_script(router: Router, console: Console, source: str, policies: frozenset[str], user: str) -> None:
    """Runs inline source, or the stored script of that name. Raises CommandRefused with what went wrong."""
    script = Interpreter(console, policies, user)
    stored = any(row.values.get("name") == source for row in router.store.rows(SCRIPTS))
    try:
        async with asyncio.timeout(limits.SCRIPT_TIMEOUT):
            await (script.call(source) if stored else script.run(source))
    except ScriptError as error:
        raise CommandRefused(str(error)) from error
    except TimeoutError as error:
        raise CommandRefused(f"still running after {limits.SCRIPT_TIMEOUT:g} s") from error


class Scheduler:
    """Looks every second which rows are due. In device-mode `home` there is no scheduler and nothing runs."""

    def __init__(self, router: Router, console: Console) -> None:
        self._router = router
        self._console = console
        self._booted = router.clock()
        self._looked = self._booted
        self._runs: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        router.scheduled = self.runtime

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(limits.SCHEDULER_TICK)
            for row in self.due(self._router.clock()):
                self._runs[row.id] = self._runs.get(row.id, 0) + 1
                task = asyncio.create_task(self._execute(row))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def due(self, now: datetime) -> list[Row]:
        """Rows with a run between the last look and `now`."""
        since, self._looked = self._looked, now
        if self._router.config.device_mode == "home":
            return []
        found = []
        for row in self._router.store.rows(MENU):
            at = None if row.values.get("disabled") == "true" else self._next(row.values, since)
            if at is not None and at <= now:
                found.append(row)
        return found

    def runtime(self, row: Mapping[str, str]) -> dict[str, str]:
        """What a row shows beside its configuration."""
        at = None if row.get("disabled") == "true" else self._next(row, self._router.clock())
        shown = {"run-count": str(self._runs.get(row.get(".id", ""), 0))}
        return shown | ({} if at is None else {"next-run": stamp(at)})

    def _next(self, row: Mapping[str, str], moment: datetime) -> datetime | None:
        try:
            return Plan.of(row, self._booted).after(moment)
        except ValueError:
            return None

    async def _execute(self, row: Row) -> None:
        policies = frozenset(row.values.get("policy", "").split(","))
        source = row.values.get("on-event", "")
        try:
            await run_script(self._router, self._console, source, policies, "scheduler")
        except CommandRefused as refusal:
            name = row.values.get("name", row.id)
            self._console.log("script,error", f"executing script from scheduler ({name}) failed: {refusal.message}")
