"""The API's listening sockets: plain and TLS, with a limit on connections."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

from anycastlab.virtual_router.commands import Interpreter
from anycastlab.virtual_router.config import Config
from anycastlab.virtual_router.dataplane.api import Dataplane
from anycastlab.virtual_router.logs import Clock
from anycastlab.virtual_router.router import Router, local_time
from anycastlab.virtual_router.scheduler import Scheduler
from anycastlab.virtual_router.session import Session
from anycastlab.virtual_router.wire import encode_sentence


def tls_context(certificate: str | Path, key: str | Path) -> ssl.SSLContext:
    """TLS as a router with a certificate speaks it. Raises OSError or ssl.SSLError for unusable files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


class Server:
    """A router with its API open. `port` and `tls_port` are known after `start` (0 in the configuration: any)."""

    def __init__(
        self, config: Config, dataplane: Dataplane, *, persistent: bool = True, clock: Clock = local_time
    ) -> None:
        self.config = config
        self.router = Router(config, dataplane, persistent=persistent, clock=clock)
        self.port = 0
        self.tls_port: int | None = None
        self._servers: list[asyncio.Server] = []
        self._sessions: set[asyncio.Task[None]] = set()
        self._number = 0
        self._scheduler: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises OSError when a port is taken, StateError or ssl.SSLError for unusable files."""
        console = Interpreter(self.router)
        await self.router.start(console)
        self._scheduler = asyncio.create_task(Scheduler(self.router, console).run(), name="scheduler")
        self.port = await self._listen(self.config.port, "api", None)
        if self.config.tls_port is not None and self.config.tls_certificate and self.config.tls_key:
            context = tls_context(self.config.tls_certificate, self.config.tls_key)
            self.tls_port = await self._listen(self.config.tls_port, "api-ssl", context)

    async def stop(self) -> None:
        """Closes the sockets, ends every session (safe mode is undone), saves."""
        for server in self._servers:
            server.close()
        if self._scheduler is not None:
            self._scheduler.cancel()
        await asyncio.sleep(0)  # a connection accepted a moment ago becomes a session first
        for session in self._sessions:
            session.cancel()
        if self._sessions:
            await asyncio.wait(self._sessions)
        await self.router.stop()

    async def _listen(self, port: int, via: str, context: ssl.SSLContext | None) -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, via)

        server = await asyncio.start_server(connected, self.config.listen, port, ssl=context)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, via: str) -> None:
        if len(self._sessions) >= self.config.max_sessions:
            writer.write(encode_sentence(["!fatal", "too many sessions"]))
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()
            return
        self._number += 1
        task = asyncio.current_task()
        assert task is not None
        self._sessions.add(task)
        try:
            await Session(self.router, reader, writer, self._number, via).run()
        except asyncio.CancelledError:
            pass  # the server stops; nobody waits for this task
        finally:
            self._sessions.discard(task)
