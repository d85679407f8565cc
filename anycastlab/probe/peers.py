"""The probes' own conversation: "will you stay?" over UDP, and the same question to the peer's resolver beside it.

A message is one small JSON object in one datagram, sealed with the home's key (see `seal`):

    {"v": 2, "op": "stay?", "from": "node01", "to": "node02", "nonce": "…", "ailment": "local", "fresh": ""}
    {"v": 2, "op": "again", "from": "node02", "to": "node01", "nonce": "…", "fresh": "…"}    ask once more, with this
    {"v": 2, "op": "stay", "from": "node02", "to": "node01", "nonce": "…", "yes": true, "why": "…"}
    {"v": 2, "op": "revoke", "from": "node02", "to": "node01", "nonce": "…"}    the promise to that question is void

Who listens on the wire can send a datagram once more, and no seal tells that from the first. So everything is good
once: an answer and a revocation belong to the nonce of one question, and a question must bring a word (`fresh`) that
was made for it just before. The time that such a word is good for is the clock of who made it: boards without a
battery, whose clocks are far apart just when the provider is down, must hear each other.

Only datagrams from a configured peer's address, in that peer's name, to us, and from the interface that leads to the
peers are read. Anything lost or refused counts as "no".
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from anycastlab.outside_text import one_line
from anycastlab.probe import seal
from anycastlab.probe.checks import Check, identity, random_local
from anycastlab.probe.config import Peer, ProbeConfig
from anycastlab.probe.decision import Verdict
from anycastlab.probe.health import Result, Symptom
from anycastlab.probe.loop import Loop, bound

VERSION = 2
# Octets of one datagram; every message above fits, and an answer is hardly bigger than what was asked for.
MOST = 1024
_MOST_WHY = 120  # characters of a reason, at most four octets each
_MOST_READS = 32  # datagrams per turn of the loop
# Seconds that a fresh word may be used: far more than the way there and back.
FRESH_S = 1.0
# Seconds that a message without our key is told as a problem.
COMPLAIN_S = 60.0

# ip(7), ipv6(7): ask for, and find, the interface that a datagram came from.
_PKTINFO = {socket.AF_INET: (socket.IPPROTO_IP, 8, 8), socket.AF_INET6: (socket.IPPROTO_IPV6, 49, 50)}
_PKTINFO_SPACE = 64

OnRequest = Callable[[str, Symptom], tuple[bool, str]]


class Peers:
    """Asks all peers, and answers theirs. `refresh` now and then: it rereads the key and says what is wrong."""

    def __init__(
        self,
        loop: Loop,
        config: ProbeConfig,
        on_request: OnRequest,
        on_revoked: Callable[[str], None],
        on_verdict: Callable[[Verdict], None],
        on_look: Callable[[Peer, dict[str, Any]], None],
    ) -> None:
        self._loop = loop
        self._on_look = on_look
        self._config = config
        self._on_request = on_request
        self._on_revoked = on_revoked
        self._on_verdict = on_verdict
        self._by_address = {peer.address: peer for peer in config.peers}
        self._open: dict[str, _Asking] = {}
        self._keys: tuple[seal.Key, ...] = ()
        self._fresh: dict[str, tuple[str, float]] = {}  # peer → the word it must bring, and until when it is good
        self._asked: dict[str, dict[str, float]] = {peer.name: {} for peer in config.peers}  # nonces of late, by peer
        self._granted: dict[str, str] = {}  # peer → nonce of the question it was last promised something for
        self._refused: dict[str, float] = {}  # peer → when something in its name did not bear our key
        self._socket = bound(config.address, config.guard.port, socket.SOCK_DGRAM)
        level, self._want, self._kind = _PKTINFO[self._socket.family]
        self._socket.setsockopt(level, self._want, 1)
        loop.on_readable(self._socket, self._readable)
        self.refresh()

    def refresh(self) -> str:
        """Reread the key file. Returns what keeps the probes from talking, or nothing."""
        if not self._config.peers:
            return ""
        path = self._config.key_path
        why = ""
        try:
            with open(path, "rb") as file:
                self._keys = seal.parse(file.read(seal.MOST_FILE + 1).decode("ascii"))
        except OSError as error:
            self._keys, why = (), str(error.strerror)
        except seal.BadKeyFile as error:
            self._keys, why = (), str(error)
        except UnicodeDecodeError:
            self._keys, why = (), "it is no text"
        if why:
            return f"this probe and its peers cannot talk: {path}: {why}"
        try:
            socket.if_nametoindex(self._config.interface)
        except OSError:
            return f"this probe and its peers cannot talk: there is no interface {self._config.interface}"
        late = self._loop.now() - COMPLAIN_S
        if names := sorted(name for name, at in self._refused.items() if at > late):
            return f"messages in the name of {' and '.join(names)} do not bear this home's key"
        return ""

    def ask(self, number: int, symptom: Symptom) -> None:
        """One verdict per peer follows, within the ask timeout."""
        for peer in self._config.peers:
            _Asking(self, peer, number, symptom)

    def revoke(self, names: tuple[str, ...]) -> None:
        for peer in self._config.peers:
            nonce = self._granted.pop(peer.name, None) if peer.name in names else None
            if nonce is not None:
                # Twice: there is no answer to it, and one lost packet would leave the service to nobody for seconds.
                self.send(peer, {"op": "revoke", "nonce": nonce})
                self.send(peer, {"op": "revoke", "nonce": nonce})

    def send(self, peer: Peer, message: dict[str, Any]) -> None:
        """One sealed datagram; it may be lost, and nobody hears of that."""
        if not self._keys:
            return  # as good as lost
        whole = {"v": VERSION, "from": self._config.node, "to": peer.name, **message}
        data = json.dumps(whole, ensure_ascii=False).encode()
        try:
            self._socket.sendto(seal.close(self._keys, data, time.time()), (peer.address, self._config.guard.port))
        except OSError:
            return  # as good as lost: the deadline decides

    def _readable(self) -> None:
        for _ in range(_MOST_READS):
            try:
                data, about, _, sender = self._socket.recvmsg(MOST + 1, _PKTINFO_SPACE)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error about an earlier datagram
            peer = self._by_address.get(sender[0])
            if peer is None or not self._from_our_side(about):
                continue  # before anything is read: a flood of strangers must not fill the socket
            payload = seal.open_(self._keys, data, time.time()) if len(data) <= MOST else None
            if payload is None:
                if self._keys:
                    self._refused[peer.name] = self._loop.now()
                continue
            message = parse(payload)
            if message is not None and message.get("from") == peer.name and message.get("to") == self._config.node:
                self._take(peer, message)

    def _from_our_side(self, about: list[tuple[int, int, bytes]]) -> bool:
        """Whether a datagram came from the interface to the peers. Looked up each time: it may be renamed."""
        try:
            index = socket.if_nametoindex(self._config.interface)
        except OSError:
            return False
        for _, kind, data in about:
            if kind == self._kind:
                # in_pktinfo begins with the index; in6_pktinfo ends with it.
                where = data[:4] if self._socket.family == socket.AF_INET else data[16:20]
                return bool(struct.unpack("=i", where)[0] == index)
        return False

    def _take(self, peer: Peer, message: dict[str, Any]) -> None:
        op, nonce, fresh = message.get("op"), message.get("nonce"), message.get("fresh")
        if not isinstance(nonce, str):
            return
        if op == "revoke":
            self._take_back(peer, nonce)
        elif op == "again" and (asking := self._open.get(nonce)) and asking.peer is peer:
            asking.again(str(fresh)[:64])
        elif op == "stay" and (asking := self._open.get(nonce)) and asking.peer is peer:
            asking.said(message.get("yes") is True, one_line(str(message.get("why", "")), _MOST_WHY))
        elif op in ("see?", "seen"):
            self._on_look(peer, message)
        elif op == "stay?":
            self._answer(peer, nonce[:32], fresh, message.get("ailment"))

    def _answer(self, peer: Peer, nonce: str, fresh: object, said: object) -> None:
        try:
            symptom = Symptom(said)
        except ValueError:
            return
        now = self._loop.now()
        word, until = self._fresh.get(peer.name, ("", 0.0))
        if now >= until:
            word = secrets.token_hex(8)
            self._fresh[peer.name] = word, now + FRESH_S
        if fresh != word:
            self.send(peer, {"op": "again", "nonce": nonce, "fresh": word})
            return
        del self._fresh[peer.name]
        yes, why = self._on_request(peer.name, symptom)
        if yes:
            self._granted[peer.name] = nonce
        self.send(peer, {"op": "stay", "nonce": nonce, "yes": yes, "why": one_line(why, _MOST_WHY)})

    def _take_back(self, peer: Peer, nonce: str) -> None:
        asked = self._asked[peer.name]
        sent = asked.get(nonce)
        if sent is None:
            return  # a promise that is over, or was taken back before
        self._asked[peer.name] = {other: at for other, at in asked.items() if at > sent}
        self._on_revoked(peer.name)

    def _note_asked(self, peer: Peer, nonce: str, sent: float) -> None:
        """What may be taken back: the promise to this question, while it would hold."""
        earliest = sent - self._config.guard.promise_s - self._config.guard.ask_timeout_s
        asked = {other: at for other, at in self._asked[peer.name].items() if at >= earliest}
        self._asked[peer.name] = {**asked, nonce: sent}

    def _query_check(self, asking: _Asking, done: Callable[[Result], None]) -> None:
        config = self._config
        if asking.symptom is Symptom.LOCAL:
            query = random_local(config.local_suffix)
        else:
            query = identity(config.identity_name, asking.peer.name)
        Check(self._loop, (asking.peer.address, config.resolver_port), query, config.guard.ask_timeout_s, done)


class _Asking:
    """One peer in one round: its promise and its resolver's answer, both good or it is no."""

    def __init__(self, owner: Peers, peer: Peer, number: int, symptom: Symptom) -> None:
        self._owner = owner
        self.peer = peer
        self.symptom = symptom
        self._number = number
        self._nonce = secrets.token_hex(8)
        self._promise: tuple[bool, str] | None = None
        self._result: Result | None = None
        self._given = False
        self._sent = owner._loop.now()
        owner._open[self._nonce] = self
        timeout = owner._config.guard.ask_timeout_s
        self._timer = owner._loop.call_later(timeout, lambda: self.said(None, "its probe does not answer"))
        owner._note_asked(peer, self._nonce, self._sent)
        self.again("")
        owner._query_check(self, self._answered)

    def again(self, fresh: str) -> None:
        """Put the question, with the word that the peer gave for it; the first time there is none."""
        message = {"op": "stay?", "nonce": self._nonce, "ailment": self.symptom.value, "fresh": fresh}
        self._owner.send(self.peer, message)

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
        slow = self.symptom is Symptom.SLOW and result.latency_s > self._owner._config.latency.threshold_s
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
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("v") != VERSION:
        return None
    return message
