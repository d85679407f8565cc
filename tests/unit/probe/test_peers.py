"""Two probes talk over real sockets on 127.1.0.1 and 127.1.0.2."""

from __future__ import annotations

import dataclasses
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dns.message
import dns.rrset
import pytest

from anycastlab.probe import seal
from anycastlab.probe.config import Frr, Guard, Peer, ProbeConfig
from anycastlab.probe.decision import Verdict
from anycastlab.probe.health import Outcome, Result, Symptom
from anycastlab.probe.loop import Loop
from anycastlab.probe.outside import Outside
from anycastlab.probe.peers import MOST, Peers, parse

ADDRESSES = {"node01": "127.1.0.1", "node02": "127.1.0.2"}
TIMEOUT_S = 0.2
OLD, NEW = seal.Key(b"o" * seal.KEY_BYTES), seal.Key(b"n" * seal.KEY_BYTES)


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((ADDRESSES["node01"], 0))
        return int(probe.getsockname()[1])


@dataclass
class End:
    """One node's end: its resolver, its probe's peers, and what it was told."""

    config: ProbeConfig
    loop: Loop
    answer: tuple[bool, str] = (True, "announcing and healthy")
    verdicts: list[Verdict] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    asked: list[tuple[str, Symptom]] = field(default_factory=list)
    says: str | None = "itself"
    looks: list[str] = field(default_factory=list)
    seen: list[Result | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.resolver.bind((self.config.address, self.config.resolver_port))
        self.loop.on_readable(self.resolver, self._resolve)
        self.peers = Peers(self.loop, self.config, self._request, self.revoked.append, self.verdicts.append, self._look)
        self.outside = Outside(self.loop, self.config, self.peers.send, self.seen.append)

    def _look(self, peer: Peer, message: dict[str, Any]) -> None:
        self.looks.append(str(message["op"]))
        self.outside.take(peer, message)

    def knows(self, *keys: seal.Key) -> str:
        """It has these keys now; what it complains about."""
        Path(self.config.key_path).write_text(seal.dump(keys))
        return self.peers.refresh()

    def _request(self, peer: str, symptom: Symptom) -> tuple[bool, str]:
        self.asked.append((peer, symptom))
        return self.answer

    def _resolve(self) -> None:
        data, sender = self.resolver.recvfrom(2048)
        if self.says is None:
            return
        reply = dns.message.make_response(dns.message.from_wire(data))
        text = self.config.node if self.says == "itself" else self.says
        reply.answer.append(dns.rrset.from_text(reply.question[0].name, 0, "IN", "TXT", f'"{text}"'))
        self.resolver.sendto(reply.to_wire(), sender)


@dataclass
class Pair:
    loop: Loop
    one: End
    two: End

    def run_until(self, done: Callable[[], object], seconds: float = 1.0) -> None:
        end = self.loop.now() + seconds
        self.loop.call_at(end, lambda: None)
        while not done() and self.loop.now() < end:
            self.loop.turn()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    loop = Loop()
    resolver_port, port = free_port(), free_port()
    ends = []
    for name, other in (("node01", "node02"), ("node02", "node01")):
        config = ProbeConfig(
            node=name,
            address=ADDRESSES[name],
            service_addresses=("10.1.9.53",),
            router_dns="10.1.2.1",
            frr=Frr(65053, ("10.1.2.1",)),
            peers=(Peer(other, ADDRESSES[other]),),
            interface="lo",
            key_path=str(tmp_path / f"{name}.key"),
            resolver_port=resolver_port,
            guard=dataclasses.replace(Guard(), port=port, ask_timeout_s=TIMEOUT_S),
        )
        Path(config.key_path).write_text(seal.dump((OLD,)))
        ends.append(End(config, loop))
    yield Pair(loop, *ends)
    loop.close()


def ask(pair: Pair, symptom: Symptom = Symptom.LOCAL) -> Verdict:
    pair.one.peers.ask(7, symptom)
    pair.run_until(lambda: pair.one.verdicts)
    (verdict,) = pair.one.verdicts
    assert (verdict.number, verdict.peer) == (7, "node02")
    return verdict


@pytest.mark.parametrize("symptom", list(Symptom))
def test_a_peer_that_stays_and_answers_promises(pair: Pair, symptom: Symptom) -> None:
    verdict = ask(pair, symptom)
    assert verdict.promised
    assert pair.two.asked == [("node01", symptom)]


def test_a_peer_that_refuses_says_why_at_once(pair: Pair) -> None:
    pair.two.answer = (False, "ailing itself (local)")
    verdict = ask(pair)
    assert (verdict.promised, verdict.refused, verdict.why) == (False, True, "ailing itself (local)")
    # One verdict, even when the peer's resolver answers later
    pair.run_until(lambda: False, 2 * TIMEOUT_S)
    assert len(pair.one.verdicts) == 1


def test_what_a_peer_says_reaches_neither_systemd_nor_a_terminal_as_a_command(pair: Pair) -> None:
    # JSON carries line breaks, escapes and halves of characters
    pair.two.answer = (False, "no\nSTOPPING=1\x1b[2J\ud800.")
    verdict = ask(pair)
    assert verdict.why == "no STOPPING=1 [2J ."


@pytest.mark.parametrize("says", [None, "node01"])
def test_a_peer_whose_resolver_fails_the_same_question_is_no_refuge(pair: Pair, says: str | None) -> None:
    pair.two.says = says
    verdict = ask(pair, Symptom.WRONG)
    assert not verdict.promised
    assert "asked directly" in verdict.why


def test_a_peer_whose_probe_is_silent_is_no_refuge(pair: Pair) -> None:
    pair.loop.forget(pair.two.peers._socket)
    pair.two.peers._socket.close()
    verdict = ask(pair)
    assert (verdict.promised, verdict.refused) == (False, False)
    assert verdict.why == "its probe does not answer"


def test_a_promise_taken_back_is_heard_once(pair: Pair) -> None:
    assert ask(pair).promised
    pair.two.peers.revoke(("node01",))
    pair.run_until(lambda: False, 0.1)
    assert pair.one.revoked == ["node02"]


def test_a_promise_that_was_never_given_is_not_taken_back(pair: Pair) -> None:
    pair.two.answer = (False, "drained")
    ask(pair)
    pair.two.peers.revoke(("node01",))
    pair.run_until(lambda: False, 0.1)
    assert pair.one.revoked == []


def test_strangers_and_impostors_are_not_heard(pair: Pair) -> None:
    port = pair.one.config.guard.port
    target = (ADDRESSES["node02"], port)

    def message(**more: object) -> bytes:
        body = {"v": 2, "op": "stay?", "from": "node01", "to": "node02", "nonce": "x", "ailment": "local", "fresh": ""}
        return seal.close((OLD,), json.dumps({**body, **more}).encode(), time.time())

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.1.0.9", 0))
        stranger.sendto(message(), target)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as impostor:
        impostor.bind((ADDRESSES["node01"], 0))
        for data in (
            message(**{"from": "node03"}),
            message(to="node03"),
            message(v=1),
            message(symptom="hunger"),
            message(nonce=["x"]),
            b"\xff",
            b"[]",
            b"",
            b"\n" * 900,
        ):
            impostor.sendto(data, target)
    pair.run_until(lambda: False, 0.1)
    assert pair.two.asked == []


def test_a_flood_of_strangers_is_not_even_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr(seal, "open_", lambda _keys, data, _now: read.append(data))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.1.0.9", 0))
        for _ in range(100):
            stranger.sendto(b"{" * MOST, (ADDRESSES["node02"], pair.two.config.guard.port))
    pair.run_until(lambda: read, 0.1)
    assert read == []


@pytest.mark.parametrize("data", [b"[" * 900, b'{"v": 1}', b'{"v": true}', b"\xff", b"null"])
def test_what_is_no_message_of_ours_is_none(data: bytes) -> None:
    assert parse(data) is None


def test_too_long_a_message_is_not_heard(pair: Pair) -> None:
    body = {"v": 2, "op": "stay?", "from": "node01", "to": "node02", "nonce": "x", "pad": "x" * MOST}
    with from_node01() as sock:
        data = seal.close((OLD,), json.dumps(body).encode(), time.time())
        sock.sendto(data, (ADDRESSES["node02"], pair.two.config.guard.port))
    pair.run_until(lambda: False, 0.1)
    assert "node01" in pair.two.peers.refresh()


def from_node01() -> socket.socket:
    """Somebody who sends as node01: who forges the source address needs no more."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((ADDRESSES["node01"], 0))
    return sock


class Wire:
    """All datagrams of one end, as somebody on the wire keeps them."""

    def __init__(self, end: End) -> None:
        self.sent: list[bytes] = []
        self._socket = end.peers._socket
        end.peers._socket = self  # type: ignore[assignment]

    def sendto(self, data: bytes, to: tuple[str, int]) -> int:
        self.sent.append(data)
        return self._socket.sendto(data, to)

    def __getattr__(self, name: str) -> object:
        return getattr(self._socket, name)


def test_who_forges_an_address_but_has_no_key_is_not_heard(pair: Pair) -> None:
    body = {"v": 2, "from": "node01", "to": "node02", "nonce": "x", "ailment": "local", "fresh": ""}
    port = pair.two.config.guard.port
    with from_node01() as sock:
        for op in ("stay?", "revoke", "stay", "again"):
            text = json.dumps({**body, "op": op}).encode()
            for data in (text, b"\n" + text, seal.close((NEW,), text, time.time()), b"0" * 32 + b"\n" + text):
                sock.sendto(data, (ADDRESSES["node02"], port))
    pair.run_until(lambda: False, 0.1)
    assert (pair.two.asked, pair.two.revoked) == ([], [])
    assert pair.two.peers.refresh() == "messages in the name of node01 do not bear this home's key"


def test_what_was_heard_once_is_worth_nothing_when_it_is_sent_again(pair: Pair) -> None:
    wires = Wire(pair.one), Wire(pair.two)
    assert ask(pair).promised
    pair.two.peers.revoke(("node01",))
    pair.run_until(lambda: pair.one.revoked)
    pair.one.verdicts.clear()
    pair.one.peers.ask(8, Symptom.LOCAL)
    pair.run_until(lambda: pair.one.verdicts)
    assert pair.one.verdicts[0].promised
    pair.run_until(lambda: False, 0.05)
    before = list(pair.two.asked), list(pair.one.revoked)
    port = pair.one.config.guard.port
    for wire, (source, target) in zip(wires, (("node01", "node02"), ("node02", "node01")), strict=True):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((ADDRESSES[source], 0))
            for data in list(wire.sent) * 3:
                sock.sendto(data, (ADDRESSES[target], port))
    pair.run_until(lambda: False, 0.2)
    # Then neither is a node bound by a question of the past, nor is the promise that holds taken away
    assert (pair.two.asked, pair.one.revoked) == before


def test_what_comes_in_by_another_interface_is_not_heard(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.if_nametoindex("lo")
    monkeypatch.setattr(socket, "if_nametoindex", lambda name: real + 1 if name == "lo" else 1 / 0)
    assert not ask(pair).promised
    assert pair.two.asked == []


def test_an_interface_that_is_not_there_is_told(pair: Pair) -> None:
    pair.two.peers._config = dataclasses.replace(pair.two.config, interface="eth9")
    assert pair.two.peers.refresh() == "this probe and its peers cannot talk: there is no interface eth9"
    assert not ask(pair).promised


@pytest.mark.parametrize("ailing", ["has the new key", "has the old key"])
def test_while_a_new_key_goes_round_all_hear_each_other(pair: Pair, ailing: str) -> None:
    ahead, behind = (pair.one, pair.two) if ailing == "has the new key" else (pair.two, pair.one)
    assert ahead.knows(NEW, dataclasses.replace(OLD, until=int(time.time()) + 60)) == ""
    assert behind.knows(OLD) == ""
    assert ask(pair).promised
    pair.two.peers.revoke(("node01",))
    pair.run_until(lambda: pair.one.revoked)
    assert pair.one.revoked == ["node02"]


def test_the_old_key_ends(pair: Pair) -> None:
    pair.two.knows(NEW, dataclasses.replace(OLD, until=int(time.time()) - 1))
    verdict = ask(pair)
    # Nobody stays for a node that is not understood, so it stays itself
    assert (verdict.promised, verdict.refused, verdict.why) == (False, False, "its probe does not answer")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        ("", "it is empty"),
        ("\n", "it is empty"),
        ("swordfish\n", "line 1 is no key"),
        (f"{'0' * 64}\nx\n", "line 2 is no key"),
        (f"{'0' * 64} until 1\n", "its first key has an end"),
        (f"{'0' * 64}\n" * 5, "it has more than 4 lines"),
        (b"\xff\x00", "it is no text"),
    ],
)
def test_a_node_without_a_key_says_so_and_talks_when_it_has_one(
    pair: Pair, content: str | bytes | None, why: str
) -> None:
    path = Path(pair.two.config.key_path)
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert pair.two.peers.refresh() == f"this probe and its peers cannot talk: {path}: {why}"
    assert not ask(pair).promised
    assert pair.two.knows(OLD) == ""
    pair.one.verdicts.clear()
    assert ask(pair).promised


# From outside -------------------------------------------------------------------------------------------------------


def look(pair: Pair) -> Result | None:
    before = len(pair.one.seen)
    pair.one.outside.ask()
    pair.run_until(lambda: len(pair.one.seen) > before)
    return pair.one.seen[before]


def test_a_peer_says_that_it_gets_an_answer(pair: Pair) -> None:
    found = look(pair)
    assert found is not None
    assert (found.ok, found.detail) == (True, "node02")
    assert pair.two.looks == ["see?"]


@pytest.mark.parametrize("says", [None, "node02"], ids=["a firewall", "another node"])
def test_a_resolver_that_answers_nobody_else_is_told_so(pair: Pair, says: str | None) -> None:
    pair.one.says = says
    found = look(pair)
    assert found is not None
    assert found.outcome is Outcome.SILENT
    assert found.detail.startswith("node02: ")


def test_peers_that_say_nothing_are_no_verdict(pair: Pair) -> None:
    pair.two.knows(seal.Key(b"x" * seal.KEY_BYTES))
    assert look(pair) is None
    assert pair.two.looks == []


def test_who_asks_too_often_is_not_looked_at_again(pair: Pair) -> None:
    peer = pair.one.config.peers[0]
    for number in range(20):
        pair.one.peers.send(peer, {"op": "see?", "nonce": f"{number}"})
    pair.run_until(lambda: False, 0.3)
    assert len(pair.two.looks) == 20
    assert pair.one.looks == ["seen"]


def test_what_was_not_asked_for_is_not_believed(pair: Pair) -> None:
    pair.two.peers.send(pair.two.config.peers[0], {"op": "seen", "nonce": "", "yes": False, "why": "x"})
    pair.run_until(lambda: pair.one.looks, 0.5)
    assert pair.one.seen == []


def test_the_time_limit_of_a_round_that_is_over_does_not_end_the_next(pair: Pair) -> None:
    """Silence would count as "nobody is there to ask", and a node behind a firewall would begin by announcing."""
    assert look(pair)
    pair.run_until(lambda: False, pair.one.config.questions.outside.timeout_s - 0.05)
    pair.one.says = None
    found = look(pair)
    assert found is not None
    assert found.outcome is Outcome.SILENT
