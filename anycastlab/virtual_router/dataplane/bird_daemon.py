"""BIRD itself: getting a new configuration in without touching what did not change, looking at it, resetting sessions.

A text is checked as a candidate before it becomes `bird.conf`, so that the file is always one BIRD starts with.
`configure` then compares it with what is running: unrelated sessions stay up.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router.dataplane import bird, bird_control, bird_look, config_file, timing
from anycastlab.virtual_router.dataplane.api import CommandRefused, Snapshot
from anycastlab.virtual_router.dataplane.bird_control import NoAnswer, Reply
from anycastlab.virtual_router.dataplane.bird_look import Texts
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.kernel import Runner, run
from anycastlab.virtual_router.dataplane.routing import Look, Rendered

UNIT = "bird"
_RESET = {"clear": "restart", "refresh": "reload in", "resend": "reload out"}


@dataclass
class Bird:
    """The BIRD of this machine."""

    runner: Runner = run
    directory: Path = Path("/etc/bird")
    socket: Path = bird_control.SOCKET
    now: Callable[[], datetime] = datetime.now
    problem: str | None = None
    """Why the last configuration is not in effect; None when it is."""
    _effective: str | None = None
    """The text BIRD was given by us; the file alone does not tell whether it was ever read."""
    _ever: set[str] = field(default_factory=set)
    _look: Look = field(default_factory=Look)
    _looked_at: float = -1.0
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def render(self, snapshot: Snapshot, version: Version, interfaces: Interfaces, hostname: str) -> Rendered:
        return bird.render(snapshot, version, interfaces, hostname)

    async def apply(self, rendered: Rendered) -> None:
        """Brings BIRD to it and sets `problem`. Starts BIRD where it does not answer."""
        self._looked_at = -1.0
        running = await self._answers()
        if running and rendered.text == self._effective and self.problem is None:
            return
        try:
            refused = await self._replace(rendered.text)
        except OSError as error:
            refused = f"{error.filename or self.directory}: {error.strerror}"
        if not running:
            await self._start()
        elif refused is None:
            refused = await self._configure()
        if refused is None and self.problem is None:
            self._effective = rendered.text
        elif refused is not None:
            self.problem = refused

    async def _replace(self, text: str) -> str | None:
        """Puts a text in place that BIRD can read; or says in BIRD's words why not, and the old one stays."""
        config, candidate = self.directory / "bird.conf", self.directory / "bird.conf.candidate"
        self.problem = config_file.write(candidate, text, "bird")
        result = await self.runner(["bird", "-p", "-c", str(candidate)])
        if result.code != 0:
            candidate.unlink(missing_ok=True)
            lines = (result.stderr + result.stdout).strip().splitlines()
            return (lines or ["it cannot check its configuration"])[-1].removeprefix("bird: ").strip()
        os.replace(candidate, config)
        return None

    async def _configure(self) -> str | None:
        """Lets the running BIRD read its file."""
        try:
            (reply,) = await self._ask("configure")
        except NoAnswer as error:
            return str(error)
        return reply.error

    async def _start(self) -> None:
        # Several starts within seconds make systemd refuse the next; ours are wanted.
        await self.runner(["systemctl", "reset-failed", UNIT])
        result = await self.runner(["systemctl", "restart", UNIT], timeout_s=timing.BIRD_START_TIMEOUT_S)
        if result.code != 0:
            self.problem = f"it does not start: {result.stderr.strip()}"
            return
        deadline = time.monotonic() + timing.BIRD_START_TIMEOUT_S
        while not await self._answers():
            if time.monotonic() >= deadline:
                self.problem = "it does not answer after its start"
                return
            await asyncio.sleep(timing.BIRD_READY_POLL_S)

    async def _answers(self) -> bool:
        try:
            await self._ask("show status")
        except NoAnswer:
            return False
        return True

    async def _ask(self, *commands: str) -> tuple[Reply, ...]:
        return await bird_control.ask(*commands, path=self.socket)

    @property
    def last(self) -> Look:
        """The last look, without a new one."""
        return self._look

    async def look(self, fresh: bool = False) -> Look:
        """What BIRD is doing; readers within READ_CACHE_S share one answer."""
        async with self._reading:
            if fresh or time.monotonic() - self._looked_at > timing.READ_CACHE_S:
                told, *kernel = await asyncio.gather(
                    self._tell(), *(self._kernel(argv) for argv in bird_look.KERNEL_COMMANDS)
                )
                self._look = bird_look.look(Texts(*told, *kernel), self.now(), self._ever)
                self._remember(bool(told[0]))
                self._looked_at = time.monotonic()
            return self._look

    async def _tell(self) -> list[str]:
        """The answers to `COMMANDS`; a command that fails (there is no BFD) leaves its place empty."""
        try:
            replies = await self._ask(*bird_look.COMMANDS)
        except NoAnswer:
            return [""] * len(bird_look.COMMANDS)
        return ["" if reply.error else reply.text for reply in replies]

    async def _kernel(self, argv: tuple[str, ...]) -> str:
        result = await self.runner(argv)
        return result.stdout if result.code == 0 else ""

    def _remember(self, answered: bool) -> None:
        """BIRD does not tell who ever had a session. A neighbour that is configured anew starts from nothing."""
        if answered:
            self._ever = {neighbor.address for neighbor in self._look.neighbors if neighbor.was_established}

    async def reset(self, address: str, verb: str) -> None:
        """Does one of `routing.RESETS`. Raises CommandRefused with BIRD's words."""
        self._looked_at = -1.0
        try:
            (protocols,) = await self._ask("show protocols all")
            name = bird_look.protocol_of(protocols.text, address)
            if name is None:
                raise CommandRefused(f"no session with {address}")
            (reply,) = await self._ask(f"{_RESET[verb]} '{name}'")
        except NoAnswer as error:
            raise CommandRefused(f"failure: {error}") from error
        if reply.error:
            raise CommandRefused(f"failure: {reply.error}")
