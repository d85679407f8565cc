"""Each question against a small name server in this process, over real sockets."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator

import dns.message
import dns.rcode
import dns.rrset
import pytest

from anycastlab.probe.checks import Check, Query, Repeated, identity, random_local
from anycastlab.probe.config import Question
from anycastlab.probe.health import Outcome, Result
from anycastlab.probe.loop import Loop

Handle = Callable[[dns.message.Message], list[bytes]]
HOST = "127.0.0.1"
# For answers that come: no busy machine makes them late. For those that do not: a while that is worth waiting.
PATIENCE_S = 30.0
TIMEOUT_S = 0.15


class Server:
    """Answers each query with whatever `handle` says."""

    def __init__(self) -> None:
        self.handle: Handle = lambda query: [answer(query, "node01")]
        self.queries: list[dns.message.Message] = []
        self.ports: list[int] = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.address = (HOST, self.socket.getsockname()[1])
        self.answered = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            data, sender = self.socket.recvfrom(2048)
            if not data:
                return
            query = dns.message.from_wire(data)
            self.queries.append(query)
            self.ports.append(sender[1])
            for reply in self.handle(query):
                self.socket.sendto(reply, sender)
            self.answered.set()

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", self.address)
        self._thread.join()
        self.socket.close()


def answer(query: dns.message.Message, text: str, rcode: dns.rcode.Rcode = dns.rcode.NOERROR) -> bytes:
    reply = dns.message.make_response(query)
    reply.set_rcode(rcode)
    if text:
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 0, "IN", "TXT", f'"{text}"'))
    return reply.to_wire()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def run(loop: Loop, until: Callable[[], bool]) -> None:
    end = loop.now() + PATIENCE_S
    while not until():
        assert loop.now() < end, "it did not come"
        loop.turn()


def check(server: tuple[str, int], query: Query, timeout_s: float = PATIENCE_S) -> Result:
    loop = Loop()
    results: list[Result] = []
    Check(loop, server, query, timeout_s, results.append)
    run(loop, lambda: bool(results))
    loop.close()
    [result] = results
    return result


WHO = identity("id.anycast.lan", "node01")


def test_the_expected_record_is_good(server: Server) -> None:
    result = check(server.address, WHO)
    assert (result.outcome, result.detail) == (Outcome.OK, "node01")
    assert 0 <= result.latency_s < PATIENCE_S


@pytest.mark.parametrize("rcode", [dns.rcode.REFUSED, dns.rcode.SERVFAIL, dns.rcode.NXDOMAIN])
def test_any_other_code_is_wrong(server: Server, rcode: dns.rcode.Rcode) -> None:
    server.handle = lambda query: [answer(query, "", rcode)]
    result = check(server.address, WHO)
    assert result.outcome is Outcome.WRONG
    assert dns.rcode.to_text(rcode) in result.detail


def test_another_node_and_a_blocked_name_are_wrong(server: Server) -> None:
    server.handle = lambda query: [answer(query, "node02")]
    assert check(server.address, WHO).outcome is Outcome.WRONG
    server.handle = lambda query: [answer(query, "")]
    assert check(server.address, WHO).outcome is Outcome.WRONG


def test_what_a_resolver_says_is_one_line(server: Server) -> None:
    server.handle = lambda query: [answer(query, "a\\010STOPPING=1\\027")]
    assert check(server.address, WHO).detail == "NOERROR a STOPPING=1  instead of node01"


def test_silence_is_silent_at_the_deadline(server: Server) -> None:
    server.handle = lambda _: []
    result = check(server.address, WHO, TIMEOUT_S)
    assert result.outcome is Outcome.SILENT
    assert TIMEOUT_S <= result.latency_s < PATIENCE_S


def test_a_closed_port_is_gone_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind((HOST, 0))
        address = unused.getsockname()
    result = check(address, WHO)
    assert result.outcome is Outcome.GONE
    assert result.latency_s < PATIENCE_S


def test_forged_replies_do_not_count_and_do_not_hide_the_true_one(server: Server) -> None:
    def handle(query: dns.message.Message) -> list[tuple[float, bytes]]:
        forged = dns.message.from_wire(answer(query, "node01"))
        forged.id ^= 1
        return [forged.to_wire(), b"garbage", answer(query, "node02")]

    server.handle = handle
    assert check(server.address, WHO).detail.endswith("node02 instead of node01")


def test_a_late_answer_is_a_failure_and_a_sign_of_life(server: Server) -> None:
    # Given a server that answers only once the question has failed
    failed = threading.Event()
    server.handle = lambda query: [answer(query, "node01")] if failed.wait(PATIENCE_S) else []
    loop = Loop()
    results: list[Result] = []
    signs: list[float] = []

    def done(result: Result) -> None:
        results.append(result)
        failed.set()

    Check(loop, server.address, WHO, TIMEOUT_S, done, signs.append, listen_s=PATIENCE_S)
    run(loop, lambda: bool(signs))
    loop.close()
    assert [result.outcome for result in results] == [Outcome.SILENT]
    assert len(signs) == 1


@pytest.mark.parametrize(
    ("rcode", "outcome"),
    [
        (dns.rcode.NXDOMAIN, Outcome.OK),
        (dns.rcode.NOERROR, Outcome.OK),
        (dns.rcode.SERVFAIL, Outcome.WRONG),
        (dns.rcode.REFUSED, Outcome.WRONG),
    ],
)
def test_a_local_name_only_has_to_come_back(server: Server, rcode: dns.rcode.Rcode, outcome: Outcome) -> None:
    server.handle = lambda query: [answer(query, "", rcode)]
    assert check(server.address, random_local("probe.anycast.lan")).outcome is outcome


def test_no_two_local_names_are_the_same(server: Server) -> None:
    loop = Loop()
    answers: list[Result] = []
    question = Question(interval_s=0.05, timeout_s=PATIENCE_S, rise=1, fall=1)
    Repeated(loop, question, server.address, lambda: random_local("probe.anycast.lan"), answers.append)
    run(loop, lambda: len(answers) >= 8)
    loop.close()
    names = [query.question[0].name.to_text() for query in server.queries]
    assert len(names) >= 8
    assert len(set(names)) == len(names)
    assert all(name.endswith(".probe.anycast.lan.") for name in names)
    # A fresh socket each: nothing of an earlier query can be taken for its answer
    assert len(set(server.ports)) > len(server.ports) // 2


def test_a_hanging_question_delays_no_other(server: Server) -> None:
    # Given a question that gets no answer for as long as this test can take, and one that always gets one
    loop = Loop()
    answered: list[Result] = []
    hung: list[Result] = []
    server.handle = lambda query: [] if query.question[0].name.labels[0] == b"hang" else [answer(query, "node01")]
    hang = Question(interval_s=0.05, timeout_s=2 * PATIENCE_S, rise=1, fall=1)
    often = Question(interval_s=0.05, timeout_s=PATIENCE_S, rise=1, fall=1)
    Repeated(loop, hang, server.address, lambda: identity("hang.lan", "x"), hung.append)
    Repeated(loop, often, server.address, lambda: WHO, answered.append)
    # Then the second is asked and answered while the first still hangs
    run(loop, lambda: len(answered) >= 10)
    loop.close()
    assert {result.outcome for result in answered} == {Outcome.OK}
    assert hung == []


def test_a_question_keeps_its_grid_however_late_the_loop_is(server: Server) -> None:
    # Given a loop that comes round late, once by more than two intervals
    server.handle = lambda _: []
    now = 0.0
    asked: list[float] = []
    loop = Loop(lambda: now)

    def make() -> Query:
        asked.append(now)
        return WHO

    Repeated(loop, Question(interval_s=1, timeout_s=0.9, rise=1, fall=1), server.address, make, lambda _: None)
    for now in (0.0, 1.4, 2.0, 4.7, 5.0, 6.0):  # noqa: B007 - the loop's clock
        loop.turn()
    loop.close()
    # Then what was missed is not made up for, and the next ones are on time
    assert asked == [0.0, 1.4, 2.0, 4.7, 5.0, 6.0]


def test_an_answer_that_waits_in_the_socket_is_not_a_timeout(server: Server) -> None:
    # Given a probe that gets no processor time past the deadline, while the answer has long arrived
    loop = Loop()
    results: list[Result] = []
    Check(loop, server.address, WHO, TIMEOUT_S, results.append)
    assert server.answered.wait(PATIENCE_S)
    time.sleep(2 * TIMEOUT_S)
    run(loop, lambda: bool(results))
    loop.close()
    # Then it is good, but its latency is not held against the resolver
    assert [result.outcome for result in results] == [Outcome.OK]
    assert not results[0].measured


def test_jumps_of_the_wall_clock_change_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a wall clock that jumps by years, back and forth, with every look
    jumps = itertools.cycle([0.0, 2e9, 1e8])
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    # When a good and a silent question are asked
    good = check(server.address, WHO)
    server.handle = lambda _: []
    silent = check(server.address, WHO, TIMEOUT_S)
    # Then neither their ends nor their latencies know about it
    assert good.outcome is Outcome.OK
    assert 0 <= good.latency_s < PATIENCE_S
    assert silent.outcome is Outcome.SILENT
    assert TIMEOUT_S <= silent.latency_s < PATIENCE_S
