"""The two instruments of a run: the phone on the lab's client and the watch of the router's routes.

Both run as transient systemd units with an upper limit, so they end whatever becomes of us, and write to files that are
fetched at the end. Nothing is sent over our own connection while a run is on.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any

from anycastlab.incus import replace
from anycastlab.incus.errors import IncusError
from anycastlab.incus.rest import Rest
from anycastlab.phone import records
from anycastlab.phone.errors import PhoneError
from anycastlab.phone.records import Outcome, Record
from anycastlab.report.run import Announcement
from anycastlab.scenarios import priority, route_watch, timing
from anycastlab.scenarios.actions import Action, On
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.model import PhoneUse
from anycastlab.scenarios.stage import CLIENT, ROUTER, Stage
from anycastlab.site import Site
from anycastlab.stored import parse_json

_PHONE_PROGRAM = "/usr/local/lib/anycastlab/phone.pyz"
_PARTS = ((CLIENT, "phone"), (ROUTER, "routes"))
_BUILT_IN_MIXES = ("lab", "home")


@dataclass(frozen=True)
class Recording:
    """What the instruments saw."""

    queries: tuple[Record, ...]
    phone: Mapping[str, Any]
    announcements: tuple[Announcement, ...]


@dataclass
class Recorder:
    """Starts and stops both instruments of one run, once."""

    stage: Stage
    rest: Rest
    sleep: Callable[[float], None] = time.sleep
    _token: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def stops(self) -> tuple[Action, ...]:
        """What ends the instruments when nobody is left to fetch their files."""
        return tuple(On(machine, self._end(part), strict=False) for machine, part in _PARTS)

    def start(self, use: PhoneUse, rate: float, seconds: float, seed: int) -> int:
        """Start both; returns the CLOCK_MONOTONIC time of the first query. The schedule is fixed from now on."""
        site = self.stage.site
        service = str(site.service.address)
        priority.prefer_bfd(self.stage.lab.project, ROUTER, [node.name for node in site.nodes])
        lasts_s = seconds + timing.PHONE_LEAD_S + timing.PHONE_TAIL_S
        watch = ("python3", "-c", Path(route_watch.__file__).read_text("utf-8"), service, self._file("routes"))
        self._run_unit(ROUTER, "routes", lasts_s, (*watch, f"{lasts_s:g}"))
        mix = self._mix(use.mix)
        start_ns = self.stage.now_ns() + round(timing.PHONE_LEAD_S * timing.NS)
        arguments = (
            "--server", service, "--rate", f"{rate:g}", "--duration", f"{seconds:g}", "--seed", str(seed),
            "--mix", mix, "--client", ",".join(use.clients), "--proto", use.protocol, "--start-at", str(start_ns),
            "--identity-name", site.service.identity_name,
            "--jsonl", self._file("queries"), "--json-summary", self._file("summary"),
            "--quiet", "--no-interception-check",  # checked once per command, before the first run
            *(("--one-flow",) if use.one_flow else ()),
            *(("--timeout", f"{use.timeout_s:g}") if use.timeout_s else ()),
        )  # fmt: skip
        self._run_unit(CLIENT, "phone", lasts_s, ("python3", _PHONE_PROGRAM, *arguments))
        if rate <= priority.MOST_RATE:
            priority.prefer(f"{self._unit('phone')}.service", _PHONE_PROGRAM, timing.PHONE_LEAD_S, self.sleep)
        return start_ns

    def finish(self) -> Recording:
        """Stop the phone in good order and fetch what was recorded."""
        phone = self._unit("phone")
        self.stage.run(CLIENT, ["systemctl", "kill", "-s", "TERM", phone])
        end = time.monotonic() + timing.PHONE_TAIL_S
        while (state := self._state(phone)) in ("active", "deactivating", "activating"):
            if time.monotonic() > end:
                raise ScenarioError(f"The phone did not end within {timing.PHONE_TAIL_S:g} s ({state}).")
            self.sleep(timing.PHONE_POLL_S)
        self.stage.run(ROUTER, ["systemctl", "stop", self._unit("routes")])
        summary = self._fetch(CLIENT, "summary")
        if not summary.strip():
            said = (self._fetch(CLIENT, "phone.err").strip().splitlines() or ["it said nothing"])[0]
            raise ScenarioError(f"The phone on {CLIENT} recorded nothing: {said}.")
        try:
            queries = tuple(records.read_jsonl(StringIO(self._fetch(CLIENT, "queries"))))
            document = parse_json(summary)
            changes = announcements(self._fetch(ROUTER, "routes"), self.stage.site)
        except (PhoneError, ValueError) as error:
            raise ScenarioError(
                f"The phone's records cannot be read: {error}", "Is the lab's phone older than this command? Deploy."
            ) from None
        self.clean()
        return Recording(asked(queries), document, changes)

    def clean(self) -> None:
        """End the instruments if they still run, and remove their files. Never raises: they end by themselves too."""
        for machine, part in _PARTS:
            with suppress(IncusError, TimeoutError, OSError):
                self.stage.run(machine, self._end(part))

    def _end(self, part: str) -> tuple[str, ...]:
        """Ends one instrument and leaves nothing of it: no failed unit (it is one when stopped early), no file."""
        unit = self._unit(part)
        return ("sh", "-c", f"systemctl stop {unit}; systemctl reset-failed {unit}; rm -f {self._file('*')}")

    def _run_unit(self, machine: str, part: str, lasts_s: float, argv: tuple[str, ...]) -> None:
        unit = self._unit(part)
        properties = (f"RuntimeMaxSec={lasts_s + timing.PHONE_TAIL_S:g}", f"StandardError=file:{self._file(part)}.err")
        options = [word for text in properties for word in ("-p", text)]
        # systemd expands `$` in what it runs; ours is to be taken as it is.
        words = [word.replace("$", "$$") for word in argv]
        result = self.stage.run(machine, ["systemd-run", "--quiet", f"--unit={unit}", *options, *words])
        if not result.ok:
            raise ScenarioError(f"{part} could not be started on {machine}: {result.complaint}.")

    def _mix(self, name: str) -> str:
        """The phone's own mix, or a file of ours, put where the phone finds it."""
        if name in _BUILT_IN_MIXES:
            return name
        path = f"{self._file('mix')}.json"
        content = resources.files("anycastlab.scenarios").joinpath("mixes", f"{name}.json").read_bytes()
        replace.put(self.rest, CLIENT, path, content, mode=0o644)
        return path

    def _state(self, unit: str) -> str:
        return self.stage.run(CLIENT, ["systemctl", "show", "-p", "ActiveState", "--value", unit]).text.strip()

    def _fetch(self, machine: str, part: str) -> str:
        result = self.stage.run(machine, ["cat", self._file(part)])
        return result.text if result.ok else ""

    def _unit(self, part: str) -> str:
        return f"anycastlab-{part}-{self._token}"

    def _file(self, part: str) -> str:
        return f"/run/anycastlab-run-{self._token}-{part}"


def asked(queries: tuple[Record, ...]) -> tuple[Record, ...]:
    """Without the end of the schedule that was never reached, because the run was over before.

    What the phone failed to send was reached: it makes the run void.
    """
    reached = (n for n, r in enumerate(queries, 1) if r.sent_ns is not None or r.outcome is Outcome.SKIPPED)
    last = max(reached, default=0)
    return queries[:last]


def announcements(changes: str, site: Site) -> tuple[Announcement, ...]:
    """The lines of `route_watch` as announcements per node: its state when watching began, then each change."""
    names = {str(node.address): node.name for node in site.nodes}
    state: dict[str, bool] = {}
    found = []
    for line in changes.splitlines():
        if not line.strip():
            continue
        seen = parse_json(line)
        if not isinstance(seen, dict) or type(seen.get("time_ns")) is not int or not isinstance(seen.get("hops"), list):
            raise ValueError("a line of the router's routes is none")
        hops = {names[hop] for hop in map(str, seen["hops"]) if hop in names}
        for name in names.values():
            if state.get(name) is not (now := name in hops):
                state[name] = now
                found.append(Announcement(seen["time_ns"], name, now))
    return tuple(found)
