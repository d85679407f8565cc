"""Changing a router so that it is either as planned or as before.

    preflight → backup → safe mode: writes → checks → release          RouterOS 7.18 and later
    preflight → backup → armed roll-back: writes → checks → disarm     before

Whatever ends this early — a refusal, a failed check, a lost connection, Ctrl-C, a killed greenlet — the router goes
back: safe mode is unrolled, by us or, when our session is gone, by the router itself. Then it is read again, and the
message says what was found, not what was hoped. Where rows of ours are still different, the backup is put back by an
ordinary plan; that is also how chunks that were already released, and routers without safe mode, are undone.

A plan with more steps than safe mode remembers is applied in chunks, each released before the next is begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anycastlab.errors import AnycastlabError
from anycastlab.routeros import backup as backups
from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import ApplyError, RouterError, RouterLost, RouterRefused, RouterUnreachable
from anycastlab.routeros.execute import Executor, chunks
from anycastlab.routeros.in_use import doubtful, settled, unused
from anycastlab.routeros.limits import (
    ROLLBACK_INTERVAL_S,
    ROLLBACK_SETTLE_S,
    ROLLBACK_TIMEOUT_S,
    SAFE_MODE_ACTIONS,
)
from anycastlab.routeros.plan import Step, make_plan
from anycastlab.routeros.planning import Planned
from anycastlab.routeros.preflight import preflight, safe_mode_held
from anycastlab.routeros.reading import Reading, read
from anycastlab.routeros.redirect import realign
from anycastlab.routeros.rollback import arm, disarm
from anycastlab.site.model import Site

Check = Callable[[Connection], None]
"""Raises RouterError when the service does not work; runs before the change is kept."""

Log = Callable[[str], None]


@dataclass(frozen=True)
class Applied:
    """What was done. `backup` is what `restore` takes."""

    planned: Planned
    backup: Path
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clock:
    """Injected time; tests do not wait."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def apply(
    connection: Connection,
    planned: Planned,
    state: Path,
    *,
    site: Site | None = None,
    check: Check | None = None,
    log: Log = lambda _: None,
    clock: Clock = Clock(),
) -> Applied:
    """Applies a plan. Raises RouterError before the first write, ApplyError after it; interrupts pass through.

    `site` is given for a deploy: its service address is looked for on the router first.
    """
    services = [address for address in (site.service.address, site.service.address6) if address] if site else []
    notes = preflight(connection, planned, services)
    saved = backups.take(planned.reading, backups.now())
    path = backups.save(saved, state)
    log(f"backup of router {connection.host}: {path}")
    change = _Change(connection, planned, saved, check, log, clock)
    if planned.reading.capabilities.safe_mode:
        change.in_safe_mode()
    else:
        notes += change.with_armed_rollback()
    return Applied(planned, path, tuple(notes))


