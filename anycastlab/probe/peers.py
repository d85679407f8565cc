"""The probes' own conversation: "will you stay?" over UDP, and the same question to the peer's resolver beside it.

A message is one small JSON object in one datagram:

    {"v": 1, "op": "stay?", "from": "node01", "nonce": "…", "ailment": "local"}    the request
    {"v": 1, "op": "stay", "from": "node02", "nonce": "…", "yes": true, "why": "…"}    the answer to that nonce
    {"v": 1, "op": "revoke", "from": "node02"}    a promise given earlier is void

Only datagrams from a configured peer's address and in that peer's name are read. Anything lost counts as "no".
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable
from typing import Any

from anycastlab.outside_text import one_line
from anycastlab.probe.checks import Check, identity, random_local
from anycastlab.probe.config import Peer, ProbeConfig
from anycastlab.probe.health import Ailment, Result
from anycastlab.probe.loop import Loop, bound
from anycastlab.probe.machine import Verdict

VERSION = 1
# Octets of one datagram; every message above fits, and an answer is no bigger than what was asked for.
MOST = 512
_MOST_READS = 32  # datagrams per turn of the loop

OnRequest = Callable[[str, Ailment], tuple[bool, str]]


class Peers:
    """Asks all peers, and answers theirs."""

    def __init__(
        self,
        loop: Loop,
        config: ProbeConfig,
        on_request: OnRequest,
        on_revoked: Callable[[str], None],
        on_verdict: Callable[[Verdict], None],
    ) -> None:
        self._loop = loop
        self._config = config
        self._on_request = on_request
        self._on_revoked = on_revoked
        self._on_verdict = on_verdict
        self._by_address = {peer.address: peer for peer in config.peers}
        self._open: dict[str, _Asking] = {}
        self._socket = bound(config.address, config.guard.port, socket.SOCK_DGRAM)
        loop.on_readable(self._socket, self._readable)

    def ask(self, number: int, ailment: Ailment) -> None:
        """One verdict per peer follows, within the ask timeout."""
        for peer in self._config.peers:
            _Asking(self, peer, number, ailment)

    def revoke(self, names: tuple[str, ...]) -> None:
        for peer in self._config.peers:
            if peer.name in names:
                # Twice: there is no answer to it, and one lost packet would leave the service to nobody for seconds.
                self._send(peer, {"op": "revoke"})
                self._send(peer, {"op": "revoke"})

    def _send(self, peer: Peer, message: dict[str, Any]) -> None:
        data = json.dumps({"v": VERSION, "from": self._config.node, **message}).encode()
        try:
            self._socket.sendto(data[:MOST], (peer.address, self._config.guard.port))
        except OSError:
            return  # as good as lost: the deadline decides

    def _readable(self) -> None:
        for _ in range(_MOST_READS):
            try:
                data, sender = self._socket.recvfrom(MOST + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error about an earlier datagram
            peer = self._by_address.get(sender[0])
            if peer is None:
                continue  # before anything is read: a flood of strangers must not fill the socket
            message = parse(data)
            if message is not None and message.get("from") == peer.name:
                self._take(peer, message)

    def _take(self, peer: Peer, message: dict[str, Any]) -> None:
        op, nonce = message.get("op"), str(message.get("nonce", ""))
        if op == "revoke":
            self._on_revoked(peer.name)
        elif op == "stay" and (asking := self._open.get(nonce)) and asking.peer is peer:
            asking.said(message.get("yes") is True, one_line(str(message.get("why", ""))[:120]))
        elif op == "stay?":
            try:
                ailment = Ailment(message.get("ailment"))
            except ValueError:
                return
            yes, why = self._on_request(peer.name, ailment)
            self._send(peer, {"op": "stay", "nonce": nonce[:32], "yes": yes, "why": why[:120]})

    def _query_check(self, asking: _Asking, done: Callable[[Result], None]) -> None:
        config = self._config
        if asking.ailment is Ailment.LOCAL:
            query = random_local(config.local_suffix)
        else:
            query = identity(config.identity_name, asking.peer.name)
        Check(self._loop, (asking.peer.address, config.resolver_port), query, config.guard.ask_timeout_s, done)


class _Asking:
    """One peer in one round: its promise and its resolver's answer, both good or it is no."""

    def __init__(self, owner: Peers, peer: Peer, number: int, ailment: Ailment) -> None:
        self._owner = owner
        self.peer = peer
        self.ailment = ailment
        self._number = number
        self._nonce = secrets.token_hex(8)
        self._promise: tuple[bool, str] | None = None
        self._result: Result | None = None
        self._given = False
        self._sent = owner._loop.now()
        owner._open[self._nonce] = self
        timeout = owner._config.guard.ask_timeout_s
        self._timer = owner._loop.call_later(timeout, lambda: self.said(None, "its probe does not answer"))
        owner._send(peer, {"op": "stay?", "nonce": self._nonce, "ailment": ailment.value})
        owner._query_check(self, self._answered)

    def said(self, yes: bool | None, why: str) -> None:
        self._timer.cancel()
        if self._owner._open.pop(self._nonce, None) is None:
            return
        self._promise = (bool(yes), why)
        if yes is False:
            self._given = True
            self._give(promised=False, refused=True, why=why)
        elif self._result is not None:
            self._weigh()

    def _answered(self, result: Result) -> None:
        if self._given:
            return
        self._result = result
        if self._promise is not None:
            self._weigh()

    def _weigh(self) -> None:
        assert self._promise is not None
        assert self._result is not None
        result, (yes, why) = self._result, self._promise
        slow = self.ailment is Ailment.SLOW and result.latency_s > self._owner._config.latency.threshold_s
        if not yes:
            self._give(promised=False, refused=False, why=why)
        elif not result.ok or slow:
            detail = f"{1000 * result.latency_s:.0f} ms" if slow else result.detail
            self._give(promised=False, refused=False, why=f"asked directly: {detail}")
        else:
            self._give(promised=True, refused=False, why=why)

    def _give(self, *, promised: bool, refused: bool, why: str) -> None:
        self._owner._on_verdict(Verdict(self._number, self.peer.name, promised, refused, self._sent, why))


def parse(data: bytes) -> dict[str, Any] | None:
    """A message of this protocol's version, or None. Pure."""
    if len(data) > MOST:
        return None
    try:
        message = json.loads(data)
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get("v") != VERSION:
        return None
    return message
