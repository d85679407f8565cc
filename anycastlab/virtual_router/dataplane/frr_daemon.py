"""FRR itself: which daemons run, getting a new configuration in without touching what did not change.

`frr-reload.py` computes the difference to what is running, so an unrelated change leaves sessions alone, and a text
that equals the last applied one is not applied at all.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from anycastlab.virtual_router.dataplane import config_file, frr, one_daemon, timing
from anycastlab.virtual_router.dataplane.api import Snapshot
from anycastlab.virtual_router.dataplane.frr_look import COMMANDS, look
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.kernel import Runner, run
from anycastlab.virtual_router.dataplane.routing import Look, Rendered
from anycastlab.virtual_router.version import Version

DAEMONS = ("bgpd", "bfdd")
RELOAD = "/usr/lib/frr/frr-reload.py"
_RESET = {"clear": "", "refresh": " soft in", "resend": " soft out"}


def daemons_file(text: str) -> str:
    """/etc/frr/daemons with what we need switched on and everything else as it was."""
    for name in DAEMONS:
        text, count = re.subn(rf"^{name}=.*$", f"{name}=yes", text, flags=re.MULTILINE)
        if not count:
            text += f"{name}=yes\n"
    return text


@dataclass
class Frr:
    """The FRR of this machine, as `routing.RoutingDaemon`."""

    name = "FRR"
    runner: Runner = run
    directory: Path = Path("/etc/frr")
    problem: str | None = None
    """Why the last configuration is not in effect; None when it is."""
    _look: Look = field(default_factory=Look)
    _looked_at: float = -1.0
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def render(self, snapshot: Snapshot, version: Version, interfaces: Interfaces, hostname: str) -> Rendered:
        return frr.render(snapshot, version, interfaces, hostname)

    async def apply(self, rendered: Rendered) -> None:
        """Starts or restarts FRR where its daemons are not running."""
        self._looked_at = -1.0
        text = rendered.text
        config = self.directory / "frr.conf"
        running = await self._running()
        current = config.read_text() if config.exists() else ""
        if running and current == text and self.problem is None:
            return
        if not running:
            self.problem = config_file.write(config, text, "frr")
            await self._start()
            return
        candidate = self.directory / "frr.conf.candidate"
        self.problem = config_file.write(candidate, text, "frr")
        result = await self.runner(["python3", RELOAD, "--reload", "--stdout", str(candidate)])
        if result.code != 0:
            lines = [line for line in (result.stdout + result.stderr).splitlines() if "rror" in line or "fail" in line]
            self.problem = (lines or ["frr-reload failed"])[-1].strip()
            candidate.unlink(missing_ok=True)
            return
        os.replace(candidate, config)

    async def _running(self) -> bool:
        """Whether all needed daemons answer; also makes sure they are started at the next boot."""
        path = self.directory / "daemons"
        text = path.read_text() if path.exists() else ""
        wanted = daemons_file(text)
        if text != wanted:
            path.write_text(wanted)
            return False
        return await self._answering()

    async def _answering(self) -> bool:
        result = await self.runner(["vtysh", "-c", "show daemons"])
        return result.code == 0 and {*DAEMONS, "zebra", "staticd"} <= set(result.stdout.split())

    async def _start(self) -> None:
        await one_daemon.stop("bird", self.runner)
        # Three starts in three minutes make systemd refuse the fourth; ours are wanted.
        await self.runner(["systemctl", "reset-failed", "frr"])
        result = await self.runner(["systemctl", "restart", "frr"], timeout_s=timing.FRR_START_TIMEOUT_S)
        if result.code != 0:
            self.problem = f"FRR does not start: {result.stderr.strip()}"
            return
        deadline = time.monotonic() + timing.FRR_START_TIMEOUT_S
        while time.monotonic() < deadline:
            if await self._answering():
                return
            await asyncio.sleep(timing.FRR_READY_POLL_S)
        self.problem = "FRR's daemons do not answer"

    async def look(self, fresh: bool = False) -> Look:
        """What FRR is doing; readers within READ_CACHE_S share one answer."""
        async with self._reading:
            if fresh or time.monotonic() - self._looked_at > timing.READ_CACHE_S:
                argv = ["vtysh"]
                for command in COMMANDS:
                    argv += ["-c", command]
                result = await self.runner(argv)
                self._look = look(result.stdout)
                self._looked_at = time.monotonic()
            return self._look

    @property
    def last(self) -> Look:
        """The last look, without a new one."""
        return self._look

    async def reset(self, address: str, verb: str) -> None:
        self._looked_at = -1.0
        await self.runner(["vtysh", "-c", f"clear bgp {address}{_RESET[verb]}"])