class _Change:
    def __init__(
        self,
        connection: Connection,
        planned: Planned,
        saved: backups.Backup,
        check: Check | None,
        log: Log,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._planned = planned
        self._saved = saved
        self._check = check
        self._log = log
        self._clock = clock
        self._executor = Executor(connection, planned.reading)
        self._writing = False

    def in_safe_mode(self) -> None:
        groups = chunks(self._planned.plan.steps, SAFE_MODE_ACTIONS)
        connection = self._connection
        try:
            with connection.pinned():
                for number, steps in enumerate(groups, 1):
                    self._take()
                    self._executor.run(steps)
                    if number == len(groups):
                        self._verify()
                    connection.call("/safe-mode/release")
        except _NothingDoneError as error:
            raise error.reason from error
        except BaseException as error:
            self._undo_in_safe_mode(error)

    def with_armed_rollback(self) -> list[str]:
        connection, planned = self._connection, self._planned
        armed = False
        try:
            armed = arm(connection, planned.plan, planned.reading)
            with connection.pinned():
                self._executor.run(planned.plan.steps)
                self._verify()
                disarm(connection)
        except BaseException as error:
            self._undo_by_plan(error, armed)
        return [] if armed else ["the router took no armed roll-back (device-mode?); only this program could undo"]

    # --- forward -----------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        try:
            self._connection.call("/safe-mode/take")
        except RouterRefused as error:
            held = "taken" in error.message.lower() or "another" in error.message.lower()
            reason = safe_mode_held(self._connection.host) if held else error
            if self._writing:
                raise reason from error
            raise _NothingDoneError(reason) from error
        self._writing = True

    def _verify(self) -> None:
        """The router shows what was sent and uses it; then the caller's own check."""
        reading = settled(self._connection, self._planned.desired, self._clock.monotonic, self._clock.sleep)
        left = self._planned.again(reading)
        if left:
            first = _name(left.steps[0])
            raise RouterError(
                f"Router {self._connection.host} took the change but shows something else ({first}).",
                "The value may be written in a way this program does not know yet; see the plan.",
                self._connection.host,
            )
        for note in doubtful(self._planned.desired, reading.menus):
            self._log(f"note: {note}, says the router")
        if problems := unused(self._planned.desired, reading.menus):
            raise RouterError(
                f"Router {self._connection.host} does not use what it was given: {'; '.join(problems)}.",
                "Look at the rows named; a filter rule is inactive when the router cannot read it.",
                self._connection.host,
            )
        if self._check is not None:
            self._check(self._connection)

    # --- back --------------------------------------------------------------------------------------------------------

    def _undo_in_safe_mode(self, error: BaseException) -> None:
        connection = self._connection
        lost = not connection.is_open
        if not lost:
            # A refused unroll (safe mode left by overflow) shows in the reading below.
            with suppress(RouterError):
                connection.call("/safe-mode/unroll")
        connection.close()  # ends safe mode in any case: the router undoes what a lost session did
        settle_s = ROLLBACK_SETTLE_S if lost else 0.0
        self._finish(error, self._is_as_before(settle_s) or self._restore())

    def _undo_by_plan(self, error: BaseException, armed: bool) -> None:
        restored = self._is_as_before(0.0) or self._restore()
        if restored:
            with suppress(RouterError):
                disarm(self._connection)
        self._finish(error, restored, "" if restored or not armed else "The router undoes it itself within minutes.")

    def _is_as_before(self, settle_s: float) -> bool:
        """Reads the router, waiting for it to answer, and then `settle_s` for its own roll-back."""
        clock = self._clock
        give_up = clock.monotonic() + ROLLBACK_TIMEOUT_S
        settled: float | None = None
        while True:
            with suppress(RouterError):
                if self._same_as_before(read(self._connection)):
                    return True
                settled = clock.monotonic() + settle_s if settled is None else settled
            if clock.monotonic() >= (give_up if settled is None else settled):
                return False
            clock.sleep(ROLLBACK_INTERVAL_S)

    def _same_as_before(self, reading: Reading) -> bool:
        """Our rows and settings, whole and in order. Ids are left out: a row that was put back may have a new one."""
        return backups.content(backups.take(reading, backups.now())) == backups.content(self._saved)

    def _back_steps(self, reading: Reading) -> Sequence[Step]:
        return make_plan(backups.desired_from(self._saved), reading.menus, host=reading.host).steps

    def _restore(self) -> bool:
        """The second way back: an ordinary plan from the backup."""
        try:
            reading = read(self._connection)
            Executor(self._connection, reading).run(self._back_steps(reading))
            return not self._back_steps(read(self._connection))
        except RouterError as error:
            self._log(f"putting back the backup failed: {error.problem}")
            return False

    def _finish(self, error: BaseException, restored: bool, more: str = "") -> None:
        host = self._connection.host
        if restored:
            with suppress(RouterError):
                realign(self._connection)
            state = f"Router {host} is as before."
        elif isinstance(error, RouterLost | RouterUnreachable):
            state = f"Router {host} does not answer, so its state could not be checked. {more}".rstrip()
        else:
            state = (
                f"Router {host} is NOT as before: run `anycastlab router plan` and restore the backup. {more}".rstrip()
            )
        if isinstance(error, AnycastlabError):
            raise ApplyError(f"{error.problem} {state}", error.hint, host, restored=restored) from error
        if isinstance(error, Exception):
            raise ApplyError(
                f"Changing router {host} failed: {str(error) or type(error).__name__}. {state}",
                "",
                host,
                restored=restored,
            ) from error
        self._log(f"interrupted: {state}")
        raise error


class _NothingDoneError(Exception):
    """Refused before the first write; there is nothing to undo."""

    def __init__(self, reason: RouterError) -> None:
        self.reason = reason
        super().__init__(reason.problem)


def _name(step: Step) -> str:
    row = getattr(step, "row", None)
    menu = getattr(step, "menu", "") or (row.menu if row else "")
    tag = getattr(step, "tag", "") or (row.tag if row else "")
    names = ", ".join(p.name for p in getattr(step, "properties", ()))
    return " ".join(part for part in (type(step).__name__.lower(), menu, tag, names) if part)
