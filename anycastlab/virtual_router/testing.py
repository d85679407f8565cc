"""A virtual router inside the test process: real sockets on 127.0.0.1, rows that do nothing.

with running_router(version="7.20.8 (long-term)") as router:
    librouteros.connect(router.host, port=router.port, username="admin", password="secret")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from anycastlab.virtual_router.config import Config, Group, Interface, User
from anycastlab.virtual_router.dataplane.api import Dataplane, NullDataplane
from anycastlab.virtual_router.logs import Clock
from anycastlab.virtual_router.router import local_time
from anycastlab.virtual_router.server import Server

T = TypeVar("T")

PASSWORD = "secret"
INTERFACES = (
    Interface("ether1-wan", "wan", ("203.0.113.2/24",), ("WAN",)),
    Interface("ether2-lan", "lan", ("10.1.1.1/24",), ("LAN",)),
    Interface("ether3-dns", "dns", ("10.1.2.1/24",), ("LAN",)),
)
GROUPS = (
    Group("automation", ("api", "read", "write", "test", "sensitive")),
    Group("insensitive", ("api", "read", "write", "test")),
    Group("onlyread", ("api", "read")),
    Group("noapi", ("read", "write", "winbox")),
)
USERS = (
    User("admin", PASSWORD),
    User("automation", PASSWORD, "automation"),
    User("insensitive", PASSWORD, "insensitive"),
    User("reader", PASSWORD, "onlyread"),
    User("outsider", PASSWORD, "noapi"),
)


@dataclass(frozen=True)
class RunningRouter:
    """Where it listens, and its insides: look at them only through `call`, they belong to another thread."""

    host: str
    port: int
    tls_port: int | None
    server: Server
    dataplane: Dataplane
    _loop: asyncio.AbstractEventLoop

    def call(self, function: Callable[[], T]) -> T:
        """Runs `function` on the router's thread."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(10)

    def rows(self, menu: str) -> list[dict[str, str]]:
        """Configured rows of a menu, as shown, without going through the API."""
        store = self.server.router.store
        return self.call(lambda: [store.shown(menu, row) for row in store.rows(menu)])

    def give(self, menu: str, row: Mapping[str, str]) -> None:
        """A row that the router has from elsewhere; not a write of any client."""
        store = self.server.router.store
        self.call(lambda: store.add(store.schema.menus[menu], row))

    def writes(self) -> list[dict[str, str]]:
        """The write log."""
        return self.call(self.server.router.writes.rows)


@contextmanager
def running_router(
    version: str = "7.22.3 (stable)",
    users: Sequence[User] = USERS,
    *,
    groups: Sequence[Group] = GROUPS,
    rows: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
    dynamic_rows: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
    dataplane: Dataplane | None = None,
    state_dir: Path | None = None,
    tls: tuple[Path, Path] | None = None,
    clock: Clock = local_time,
    **changes: object,
) -> Iterator[RunningRouter]:
    """A router on 127.0.0.1, any free port, stopped at the end. `tls` is (certificate, key).

    `rows` it has from the start, `dynamic_rows` are its own; with `state_dir` it keeps its configuration there; `clock`
    is its time of day. Other keywords are fields of `Config`.
    """
    config = Config(
        version=version,
        users=tuple(users),
        groups=tuple(groups),
        interfaces=INTERFACES,
        listen="127.0.0.1",
        port=0,
        tls_port=0 if tls else None,
        tls_certificate=str(tls[0]) if tls else None,
        tls_key=str(tls[1]) if tls else None,
        state_dir=str(state_dir or ""),
        rows={menu: tuple(own) for menu, own in (rows or {}).items()},
        dynamic_rows={menu: tuple(own) for menu, own in (dynamic_rows or {}).items()},
    )
    config = replace(config, **changes)  # type: ignore[arg-type]
    plane = dataplane or NullDataplane()
    started: Future[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        try:
            server = Server(config, plane, persistent=state_dir is not None, clock=clock)
            await server.start()
        except BaseException as error:
            started.set_exception(error)
            return
        stopping = asyncio.Event()
        started.set_result((server, asyncio.get_running_loop(), stopping))
        await stopping.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="virtual-router", daemon=True)
    thread.start()
    try:
        server, loop, stopping = started.result(10)
        try:
            yield RunningRouter("127.0.0.1", server.port, server.tls_port, server, plane, loop)
        finally:
            loop.call_soon_threadsafe(stopping.set)
    finally:
        thread.join(10)
