"""Safe mode: one session holds it, and when that session is lost, everything changed since is undone.

Behaviour from the MikroTik documentation (Safe Mode) and from reports on 7.21 and 7.24: one holder on the whole router;
changes of other sessions are undone too; a second `take` by the holder does nothing; with more than 100 changes safe
mode is left and nothing is undone; `/quit` keeps the changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anycastlab.virtual_router import limits
from anycastlab.virtual_router.dataplane.api import CommandRefused
from anycastlab.virtual_router.store import Checkpoint, Store


@dataclass(frozen=True)
class Hold:
    """Who holds safe mode, what to go back to, and whether losing the session undoes (`on-error`)."""

    session: int
    user: str
    owner: str
    checkpoint: Checkpoint
    undo_when_lost: bool = True


class SafeMode:
    """`log(topics, message)` receives what a router would log."""

    def __init__(self, store: Store, log: Callable[[str, str], None]) -> None:
        self._store = store
        self._log = log
        self.hold: Hold | None = None
        self.changes = 0

    def take(self, session: int, user: str, owner: str, on_error: str = "unroll") -> None:
        """Raises CommandRefused while another session holds it."""
        if self.hold is None:
            self.hold = Hold(session, user, owner, self._store.checkpoint(), on_error != "release")
            self.changes = 0
            self._log("system,info", f"safe mode taken by {user}")
            return
        if self.hold.session == session:
            return
        if self.hold.user == user:
            raise CommandRefused("Safe Mode is taken by current user in another session. Action aborted.")
        raise CommandRefused(f"Safe Mode is taken by another user ({self.hold.user}). Action aborted.")

    def release(self, session: int) -> None:
        """Keeps the changes. Raises CommandRefused when this session does not hold safe mode."""
        self._own(session)
        self._end("released")

    def unroll(self, session: int) -> None:
        """Undoes the changes; the session stays. Raises CommandRefused when it does not hold safe mode."""
        hold = self._own(session)
        self._end("unrolled")
        self._store.restore(hold.checkpoint)

    def lost(self, session: int) -> bool:
        """The session ended without `/quit`; True when something was undone."""
        hold = self.hold
        if hold is None or hold.session != session:
            return False
        undo = hold.undo_when_lost and self.changes > 0
        self._end("unrolled, session lost" if undo else "released, session lost")
        if undo:
            self._store.restore(hold.checkpoint)
        return undo

    def quit(self, session: int) -> None:
        """The session said `/quit`: changes stay."""
        if self.hold is not None and self.hold.session == session:
            self._end("released")

    def changed(self) -> None:
        """A write happened, by whichever session."""
        if self.hold is None:
            return
        self.changes += 1
        if self.changes > limits.SAFE_MODE_ACTIONS:
            self._end(f"left, more than {limits.SAFE_MODE_ACTIONS} changes")

    def status(self, session: int) -> dict[str, str]:
        """As `/safe-mode/print` shows it to this session."""
        if self.hold is None:
            return {"enabled": "false", "current": "false"}
        current = "true" if self.hold.session == session else "false"
        return {"enabled": "true", "user": self.hold.user, "current": current, "owner": self.hold.owner}

    def _own(self, session: int) -> Hold:
        if self.hold is None or self.hold.session != session:
            raise CommandRefused("Safe Mode has not been taken. Action aborted.")
        return self.hold

    def _end(self, how: str) -> None:
        assert self.hold is not None
        self._log("system,info", f"safe mode of {self.hold.user} {how}")
        self.hold = None
        self.changes = 0
