"""The seam between the router's rows and what they do.

The API side owns the rows; a `Dataplane` makes them true (BIRD, nftables, netwatch, resolver) and reports what is
running. Nothing on the API side knows how; nothing behind this seam knows the wire protocol.

The real one comes from `plane.create(config: Config) -> Dataplane` beside this module.

Every method is called on the event loop that called `start`. `annotate` and `refuse` are called once per row of a
print or write and must not wait for anything; the others may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Row = Mapping[str, str]
"""One row, values in the router's own canonical text (`true`, `1m30s`, `10.1.9.53`). `.id` is there except in a
singleton menu. Properties that are not set but have a default are filled in."""

Snapshot = Mapping[str, Sequence[Row]]
"""Menu path (`/ip/firewall/nat`) to its rows in order; a singleton menu (`/ip/dns`) has exactly one row.
Disabled rows are included (`disabled=true`). Only configured rows: nothing that `read` reports."""

NETWATCH_POLICIES = frozenset({"read", "write", "test", "reboot"})
"""What a netwatch script may do, whoever wrote it (MikroTik documentation, Netwatch)."""


class CommandRefused(Exception):  # noqa: N818 - the router refuses; nothing went wrong here
    """A command was refused; `message` is the text a client gets to see, in RouterOS's words."""

    def __init__(self, message: str, category: int | None = None) -> None:
        self.message = message
        self.category = category
        super().__init__(message)


class Console(Protocol):
    """How scripts reach the rows: the same commands, checks, permissions and write log as an API client."""

    async def execute(
        self,
        command: str,
        arguments: Mapping[str, str] = ...,
        *,
        queries: Sequence[str] = ...,
        policies: frozenset[str] = ...,
        user: str = ...,
    ) -> list[dict[str, str]]:
        """Runs one command (`/ip/firewall/nat/enable`, {"numbers": "*5"}) and returns its replies.

        `queries` are API query words (`?comment=x`, `?#|`). The id made by an `add` comes back as [{"ret": "*7"}].
        Raises CommandRefused.
        """
        ...

    def log(self, topics: str, message: str) -> None:
        """Adds a line to the router's `/log` (topics as RouterOS lists them: `netwatch,info`)."""
        ...


class Dataplane(Protocol):
    """What makes the rows true."""

    async def start(self, console: Console) -> None:
        """Called once, before the first `apply`. Raises when the machinery cannot run at all."""
        ...

    async def stop(self) -> None:
        """Called once at the end; running processes are stopped, kernel state may stay."""
        ...

    async def apply(self, snapshot: Snapshot) -> None:
        """Makes the whole snapshot true. Called after writes, several of them coalesced; never twice at a time.

        A row that cannot be made true must not keep the others from it: leave it out and say so in `annotate`.
        """
        ...

    async def read(self, menu: str) -> list[dict[str, str]] | None:
        """Rows of a runtime menu, or None when the menu is none of ours.

        A row without `.id` gets one; a stable own key may be given as `.id` and is shown as it is. In a menu that also
        has configured rows (`/ip/route`) the rows come after those and should carry `dynamic=true`. In a singleton
        menu the one row is laid over the configured one.
        """
        ...

    def annotate(self, menu: str, row: Row) -> dict[str, str]:
        """Runtime properties of a configured row (`inactive`, `invalid`, `status`, `since`, `bytes` …).

        `.why` explains them and is shown as RouterOS's `.about`.
        """
        ...

    def refuse(self, menu: str, row: Row) -> str | None:
        """Why this row cannot be emulated ("action=tarpit"), or None. Asked before a write is accepted."""
        ...

    async def action(self, menu: str, verb: str, arguments: Mapping[str, str]) -> list[dict[str, str]] | None:
        """Runs a runtime verb and returns its reply rows; None when it is not emulated. Raises CommandRefused.

        Menu and verb as in `/ip/firewall/connection` + `remove` (`numbers` is a comma-separated list of ids),
        `/routing/bgp/session` + `clear`, `/ip/dns/cache` + `flush`, `/` + `ping`.
        """
        ...


_NULL_VERBS = frozenset(
    {"remove", "clear", "refresh", "resend", "flush", "ping", "reset-counters", "reset-counters-all"}
)


class NullDataplane:
    """Does nothing and remembers what it was asked: for tests of the API side, and of its clients.

    Runtime verbs that a real one has succeed without effect; others are not emulated here either.

    `runtime` is what runtime menus show, `notes` what is laid over configured rows (by menu and row name or comment).
    """

    def __init__(self) -> None:
        self.applied: list[Snapshot] = []
        self.actions: list[tuple[str, str, dict[str, str]]] = []
        self.runtime: dict[str, list[dict[str, str]]] = {}
        self.notes: dict[tuple[str, str], dict[str, str]] = {}
        self.console: Console | None = None

    async def start(self, console: Console) -> None:
        self.console = console

    async def stop(self) -> None:
        self.console = None

    async def apply(self, snapshot: Snapshot) -> None:
        self.applied.append(snapshot)

    async def read(self, menu: str) -> list[dict[str, str]] | None:
        rows = self.runtime.get(menu)
        return None if rows is None else [dict(row) for row in rows]

    def annotate(self, menu: str, row: Row) -> dict[str, str]:
        for key in (row.get("name"), row.get("comment")):
            if key is not None and (menu, key) in self.notes:
                return self.notes[menu, key]
        return {}

    def refuse(self, menu: str, row: Row) -> str | None:  # noqa: ARG002 - the protocol's signature
        return None

    async def action(self, menu: str, verb: str, arguments: Mapping[str, str]) -> list[dict[str, str]] | None:
        self.actions.append((menu, verb, dict(arguments)))
        if menu in self.runtime and verb == "remove":
            gone = set(arguments.get("numbers", "").split(","))
            if gone - {row.get(".id", "") for row in self.runtime[menu]}:
                raise CommandRefused("no such item (4)")
            self.runtime[menu] = [row for row in self.runtime[menu] if row.get(".id") not in gone]
        return [] if verb in _NULL_VERBS else None
