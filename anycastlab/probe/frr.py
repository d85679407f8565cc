"""Asks bgpd itself, over the socket that vtysh uses, with a hard deadline per look.

No vtysh process: it costs 50 ms of a small core per look, and it talks to every daemon, so a frozen zebra would freeze
it. The conversation (unchanged since FRR 2): a command ends in a NUL; a reply ends in three NULs and a status byte.
"""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any

from anycastlab.probe.config import ProbeConfig
from anycastlab.probe.effect import Route
from anycastlab.probe.loop import Loop

_END = b"\0\0\0"
# Octets; a reply about one prefix has 2 kB. More than this is not an answer to what was asked.
_MOST = 256 * 1024


class Conversation:
    """One connection, one list of commands, one deadline. `done` gets the replies, or None and the reason."""

    def __init__(
        self,
        loop: Loop,
        path: str,
        commands: Sequence[str],
        deadline: float,
        done: Callable[[list[str] | None, int], None],
    ) -> None:
        self._loop = loop
        self._commands = list(commands)
        self._replies: list[str] = []
        self._buffer = b""
        self._done = done
        self._timer = loop.call_at(deadline, lambda: self._finish(None, errno.ETIMEDOUT))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._socket.connect(path)
            self._loop.on_readable(self._socket, self._readable)
            self._next()
        except OSError as error:  # EAGAIN: the backlog of a frozen daemon is full
            code = errno.ETIMEDOUT if error.errno == errno.EAGAIN else (error.errno or errno.EIO)
            self._timer.cancel()
            self._timer = loop.call_later(0, lambda: self._finish(None, code))

    def _next(self) -> None:
        self._socket.send(self._commands[len(self._replies)].encode() + b"\0")

    def _readable(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(None, error.errno or errno.EIO)
            return
        if not data:
            self._finish(None, errno.ECONNRESET)
            return
        self._buffer += data
        end = self._buffer.find(_END)
        if end < 0 or len(self._buffer) < end + 4:
            if len(self._buffer) > _MOST:
                self._finish(None, errno.EMSGSIZE)
            return
        self._replies.append(self._buffer[:end].decode("utf-8", "replace"))
        self._buffer = self._buffer[end + 4 :]
        if len(self._replies) == len(self._commands):
            self._finish(self._replies, 0)
            return
        try:
            self._next()
        except OSError as error:
            self._finish(None, error.errno or errno.EIO)

    def _finish(self, replies: list[str] | None, code: int) -> None:
        self._timer.cancel()
        if self._socket.fileno() < 0:
            return
        self._loop.forget(self._socket)
        self._socket.close()
        self._done(replies, code)


class Bgpd:
    """Looks at the service prefixes and, when it must be, shuts the neighbours down."""

    def __init__(self, loop: Loop, config: ProbeConfig) -> None:
        self._loop = loop
        self._config = config
        self._path = f"{config.frr.directory}/bgpd.vty"
        self._looking = False

    def look(self, seen: Callable[[Route, float], None], wanted: bool) -> None:
        """`seen(route, asked_at)`; one look at a time, further ones are skipped while it lasts.

        A route that is `wanted` but told to nobody may wait for the router, or for a bfdd that is frozen: ask it too.
        """
        if self._looking:
            return
        self._looking = True
        asked = self._loop.now()

        def tell(route: Route) -> None:
            self._looking = False
            seen(route, asked)

        def done(replies: list[str] | None, code: int) -> None:
            route = _without_answer(code) if replies is None else judge(replies)
            if route is Route.KNOWN and wanted:
                self._ask_bfdd(tell)
            else:
                tell(route)

        commands = [_show(address) for address in self._config.service_addresses]
        Conversation(self._loop, self._path, commands, asked + self._config.effect.answer_s, done)

    def _ask_bfdd(self, tell: Callable[[Route], None]) -> None:
        def done(replies: list[str] | None, code: int) -> None:
            frozen = replies is None and _without_answer(code) is Route.FROZEN
            tell(Route.FROZEN if frozen else Route.KNOWN)

        deadline = self._loop.now() + self._config.effect.answer_s
        Conversation(self._loop, f"{self._config.frr.directory}/bfdd.vty", ["show version"], deadline, done)

    def shut(self, shut: bool, done: Callable[[str], None]) -> None:
        """`done(text)` with an empty text when bgpd took it."""
        word = "" if shut else "no "
        lines = [f"{word}neighbor {neighbor} shutdown" for neighbor in self._config.frr.neighbors]
        commands = ["enable", "configure terminal", f"router bgp {self._config.frr.asn}", *lines, "end"]

        def ended(replies: list[str] | None, code: int) -> None:
            if replies is None:
                done(f"bgpd did not take it ({errno.errorcode.get(code, code)})")
            else:
                done(" ".join(reply.strip() for reply in replies if reply.strip()))

        Conversation(self._loop, self._path, commands, self._loop.now() + self._config.effect.answer_s, ended)


def _show(address: str) -> str:
    ip = ip_address(address)
    return f"show bgp ipv{ip.version} unicast {ip}/{ip.max_prefixlen} json"


def _without_answer(code: int) -> Route:
    if code in (errno.ENOENT, errno.ECONNREFUSED, errno.ECONNRESET):
        return Route.ABSENT  # no bgpd: its sessions are closed as well
    if code in (errno.EACCES, errno.EPERM):
        return Route.HIDDEN
    return Route.FROZEN


def judge(replies: Sequence[str]) -> Route:
    """What bgpd's JSON about each service prefix comes to: the most announced of them. Pure."""
    found = [_judge(reply) for reply in replies]
    for route in (Route.TOLD, Route.KNOWN):
        if route in found:
            return route
    return Route.ABSENT


def _judge(reply: str) -> Route:
    try:
        entry: Any = json.loads(reply or "{}")
    except (ValueError, RecursionError):
        return Route.ABSENT  # "% Network not in table", "BGP instance not found"
    if not isinstance(entry, dict) or not entry.get("paths"):
        return Route.ABSENT
    return Route.TOLD if entry.get("advertisedTo") else Route.KNOWN
