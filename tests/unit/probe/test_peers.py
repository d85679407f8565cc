"""Two probes talk over real sockets on 127.1.0.1 and 127.1.0.2."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import dns.message
import dns.rrset
import pytest

from anycastlab.probe import peers
from anycastlab.probe.config import Frr, Guard, Peer, ProbeConfig
from anycastlab.probe.health import Ailment
from anycastlab.probe.loop import Loop
from anycastlab.probe.machine import Verdict
from anycastlab.probe.peers import MOST, Peers, parse

ADDRESSES = {"node01": "127.1.0.1", "node02": "127.1.0.2"}
TIMEOUT_S = 0.2


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
    asked: list[tuple[str, Ailment]] = field(default_factory=list)
    says: str | None = "itself"

    def __post_init__(self) -> None:
        self.resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.resolver.bind((self.config.address, self.config.resolver_port))
        self.loop.on_readable(self.resolver, self._resolve)
        self.peers = Peers(self.loop, self.config, self._request, self.revoked.append, self.verdicts.append)

    def _request(self, peer: str, ailment: Ailment) -> tuple[bool, str]:
        self.asked.append((peer, ailment))
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
def pair() -> Iterator[Pair]:
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
            resolver_port=resolver_port,
            guard=dataclasses.replace(Guard(), port=port, ask_timeout_s=TIMEOUT_S),
        )
        ends.append(End(config, loop))
    yield Pair(loop, *ends)
    loop.close()


def ask(pair: Pair, ailment: Ailment = Ailment.LOCAL) -> Verdict:
    pair.one.peers.ask(7, ailment)
    pair.run_until(lambda: pair.one.verdicts)
    (verdict,) = pair.one.verdicts
    assert (verdict.number, verdict.peer) == (7, "node02")
    return verdict


@pytest.mark.parametrize("ailment", list(Ailment))
def test_a_peer_that_stays_and_answers_promises(pair: Pair, ailment: Ailment) -> None:
    verdict = ask(pair, ailment)
    assert verdict.promised
    assert pair.two.asked == [("node01", ailment)]


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
    verdict = ask(pair, Ailment.WRONG)
    assert not verdict.promised
    assert "asked directly" in verdict.why


def test_a_peer_whose_probe_is_silent_is_no_refuge(pair: Pair) -> None:
    pair.loop.forget(pair.two.peers._socket)
    pair.two.peers._socket.close()
    verdict = ask(pair)
    assert (verdict.promised, verdict.refused) == (False, False)
    assert verdict.why == "its probe does not answer"


def test_a_promise_taken_back_is_heard(pair: Pair) -> None:
    pair.two.peers.revoke(("node01",))
    pair.run_until(lambda: pair.one.revoked)
    assert set(pair.one.revoked) == {"node02"}


def test_strangers_and_impostors_are_not_heard(pair: Pair) -> None:
    port = pair.one.config.guard.port
    target = (ADDRESSES["node02"], port)

    def message(**more: object) -> bytes:
        return json.dumps({"v": 1, "op": "stay?", "from": "node01", "nonce": "x", "ailment": "local", **more}).encode()

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.1.0.9", 0))
        stranger.sendto(message(), target)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as impostor:
        impostor.bind((ADDRESSES["node01"], 0))
        for data in (message(**{"from": "node03"}), message(v=2), message(ailment="hunger"), b"\xff", b"[]", b""):
            impostor.sendto(data, target)
    pair.run_until(lambda: False, 0.1)
    assert pair.two.asked == []


def test_a_flood_of_strangers_is_not_even_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr(peers, "parse", read.append)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.1.0.9", 0))
        for _ in range(100):
            stranger.sendto(b"{" * MOST, (ADDRESSES["node02"], pair.two.config.guard.port))
    pair.run_until(lambda: read, 0.1)
    assert read == []


def test_too_long_a_message_is_none() -> None:
    assert parse(json.dumps({"v": 1, "pad": "x" * MOST}).encode()) is None
