"""One RouterOS API session, with librouteros's traps handled once for everybody.

What the library (4.2) does and what is done about it here:

- calls are lazy generators: `call` returns finished lists;
- after a time-out the next call returns the late answer: a session that failed in any way is closed and never reused;
- values are cast both ways (comment "10" becomes an int, "no" becomes False): words stay text in both directions;
- text that is not UTF-8 is dropped silently: kept by `surrogateescape`, and sent back as the same bytes;
- the password is in its debug log: nothing is logged here;
- a `!trap` with unknown words is a TypeError, a `!fatal` without words an IndexError, `!empty` unknown: read here;
- lengths are believed: bounded here (`limits`).

The sentences themselves are read and written by `wire`, the bytes by `transport`.

A write whose answer was lost is never sent again: nobody knows whether it happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from librouteros.exceptions import ConnectionClosed, FatalError, LibRouterosError

from anycastlab.routeros.errors import (
    RouterDenied,
    RouterError,
    RouterLost,
    RouterRefused,
    RouterUnreachable,
    refused,
)
from anycastlab.routeros.limits import API_PORT, API_TLS_PORT, CALL_TIMEOUT_S
from anycastlab.routeros.transport import Opener, Transport, open_transport
from anycastlab.routeros.wire import Reply, Words, read_answer, read_tagged

_READING = frozenset({"print", "getall", "get"})


@dataclass(frozen=True)
class Target:
    """Where a router's API is and who asks. The password appears in no repr."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls: bool = True
    fingerprint: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def label(self) -> str:
        """What messages call it, and its backups' folder: several labs' routers share one address."""
        return router_label(self.host, self.port, self.tls)


def router_label(host: str, port: int | None, tls: bool) -> str:
    """The address alone where the port is the usual one."""
    return host if port in (None, API_TLS_PORT if tls else API_PORT) else f"{host}:{port}"


