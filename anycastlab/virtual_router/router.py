"""One virtual router: rows, safe mode, logs, data plane, and the file that keeps the configuration.

Writes are taken at once; what they mean is applied and saved a moment later, several of them together, and a read waits
for that. While safe mode is held, the saved configuration is the one from before: a router that loses power then comes
back with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from anycastlab.command_trees.schema import Schema
from anycastlab.virtual_router import defaults, errors, limits
from anycastlab.virtual_router.config import Config
from anycastlab.virtual_router.dataplane.api import CommandRefused, Console, Dataplane
from anycastlab.virtual_router.logs import Clock, RouterLog, WriteLog
from anycastlab.virtual_router.safemode import SafeMode
from anycastlab.virtual_router.store import Store

_FORMAT = 1


def local_time() -> datetime:
    """Now, with the machine's time zone."""
    return datetime.now().astimezone()


class StateError(Exception):
    """The saved configuration cannot be used; the text names the file."""


class Counters:
    """What an API client costs, for `/anycastlab/api`."""

    def __init__(self) -> None:
        self.sentences = 0
        self.rows = 0
        self.logins = 0
        self.traps = 0


class Router:
    """Everything but the network side. `commands.Interpreter` runs commands on it."""

    def __init__(
        self, config: Config, dataplane: Dataplane, *, persistent: bool = True, clock: Clock = local_time
    ) -> None:
        self.config = config
        self.dataplane = dataplane
        self.clock = clock
        self.schema = Schema.load(config.version)
        self.store = Store(self.schema)
        self.log = RouterLog(clock)
        self.safe_mode = SafeMode(self.store, self.log.add)
        self.counters = Counters()
        self.started = time.monotonic()
        self.sessions: dict[int, dict[str, str]] = {}
        """What `/user/active` shows, by session number."""
        self.scheduled: Callable[[Mapping[str, str]], dict[str, str]] = lambda _row: {}
        """What a scheduler row shows beside its configuration; set by the scheduler."""
        folder = Path(config.state_dir) if persistent else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "config.json" if folder else None
        self.writes = WriteLog(folder / "write-log.jsonl" if folder else None, clock)
        self._dirty = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._applying: asyncio.Task[None] | None = None
        self._load()
        self.store.on_change = self._changed
        self.store.guard = self._guard

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self, console: Console) -> None:
        """Starts the data plane and applies the configuration it came with."""
        await self.dataplane.start(console)
        await self._apply()
        self._applying = asyncio.create_task(self._apply_changes(), name="apply")
        self.log.add("system,info", "router started")

    async def stop(self) -> None:
        """Saves what is not saved yet and stops the data plane."""
        if self._applying is not None:
            self._applying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._applying
        self.save()
        await self.dataplane.stop()

    async def settle(self) -> None:
        """Waits until everything written so far has been applied (or 15 s are over)."""
        if self._settled.is_set():
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), limits.SETTLE_TIMEOUT)

    # --- applying and saving ------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.safe_mode.changed()
        self._settled.clear()
        self._dirty.set()

    def mark_unsaved(self) -> None:
        """Something about what is saved changed, though no row did (safe mode was released)."""
        self._dirty.set()

    def _guard(self, menu: str, row: Mapping[str, str]) -> None:
        if (reason := self.dataplane.refuse(menu, row)) is not None:
            raise errors.not_emulated(f"{menu} {reason}")

    async def _apply_changes(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(limits.SAVE_DELAY)
            self._dirty.clear()
            self.save()
            await self._apply()
            if not self._dirty.is_set():
                self._settled.set()

    async def _apply(self) -> None:
        try:
            await self.dataplane.apply(self.store.snapshot())
        except CommandRefused as refusal:
            self.log.add("system,error,critical", f"configuration could not be applied: {refusal.message}")
        except Exception as error:  # the API must stay up to say so, whatever broke behind it
            self.log.add("system,error,critical", f"configuration could not be applied: {error}")

    def save(self) -> None:
        """Writes the configuration to its file: a new file, synced, renamed over the old one."""
        if self._file is None:
            return
        hold = self.safe_mode.hold
        data = {
            "format": _FORMAT,
            "version": str(self.config.parsed_version),
            **self.store.export(hold.checkpoint if hold is not None else None),
        }
        new = self._file.with_suffix(".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # accounts' passwords are in it
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as out:
            json.dump(data, out, ensure_ascii=False)
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, self._file)

    def _load(self) -> None:
        """Built-in rows, then the saved configuration; on the very first start, rows that the configuration names."""
        store, config = self.store, self.config
        for menu, dynamic in config.dynamic_rows.items():
            store.fill(menu, [{**row, "dynamic": "true"} for row in dynamic])
        for menu, rows in defaults.builtin_rows(config.identity, config.services).items():
            store.fill(menu, rows)
        store.fill(
            "/interface",
            [{"name": i.name, "default-name": i.name, "type": "ether", "builtin": "true"} for i in config.interfaces],
        )
        store.fill("/interface/ethernet", [{"name": i.name, "default-name": i.name} for i in config.interfaces])
        if self._file is not None and self._file.exists():
            try:
                store.load(json.loads(self._file.read_text(encoding="utf-8", errors="surrogateescape")))
            except (ValueError, RecursionError) as error:
                raise StateError(f"{self._file} is damaged ({error}); remove it to start afresh") from error
        else:
            self._first_rows()
        self._accounts()

    def _first_rows(self) -> None:
        config = self.config
        rows: list[tuple[str, Mapping[str, str]]] = []
        lists = dict.fromkeys(name for interface in config.interfaces for name in interface.lists)
        rows += [("/interface/list", {"name": name}) for name in lists]
        for interface in config.interfaces:
            rows += [("/interface/list/member", {"interface": interface.name, "list": it}) for it in interface.lists]
            own = (it for it in interface.addresses if ":" not in it)  # /ipv6/address is read from the configuration
            rows += [("/ip/address", {"address": it, "interface": interface.name}) for it in own]
        rows += [("/ip/dns/static", {"name": name, "address": it}) for name, it in config.static_names.items()]
        if config.dns_servers:
            rows.append(("/ip/dns", {"servers": ",".join(config.dns_servers)}))
        rows += [(menu, row) for menu, own in config.rows.items() for row in own]
        for path, row in rows:
            menu = self.schema.menu(path)
            try:
                if menu is None:
                    raise errors.no_such_command_prefix()
                if menu.singleton:
                    self.store.set(menu, self.store.rows(path), row)
                else:
                    self.store.add(menu, row)
            except CommandRefused as refusal:
                raise StateError(f"first row of {path} {dict(row)}: {refusal.message}") from refusal

    def _accounts(self) -> None:
        """Accounts and groups of the configuration are always as it says; others stay."""
        groups = [{"name": g.name, "policy": ",".join(g.policies)} for g in self.config.groups]
        users = [{"name": u.name, "password": u.password, "group": u.group} for u in self.config.users]
        self.store.ensure("/user/group", groups)
        self.store.ensure("/user", users)
