"""Questions over the wire: one fresh socket, one id, one deadline per check; no check ever waits for another.

A query that got no answer in time has failed, but its socket stays open for a while: a late answer proves that the
resolver is slow and not dead.
"""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

from anycastlab.outside_text import one_line
from anycastlab.probe import wire
from anycastlab.probe.config import Question
from anycastlab.probe.health import Outcome, Result
from anycastlab.probe.loop import Loop

# Octets; more than any answer expected here, and a UDP reply without EDNS has at most 512.
RECEIVE_SIZE = 2048
# Replies read from one socket before it is given up: a flood of forged ones must not hold the loop.
MOST_STRAYS = 20
# Seconds by which the loop may be late before a latency says more about the probe than about the resolver.
TRUSTED_LATENESS_S = 0.03

Judge = Callable[[wire.Reply], tuple[Outcome, str]]
Done = Callable[[Result], None]
Late = Callable[[float], None]


@dataclass(frozen=True)
class Query:
    """What to ask, and what to think of a reply."""

    name: str
    qtype: int
    judge: Judge


def identity(name: str, expected: str) -> Query:
    """Who are you? Only NOERROR with exactly the expected TXT is good."""

    def judge(reply: wire.Reply) -> tuple[Outcome, str]:
        if reply.rcode == wire.NOERROR and expected in reply.texts:
            return Outcome.OK, expected
        shown = one_line(", ".join(reply.texts)[:40]) or f"{reply.answers} answers"
        return Outcome.WRONG, f"{reply.rcode_name} {shown} instead of {expected}"

    return Query(name, wire.TXT, judge)


def random_local(suffix: str) -> Query:
    """A name nobody has asked before: no cache and no stale answer can know it, so it comes from the router."""
    return Query(f"{secrets.token_hex(6)}.{suffix}", wire.A, _from_authority)


def random_public(suffix: str) -> Query:
    """The same for the provider's side."""
    return Query(f"{secrets.token_hex(6)}.{suffix}", wire.A, _from_authority)


def _from_authority(reply: wire.Reply) -> tuple[Outcome, str]:
    # NXDOMAIN is an answer: whoever gave it was reached.
    good = reply.rcode in (wire.NOERROR, wire.NXDOMAIN)
    return (Outcome.OK if good else Outcome.WRONG), reply.rcode_name


class Check:
    """One question on its way. Calls `done` exactly once, and `late` at most once, for an answer after the deadline."""

    def __init__(
        self,
        loop: Loop,
        server: tuple[str, int],
        query: Query,
        timeout_s: float,
        done: Done,
        late: Late | None = None,
        listen_s: float = 0.0,
    ) -> None:
        self._loop = loop
        self._query = query
        self._done: Done | None = done
        self._late = late
        self._listen_s = listen_s
        self._strays = 0
        self._id = secrets.randbits(16)
        self._sent = loop.now()
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        loop.on_readable(self._socket, self._readable)
        self._timer = loop.call_at(self._sent + timeout_s, self._timed_out)
        try:
            # Connected: replies from elsewhere are dropped by the kernel, and "port unreachable" is reported.
            self._socket.connect(server)
            self._socket.send(wire.query(query.name, query.qtype, self._id))
        except OSError as error:
            self._failed(error)

    def _readable(self) -> None:
        while self._strays < MOST_STRAYS:
            try:
                data = self._socket.recv(RECEIVE_SIZE)
            except BlockingIOError:
                return
            except OSError as error:
                self._failed(error)
                return
            reply = wire.parse_reply(data, self._query.name, self._query.qtype, self._id)
            if reply is not None:
                self._answered(reply)
                return
            self._strays += 1
        self._finish(Outcome.SILENT, "only foreign replies")
        self._close()

    def _answered(self, reply: wire.Reply) -> None:
        if self._done is not None:
            outcome, detail = self._query.judge(reply)
            self._finish(outcome, detail)
        elif self._late is not None:
            self._late(self._loop.now())
        self._close()

    def _failed(self, error: OSError) -> None:
        if error.errno == errno.ECONNREFUSED:
            self._finish(Outcome.GONE, "port closed")
            self._close()
        elif self._done is not None:
            # Not sent at all (no route, no buffer): judged at the deadline, like a lost packet, so that a node without
            # network does not count failures faster than its interval.
            self._timer.cancel()
            detail = error.strerror or "not sent"
            self._timer = self._loop.call_at(self._timer.due, lambda: self._end(detail))

    def _end(self, detail: str) -> None:
        self._finish(Outcome.SILENT, detail)
        self._close()

    def _timed_out(self) -> None:
        if self._done is None:
            self._close()
            return
        waited = self._timer.due - self._sent
        self._finish(Outcome.SILENT, f"no answer within {1000 * waited:.0f} ms")
        if self._late is None or self._listen_s <= waited:
            self._close()
        else:
            self._timer = self._loop.call_at(self._sent + self._listen_s, self._close)

    def _finish(self, outcome: Outcome, detail: str) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        now = self._loop.now()
        measured = self._loop.lateness_s <= TRUSTED_LATENESS_S
        done(Result(outcome, self._sent, now, now - self._sent, detail, measured))

    def _close(self) -> None:
        self._timer.cancel()
        if self._socket.fileno() >= 0:
            self._loop.forget(self._socket)
            self._socket.close()


class Repeated:
    """One question, asked on its own fixed grid."""

    def __init__(
        self,
        loop: Loop,
        question: Question,
        server: tuple[str, int],
        make: Callable[[], Query],
        done: Done,
        first_in_s: float = 0.0,
        late: Late | None = None,
        listen_s: float = 0.0,
    ) -> None:
        def ask() -> None:
            Check(loop, server, make(), question.timeout_s, done, late, listen_s)

        loop.every(question.interval_s, ask, first_in_s)
