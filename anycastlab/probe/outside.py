"""Whether other nodes get an answer from this node's resolver: a firewall on it stands between them, and not before it.

    {"op": "see?", "nonce": "…"}    the request to every peer: ask my resolver who it is
    {"op": "seen", "nonce": "…", "yes": true, "why": "…"}    what came of it

The answer comes back through a firewall that lets nothing else in, as it belongs to a request. One peer that was
answered is enough; silence of all says nothing about this node.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from anycastlab.outside_text import one_line
from anycastlab.probe.checks import Check, identity
from anycastlab.probe.config import Peer, ProbeConfig
from anycastlab.probe.health import Outcome, Result
from anycastlab.probe.loop import Loop, Timer

# Seconds between two looks at one peer's resolver: a replayed request must not make this probe somebody's hammer.
LOOK_EVERY_S = 0.4
_MOST_WHY = 120  # characters of a reason

Send = Callable[[Peer, dict[str, Any]], None]


class Outside:
    """Asks all peers at once, and looks when they ask. `on_result` gets what they saw, or None when none answered."""

    def __init__(self, loop: Loop, config: ProbeConfig, send: Send, on_result: Callable[[Result | None], None]) -> None:
        self._loop = loop
        self._config = config
        self._send = send
        self._on_result = on_result
        self._round: _Round | None = None
        self._looked: dict[str, float] = {}

    def ask(self) -> None:
        """One result follows, within the question's timeout; a round that is under way goes on."""
        if self._round is None and self._config.peers:
            timer = self._loop.call_later(self._config.questions.outside.timeout_s, self._conclude)
            waiting = {peer.name for peer in self._config.peers}
            self._round = _Round(secrets.token_hex(8), self._loop.now(), waiting, timer)
            for peer in self._config.peers:
                self._send(peer, {"op": "see?", "nonce": self._round.nonce})

    def take(self, peer: Peer, message: dict[str, Any]) -> None:
        """A message of a peer with one of the two words above."""
        nonce = str(message.get("nonce", ""))[:32]
        if message.get("op") == "see?":
            self._look(peer, nonce)
        elif self._round is not None and nonce == self._round.nonce and peer.name in self._round.waiting:
            self._round.waiting.discard(peer.name)
            if message.get("yes") is True:
                self._round.seen_by = peer.name
                self._conclude()
                return
            self._round.why[peer.name] = one_line(str(message.get("why", "")), _MOST_WHY)
            if not self._round.waiting:
                self._conclude()

    def _look(self, peer: Peer, nonce: str) -> None:
        now = self._loop.now()
        if now - self._looked.get(peer.name, float("-inf")) < LOOK_EVERY_S:
            return
        self._looked[peer.name] = now
        config = self._config

        def done(result: Result) -> None:
            why = one_line(result.detail, _MOST_WHY)
            self._send(peer, {"op": "seen", "nonce": nonce, "yes": result.ok, "why": why})

        query = identity(config.identity_name, peer.name)
        Check(self._loop, (peer.address, config.resolver_port), query, config.guard.ask_timeout_s, done)

    def _conclude(self) -> None:
        ended, self._round = self._round, None
        if ended is None:
            return
        ended.timer.cancel()  # or it would end the next round
        now = self._loop.now()
        if ended.seen_by:
            self._on_result(Result(Outcome.OK, ended.sent, now, now - ended.sent, ended.seen_by))
        elif ended.why:
            why = ", ".join(f"{name}: {text}" for name, text in sorted(ended.why.items()))
            self._on_result(Result(Outcome.SILENT, ended.sent, now, now - ended.sent, why))
        else:
            self._on_result(None)


class _Round:
    def __init__(self, nonce: str, sent: float, waiting: set[str], timer: Timer) -> None:
        self.nonce = nonce
        self.sent = sent
        self.waiting = waiting
        self.timer = timer
        self.why: dict[str, str] = {}
        self.seen_by = ""
