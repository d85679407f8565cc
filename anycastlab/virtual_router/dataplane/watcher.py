"""Runs netwatch: waits for what is due, tests, runs the scripts a change asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from anycastlab.virtual_router.dataplane import timing
from anycastlab.virtual_router.dataplane.api import NETWATCH_POLICIES, CommandRefused, Console, Row, Snapshot
from anycastlab.virtual_router.dataplane.netwatch import MENU, Change, Entry, Netwatch
from anycastlab.virtual_router.dataplane.peers import Notes
from anycastlab.virtual_router.dataplane.probes import Tester
from anycastlab.virtual_router.dataplane.rows import enabled
from anycastlab.virtual_router.dataplane.script import Interpreter
from anycastlab.virtual_router.dataplane.script_tree import ScriptError

USER = "netwatch"
"""Who the log of writes names."""


class Watcher:
    """Tests and scripts of all entries; scripts of one entry never overlap, different entries do not wait."""

    def __init__(
        self,
        console: Console,
        tester: Tester,
        startup_delay_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.machine = Netwatch()
        self.notes: Notes = {}
        self._console = console
        self._tester = tester
        self._startup_delay_s = startup_delay_s
        self._clock, self._wall = clock, wall
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._scripts: dict[str, asyncio.Lock] = {}

    def start(self) -> None:
        self._main = asyncio.get_running_loop().create_task(self._run(), name="netwatch")

    async def stop(self) -> None:
        tasks = [task for task in (self._main, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._main = None

    def update(self, snapshot: Snapshot) -> None:
        """Takes over the configured rows."""
        entries: list[Entry] = []
        self.notes = {}
        for row in enabled(snapshot, MENU):
            try:
                entries.append(Entry.from_row(row, self._startup_delay_s))
            except ValueError as reason:
                self.notes[MENU, row.get(".id", "")] = {"invalid": "true", ".why": f"not emulated: {reason}"}
        self.machine.update(entries, self._clock(), self._wall())
        self._wake.set()

    def runtime(self, row: Row) -> dict[str, str]:
        """Status of one row, and what is wrong with it."""
        return {**self.machine.runtime(row), **self.notes.get((MENU, row.get(".id", "")), {})}

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            for entry in self.machine.due(self._clock()):
                self._spawn(entry)
            next_at = self.machine.next_at()
            wait = None if next_at is None else max(0.0, next_at - self._clock())
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _spawn(self, entry: Entry) -> None:
        task = asyncio.get_running_loop().create_task(self._test(entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _test(self, entry: Entry) -> None:
        up = await self._tester(entry)
        change = self.machine.finish(entry, up, self._wall())
        self._wake.set()
        if change is None:
            return
        if change.status != change.before:
            self._console.log("netwatch,info", f"event {change.status} [ type: {entry.kind}, host: {entry.host} ]")
        async with self._scripts.setdefault(entry.id, asyncio.Lock()):
            for source in change.scripts:
                await self._script(change, source)

    async def _script(self, change: Change, source: str) -> None:
        """A script that fails is reported in the log; netwatch goes on."""
        interpreter = Interpreter(self._console, NETWATCH_POLICIES, USER, self.machine.variables(change.entry))
        try:
            async with asyncio.timeout(timing.SCRIPT_TIMEOUT_S):
                await interpreter.run(source)
        except (ScriptError, CommandRefused) as error:
            reason = error.message if isinstance(error, CommandRefused) else str(error)
            self._fail(change, reason)
        except TimeoutError:
            self._fail(change, f"still running after {timing.SCRIPT_TIMEOUT_S:g} s")

    def _fail(self, change: Change, reason: str) -> None:
        what = f"executing {change.status}-script from netwatch failed, host: {change.entry.host}"
        self._console.log("script,error", f"{what}: {reason}")