class Connection:
    """A session that is opened when first used and opened again after it broke. Not for several greenlets at once."""

    def __init__(
        self,
        target: Target,
        opener: Opener = open_transport,
        clock: Callable[[], float] = time.monotonic,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self.target = target
        self.round_trips = 0
        self._opener = opener
        self._clock = clock
        self._call_timeout_s = call_timeout_s
        self._transport: Transport | None = None
        self._protocol: Words | None = None
        self._pinned = False
        self._used = False

    def __repr__(self) -> str:
        return f"Connection({self.target.user}@{self.target}, {'open' if self._protocol else 'closed'})"

    @property
    def host(self) -> str:
        """The router as messages call it."""
        return self.target.label

    @property
    def is_open(self) -> bool:
        return self._protocol is not None

    def open(self) -> None:
        """Connects and logs in unless that is done. Errors: RouterUnreachable, RouterDenied."""
        if self._protocol is None:
            self._open()

    def close(self) -> None:
        """Ends the session; a safe mode it holds is rolled back by the router. Never raises."""
        transport, self._transport, self._protocol = self._transport, None, None
        if transport is not None:
            with suppress(OSError):
                transport.close()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Within, a broken session is an error and is not opened again: what holds it (safe mode) is gone with it."""
        self.open()
        self._pinned = True
        try:
            yield
        finally:
            self._pinned = False

    def call(self, command: str, *words: str) -> list[Reply]:
        """All rows of the answer, values as text. A `=ret=` in `!done` is a row of its own.

        Errors: RouterRefused and its kinds for traps, RouterLost, RouterUnreachable, RouterDenied.
        """
        reusing = self.is_open and self._used
        if self._pinned and not self.is_open:
            raise RouterLost(f"The session with router {self.host} is gone.", host=self.host)
        self.open()
        try:
            return self._exchange(command, words)
        except _ClosedError as error:
            # A session kept over a long wait may have been closed by the router meanwhile. Reading again is harmless.
            if not reusing or self._pinned or command.rsplit("/", 1)[-1] not in _READING:
                raise error.lost from error
            self._open()
            try:
                return self._exchange(command, words)
            except _ClosedError as again:
                raise again.lost from again

    def call_many(self, commands: Sequence[Sequence[str]]) -> list[list[Reply] | RouterRefused]:
        """Several readings in one round trip, told apart by `.tag`; a refused one is in its place in the answer.

        The router runs them side by side, so they must not depend on each other. Errors as `call`, but for traps.
        """
        if not commands:
            return []
        if any(command[0].rsplit("/", 1)[-1] not in _READING for command in commands):
            raise ValueError("only readings can be asked side by side")
        reusing = self.is_open and self._used
        if self._pinned and not self.is_open:
            raise RouterLost(f"The session with router {self.host} is gone.", host=self.host)
        self.open()
        try:
            return self._exchange_tagged(commands)
        except _ClosedError as error:
            if not reusing or self._pinned:
                raise error.lost from error
            self._open()
            try:
                return self._exchange_tagged(commands)
            except _ClosedError as again:
                raise again.lost from again

    def print(self, menu: str, proplist: Sequence[str] = (), *queries: str) -> list[Reply]:
        """Every row of a menu, whole, with just the named properties."""
        words = [f"=.proplist={','.join(proplist)}"] if proplist else []
        return self.call(f"{menu}/print", *words, *queries)

    def add(self, menu: str, properties: dict[str, str], before: str | None = None) -> str:
        """Adds a row, returns its id ('' where the version tells none)."""
        words = [f"={key}={value}" for key, value in properties.items()]
        if before is not None:
            words.append(f"=place-before={before}")
        rows = self.call(f"{menu}/add", *words)
        return rows[-1].get("ret", "") if rows else ""

    def set(self, menu: str, row_id: str | None, properties: dict[str, str | None]) -> None:
        """Changes properties of a row (None as id: of a settings menu). A value None clears the property."""
        words = [f"=.id={row_id}"] if row_id is not None else []
        words += [f"=!{key}=" if value is None else f"={key}={value}" for key, value in properties.items()]
        self.call(f"{menu}/set", *words)

    def remove(self, menu: str, row_id: str) -> None:
        if not row_id:
            raise ValueError("remove without an id would mean nothing, or everything")
        self.call(f"{menu}/remove", f"=.id={row_id}")

    def move(self, menu: str, row_id: str, before: str | None) -> None:
        """Puts a row before another, by id; None puts it last."""
        words = [f"=numbers={row_id}"]
        if before is not None:
            words.append(f"=destination={before}")
        self.call(f"{menu}/move", *words)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        target = self.target
        self.close()
        transport = self._opener(target.host, target.port, target.tls, target.fingerprint)
        self._transport, self._protocol, self._used = transport, Words(transport, "utf-8"), False
        try:
            self._exchange("/login", (f"=name={target.user}", f"=password={target.password}"))
        except (_ClosedError, RouterLost) as error:
            reason = (error.lost if isinstance(error, _ClosedError) else error).problem.rstrip(".").rsplit(": ", 1)[-1]
            raise RouterUnreachable(
                f"{target} accepts the connection but does not speak the RouterOS API: {reason}.",
                "Is this the API's port (8728 plain, 8729 TLS), and is this machine in the service's address list?",
                target.host,
            ) from error
        except RouterError as error:
            self.close()
            raise self._denied(error) from error
        self._used = False

    def _denied(self, error: RouterError) -> RouterError:
        message = getattr(error, "message", "")
        low = message.lower()
        if "invalid user" in low or "cannot log in" in low or "wrong" in low:
            return RouterDenied(
                f"Router {self.host} does not accept user {self.target.user} with this password.",
                "Set ANYCASTLAB_ROUTER_USER and ANYCASTLAB_ROUTER_PASSWORD.",
                self.host,
            )
        if "permission" in low or "not allowed" in low:
            return RouterDenied(
                f"User {self.target.user} may not use the API of router {self.host}: {message}.",
                "Its group needs the policy api (and read, write, test).",
                self.host,
            )
        return error

    def _exchange(self, command: str, words: Sequence[str]) -> list[Reply]:
        """One sentence out, one answer in."""
        with self._guarded(command) as protocol:
            protocol.writeSentence(command, *words)
            rows, traps = read_answer(protocol)
        if traps:
            raise self._refused(command, traps)
        return rows

    def _exchange_tagged(self, commands: Sequence[Sequence[str]]) -> list[list[Reply] | RouterRefused]:
        with self._guarded(commands[0][0]) as protocol:
            protocol.writeSentences([(*command, f".tag={number}") for number, command in enumerate(commands)])
            answers = read_tagged(protocol, len(commands))
        return [
            self._refused(command[0], traps) if traps else rows
            for command, (rows, traps) in zip(commands, answers, strict=True)
        ]

    @contextmanager
    def _guarded(self, command: str) -> Iterator[Words]:
        """Around one exchange: anything but a well-formed answer closes the session."""
        protocol, transport = self._protocol, self._transport
        assert protocol is not None
        assert transport is not None
        self.round_trips += 1
        transport.deadline = self._clock() + self._call_timeout_s
        try:
            yield protocol
        except (ConnectionClosed, ConnectionError) as error:
            self.close()
            raise _ClosedError(self._lost(command, "the router closed the connection")) from error
        except TimeoutError as error:
            self.close()
            raise self._lost(command, f"no complete answer within {self._call_timeout_s:g} s") from error
        except FatalError as error:
            self.close()
            raise self._lost(command, f"the router ended the session ({error})") from error
        except (LibRouterosError, OSError) as error:
            self.close()
            raise _ClosedError(self._lost(command, f"the answer is not the API's protocol ({error})")) from error
        except BaseException:
            self.close()  # interrupted inside an answer: the rest of it must not be taken for the next one
            raise
        self._used = True

    def _refused(self, command: str, traps: Sequence[Reply]) -> RouterRefused:
        # With several traps the last is the verdict, the ones before are its reasons.
        message = "; ".join(dict.fromkeys(trap.get("message", "") for trap in traps))
        return refused(message, traps[-1].get("category", ""), command, self.host)

    def _lost(self, command: str, reason: str) -> RouterLost:
        return RouterLost(
            f"The session with router {self.host} broke at {command}: {reason}.",
            "Is the router restarting or overloaded? Run again when it answers.",
            self.host,
        )


class _ClosedError(Exception):
    """The session ended with nothing of an answer understood; `lost` is what to tell."""

    def __init__(self, lost: RouterLost) -> None:
        self.lost = lost
        super().__init__(lost.problem)
