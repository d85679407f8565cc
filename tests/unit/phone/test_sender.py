"""The sender against a network in memory: every loss is known, so counts are demanded exactly; no real time passes."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from anycastlab import outside_text
from anycastlab.phone import limits, mix, schedule, summary
from anycastlab.phone.lookup import Times
from anycastlab.phone.records import OTHER_NODE, Outcome, Record
from anycastlab.phone.schedule import Parameters
from anycastlab.phone.sender import Identity, Sender, Setup
from anycastlab.phone.servers import Server, Transport
from anycastlab.phone.testing import MS, Answer, Handler, MemoryNetwork, Request

A, B = Server("10.0.0.1", 53), Server("10.0.0.2", 53)
IDENTITY = "id.anycast.lan"
ONE_NAME = mix.parse_json("x", '{"names": [{"name": "www.example", "expect": ["192.0.2.1"]}]}')
PARAMETERS = Parameters(rate=10, duration_s=10, seed=1, nonce="n", mix=ONE_NAME)
SETUP = Setup((A,), identity=Identity.NONE)


class Run:
    """A finished run and what the network saw."""

    def __init__(
        self, handler: Handler, parameters: Parameters = PARAMETERS, setup: Setup = SETUP, oversleep_ns: int = 0
    ) -> None:
        self.network = MemoryNetwork(handler, oversleep_ns)
        self.start_ns = self.network.now() + 1000 * MS
        self.sender = Sender(setup, schedule.make(parameters), self.network)
        self.records: list[Record] = []

    def go(self) -> Run:
        self.records = self.sender.run(self.start_ns)
        assert self.network.still_open == 0, "flows left open"
        return self

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(record.outcome.value for record in self.records)

    def asked_at(self) -> list[tuple[float, str, int]]:
        """(seconds after the start, server, flow number) of each query."""
        return [((r.at_ns - self.start_ns) / limits.NS, r.server, r.flow) for r in self.network.requests]


def run(handler: Handler, parameters: Parameters = PARAMETERS, setup: Setup = SETUP, oversleep_ns: int = 0) -> Run:
    return Run(handler, parameters, setup, oversleep_ns).go()


def good(request: Request) -> list[Answer]:
    return [Answer(request.reply())]


def silent(_request: Request) -> list[Answer]:
    return []


def by_number(*behaviours: Handler) -> Handler:
    """Query i of the run gets the i-th behaviour, round and round."""
    seen = iter(range(10**9))

    def handle(request: Request) -> Iterable[Answer]:
        return behaviours[next(seen) % len(behaviours)](request)

    return handle


# --- the schedule is kept ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [good, silent, lambda request: [Answer(request.reply(), delay_ms=1900)]])
def test_queries_leave_at_their_times_whatever_is_answered(handler: Handler) -> None:
    made = run(handler)

    assert [at for at, _, _ in made.asked_at()] == pytest.approx([i / 10 for i in range(100)])
    assert [r.intended_ns - made.start_ns for r in made.records] == [i * 100 * MS for i in range(100)]


def test_every_query_has_a_port_of_its_own() -> None:
    assert len({flow for _, _, flow in run(good).asked_at()}) == 100


def test_one_flow_uses_one_port() -> None:
    made = run(good, setup=replace(SETUP, one_flow=True))

    assert {flow for _, _, flow in made.asked_at()} == {0}
    assert made.outcomes == {"answered": 100}


def quick(request: Request) -> list[Answer]:
    """NXDOMAIN made by hand: 72,000 replies from a DNS library would take longer than the test is worth."""
    return [Answer(request.wire[:2] + b"\x81\x83" + request.wire[4:])]


def test_an_hour_at_household_rate_keeps_few_sockets() -> None:
    made = run(quick, replace(PARAMETERS, rate=20, duration_s=3600))

    assert made.outcomes == {"wrong": 72_000}
    assert made.network.most_open <= 20 * limits.DUPLICATE_WINDOW_S + 2


def test_a_dead_network_holds_sockets_only_as_long_as_it_must() -> None:
    made = run(silent, replace(PARAMETERS, rate=500, duration_s=20))

    assert made.outcomes == {"lost": 10_000}
    assert made.network.most_open <= 500 * (limits.TIMEOUT_S + limits.LATE_WINDOW_S) + 2


# --- outcomes on the wire ---------------------------------------------------------------------------------------------


def after(delay_ms: float, **reply: object) -> Handler:
    return lambda request: [Answer(request.reply(**reply), delay_ms=delay_ms)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("handler", "outcome", "rcode", "latency_ms"),
    [
        (after(5), "answered", "NOERROR", 5),
        (after(500), "answered", "NOERROR", 500),
        (after(501), "stalled", "NOERROR", 501),
        (after(1999), "stalled", "NOERROR", 1999),
        (after(2000), "late", "NOERROR", 2000),
        (after(4999), "late", "NOERROR", 4999),
        (after(5001), "lost", "", None),
        (silent, "lost", "", None),
        (after(5, rcode=2, data=None), "servfail", "SERVFAIL", 5),
        (after(2001, rcode=2, data=None), "late", "SERVFAIL", 2001),
        (after(5, rcode=5, data=None), "wrong", "REFUSED", 5),
        (after(5, rcode=3, data=None), "wrong", "NXDOMAIN", 5),
        (after(5, data=None), "wrong", "NOERROR", 5),
        (after(5, data="192.0.2.66"), "wrong", "NOERROR", 5),
        (lambda _: [Answer(error=errno.ECONNREFUSED)], "lost", "", None),
    ],
)
def test_what_an_answer_is_called(handler: Handler, outcome: str, rcode: str, latency_ms: float | None) -> None:
    made = run(handler)

    assert made.outcomes == {outcome: 100}
    assert {(r.rcode, r.latency_ms) for r in made.records} == {(rcode, latency_ms)}


def test_latency_counts_from_the_intended_time() -> None:
    # given a phone that wakes 30 ms late, and a server that takes 5 ms
    made = run(after(5), oversleep_ns=30 * MS)

    late_ms = [(r.sent_ns - r.intended_ns) / MS for r in made.records if r.sent_ns]
    assert [r.latency_ms for r in made.records] == [late + 5 for late in late_ms]
    assert max(late_ms) == 30


def spoofed(request: Request) -> list[Answer]:
    """A wrong id first, then a wrong question, then rubbish, then the truth."""
    raw = request.reply()
    wrong_id = bytes([raw[0] ^ 0x55]) + raw[1:]
    wrong_question = raw[:13] + b"X" + raw[14:]
    return [Answer(wrong_id, 1), Answer(wrong_question, 2), Answer(b"?", 3), Answer(raw, 4)]


def test_messages_that_do_not_fit_are_discarded_and_the_wait_goes_on() -> None:
    made = run(spoofed)

    assert made.outcomes == {"answered": 100}
    assert {(r.discarded, r.latency_ms) for r in made.records} == {(3, 4.0)}


def test_a_wrong_id_alone_is_a_loss() -> None:
    made = run(lambda request: spoofed(request)[:3])

    assert made.outcomes == {"lost": 100}
    assert sum(r.discarded for r in made.records) == 300


def test_duplicates_are_counted_and_change_nothing() -> None:
    made = run(lambda request: [Answer(request.reply(), 1), Answer(request.reply(), 2), Answer(request.reply(), 249)])

    assert made.outcomes == {"answered": 100}
    assert {(r.duplicates, r.latency_ms) for r in made.records} == {(2, 1.0)}


def test_an_error_after_the_answer_does_not_take_it_back() -> None:
    made = run(lambda request: [Answer(request.reply(), 1), Answer(error=errno.ECONNREFUSED, delay_ms=2)])

    assert made.outcomes == {"answered": 100}


def test_a_known_mixture_is_counted_exactly() -> None:
    handler = by_number(good, silent, after(700), after(3000), after(1, rcode=2, data=None), after(1, data="192.0.2.9"))

    made = run(handler, replace(PARAMETERS, rate=20, duration_s=30))

    assert summary.wire_counts(made.records) == {
        "sent": 600, "answered": 100, "stalled": 100, "lost": 200, "late": 100, "servfail": 100, "wrong": 100,
        "open": 0, "duplicates": 0, "discarded": 0, "truncated": 0,
    }  # fmt: skip


# --- truncation and connections ---------------------------------------------------------------------------------------


def truncating(request: Request) -> list[Answer]:
    if request.transport == "udp":
        return [Answer(request.reply(data=None, truncated=True), 1)]
    return [Answer(request.reply(), 10)]


def test_a_truncated_answer_is_fetched_over_tcp_and_the_clock_runs_on() -> None:
    made = run(truncating)

    assert made.outcomes == {"answered": 100}
    assert {(r.truncated, r.latency_ms) for r in made.records} == {(True, 11.0)}
    assert Counter(r.transport for r in made.network.requests) == {"udp": 100, "tcp": 100}


def test_a_truncated_answer_without_tcp_is_lost() -> None:
    made = run(lambda request: truncating(request) if request.transport == "udp" else [])

    assert made.outcomes == {"lost": 100}
    assert sum(r.truncated for r in made.records) == 100


@pytest.mark.parametrize("transport", [Transport.TCP, Transport.DOT])
def test_a_reset_connection_is_a_loss_with_its_reason(transport: Transport) -> None:
    made = run(lambda _: [Answer(error=errno.ECONNRESET, delay_ms=3)], setup=replace(SETUP, transport=transport))

    assert made.outcomes == {"lost": 100}
    assert {r.note for r in made.records} == {"ECONNRESET"}


def test_a_shared_connection_that_fell_silent_is_replaced_by_the_next_query() -> None:
    # given one connection whose server stops answering after query 10, while new connections work
    def handle(request: Request) -> list[Answer]:
        return good(request) if request.flow > 0 or request.at_ns < network_start + 1000 * MS else []

    times = Times(timeout_ns=1950 * MS)
    made = Run(handle, setup=replace(SETUP, transport=Transport.TCP, one_flow=True, times=times))
    network_start = made.start_ns
    made.go()

    # then the queries of one timeout are lost, and not those of the rest of the run
    assert made.outcomes == {"answered": 80, "lost": 20}
    assert [r.query for r in made.records if r.outcome is Outcome.LOST] == list(range(10, 30))


def test_a_shared_connection_closed_by_the_server_is_replaced() -> None:
    seen = Counter[int]()

    def handle(request: Request) -> list[Answer]:
        seen[request.flow] += 1
        return [*good(request), *([Answer(error=errno.ECONNRESET, delay_ms=5)] if seen[request.flow] == 10 else [])]

    made = run(handle, setup=replace(SETUP, transport=Transport.TCP, one_flow=True))

    assert made.outcomes == {"answered": 100}
    assert len(seen) == 10


# --- the phone's own faults -------------------------------------------------------------------------------------------


def test_no_free_socket_is_a_skipped_query_and_no_loss() -> None:
    made = Run(good)
    made.network.refuse = lambda number: errno.EMFILE if number % 10 == 3 else 0
    made.go()

    assert made.outcomes == {"answered": 90, "skipped": 10}
    late = summary.lateness(made.records)
    assert (late.sent, late.skipped, late.punctual) == (90, 10, False)


def test_no_route_is_a_loss_and_no_fault_of_the_phone() -> None:
    made = Run(good)
    made.network.refuse = lambda number: errno.ENETUNREACH if number % 10 == 3 else 0
    made.go()

    assert made.outcomes == {"answered": 90, "lost": 10}
    assert summary.lateness(made.records).punctual


@pytest.mark.parametrize(("oversleep_ms", "punctual"), [(0, True), (5, True), (6, False)])
def test_a_late_phone_says_so(oversleep_ms: int, punctual: bool) -> None:
    late = summary.lateness(run(good, oversleep_ns=oversleep_ms * MS).records)

    assert (late.p99_ms, late.punctual) == (oversleep_ms, punctual)


# --- who answered -----------------------------------------------------------------------------------------------------

TXT = replace(SETUP, identity=Identity.TXT)


def node_of_flow(request: Request) -> str:
    return f"node0{request.flow % 3 + 1}"


def spread(request: Request) -> list[Answer]:
    """Three nodes behind one address: the flow decides."""
    if request.name == IDENTITY:
        return [Answer(request.reply(f'"{node_of_flow(request)}"'), 2)]
    return good(request)


def test_each_record_names_the_node_of_its_own_flow() -> None:
    made = run(spread, setup=TXT)

    assert [r.node for r in made.records] == [f"node0{i % 3 + 1}" for i in range(100)]
    assert summary.shares(made.records) == {"node01": 0.34, "node02": 0.33, "node03": 0.33}


def test_identity_queries_count_nowhere() -> None:
    made = run(spread, setup=TXT)

    assert len(made.network.requests) == 200
    assert summary.wire_counts(made.records)["sent"] == 100
    assert {r.duplicates for r in made.records} == {0}


def test_a_gray_node_is_named_though_it_loses_the_ordinary_query() -> None:
    made = run(lambda request: spread(request) if request.name == IDENTITY or request.flow % 3 else [], setup=TXT)

    assert {r.node for r in made.records if r.outcome is Outcome.LOST} == {"node01"}
    assert made.outcomes == {"lost": 34, "answered": 66}


def test_what_answers_call_themselves_is_bounded_and_plain() -> None:
    """Each answer with another name, and one that is a page of escape sequences."""

    def handle(request: Request) -> list[Answer]:
        if request.name != IDENTITY:
            return good(request)
        inner = "\x1b]0;x\x07" * 20 if request.flow == 1 else f"n{request.flow}"
        return [Answer(request.reply(f'"{inner}"'))]

    made = run(handle, replace(PARAMETERS, rate=100), TXT)
    names = {record.node for record in made.records}
    assert len(names - {OTHER_NODE}) == outside_text.MOST_NAMES
    assert all(name.isprintable() and len(name) <= outside_text.MOST_NAME for name in names)


def test_whoever_has_no_identity_is_other_and_silence_is_unknown() -> None:
    router = run(lambda r: [Answer(r.reply(data=None, rcode=3))] if r.name == IDENTITY else good(r), setup=TXT)
    nobody = run(silent, setup=TXT)

    assert {r.node for r in router.records} == {OTHER_NODE}
    assert {r.node for r in nobody.records} == {""}


def test_the_connection_that_fetched_a_truncated_answer_names_the_node() -> None:
    def handle(request: Request) -> list[Answer]:
        if request.name == IDENTITY:
            return [Answer(request.reply(f'"{request.transport}-node"'), 1)]
        return truncating(request)

    assert {r.node for r in run(handle, setup=TXT).records} == {"tcp-node"}


# --- stub resolvers ---------------------------------------------------------------------------------------------------


def one_lookup(stub: str, handler: Handler, servers: tuple[Server, ...] = (A,)) -> Run:
    return run(handler, replace(PARAMETERS, rate=1, duration_s=1, clients=(stub,)), replace(SETUP, servers=servers))


def dead_for(seconds: float, then: Handler = good) -> Handler:
    def handle(request: Request) -> Iterable[Answer]:
        return then(request) if request.at_ns >= 2_000_000_000 + seconds * limits.NS else []

    return handle


@pytest.mark.parametrize(
    ("stub", "felt_ms", "tries"),
    [
        ("wire", None, 1),
        ("glibc", 5001.0, 2),
        ("musl", 2501.0, 2),
        ("systemd-resolved", 5001.0, 2),
        ("android", 5001.0, 2),
        ("apple", 3001.0, 3),
        ("windows", 2001.0, 3),
    ],
)
def test_an_outage_of_two_seconds_as_each_stub_feels_it(stub: str, felt_ms: float | None, tries: int) -> None:
    made = one_lookup(stub, dead_for(1.5))

    (record,) = made.records
    assert record.outcome is Outcome.LOST  # on the wire, for everybody
    assert (record.felt_ms, record.tries) == (felt_ms, tries)
    assert record.felt is (Outcome.LOST if felt_ms is None else Outcome.ANSWERED)


@pytest.mark.parametrize(
    ("stub", "felt_ms"), [("glibc", 5001.0), ("musl", 1.0), ("apple", 3001.0), ("windows", 1001.0)]
)
def test_a_second_server_helps_when_the_first_is_dead(stub: str, felt_ms: float) -> None:
    made = one_lookup(stub, lambda request: good(request) if request.server == str(B) else [], servers=(A, B))

    (record,) = made.records
    assert record.outcome is Outcome.LOST
    assert (record.felt, record.felt_ms) == (Outcome.ANSWERED, felt_ms)


@pytest.mark.parametrize(("stub", "flows"), [("glibc", 1), ("musl", 1), ("apple", 1), ("windows", 5)])
def test_retries_leave_from_the_port_that_stub_would_use(stub: str, flows: int) -> None:
    made = one_lookup(stub, silent)

    assert len({flow for _, _, flow in made.asked_at()}) == flows


def test_a_late_first_answer_is_what_a_waiting_stub_gets() -> None:
    (record,) = one_lookup("glibc", after(3000)).records

    assert (record.outcome, record.felt, record.felt_ms, record.tries) == (Outcome.LATE, Outcome.ANSWERED, 3000.0, 1)


def test_an_answer_to_the_retry_does_not_count_for_the_first_query() -> None:
    # given Windows, which asks again after 1 s, within the wire's timeout
    def handle(request: Request) -> list[Answer]:
        return [] if request.flow == 0 else good(request)

    (record,) = one_lookup("windows", handle).records

    assert record.outcome is Outcome.LOST
    assert record.felt_ms == 1001.0


servfail = after(1, rcode=2, data=None)


@pytest.mark.parametrize(
    ("stub", "servers", "asked", "felt"),
    [
        ("wire", (A,), 1, "servfail"),
        ("glibc", (A,), 2, "servfail"),  # its second attempt, at once
        ("glibc", (A, B), 4, "servfail"),
        ("musl", (A,), 4, "lost"),  # asked again twice at once; the round after 2.5 s; gives up
        ("apple", (A,), 1, "servfail"),
        ("apple", (A, B), 2, "servfail"),
        ("windows", (A, B), 1, "servfail"),
    ],
)
def test_what_servfail_makes_each_stub_do(stub: str, servers: tuple[Server, ...], asked: int, felt: str) -> None:
    made = one_lookup(stub, servfail, servers)

    (record,) = made.records
    assert record.outcome is Outcome.SERVFAIL
    assert (record.tries, record.felt.value) == (asked, felt)


def test_refused_by_icmp_moves_glibc_on_at_once_and_musl_not() -> None:
    def handle(request: Request) -> list[Answer]:
        return good(request) if request.server == str(B) else [Answer(error=errno.ECONNREFUSED, delay_ms=1)]

    assert one_lookup("glibc", handle, (A, B)).records[0].felt_ms == 2.0
    alone = one_lookup("musl", handle, (A,)).records[0]
    assert (alone.felt, alone.tries) == (Outcome.LOST, 2)


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_stopping_sends_nothing_new_and_waits_for_what_is_under_way() -> None:
    made = Run(after(900))
    made.network.at = [(made.start_ns + 2050 * MS, made.sender.stop)]
    made.go()

    assert made.sender.interrupted
    assert made.outcomes == {"stalled": 21}


def test_stopping_does_not_wait_for_what_only_a_retry_could_bring() -> None:
    made = Run(silent, replace(PARAMETERS, clients=("glibc",)))
    made.network.at = [(made.start_ns + 2050 * MS, made.sender.stop)]
    made.go()

    assert made.network.now() - made.start_ns == pytest.approx((2.0 + limits.TIMEOUT_S) * limits.NS, rel=0.01)
    assert made.outcomes == {"lost": 21}
    assert {r.felt for r in made.records} == {Outcome.OPEN}


def test_a_second_stop_ends_at_once_and_calls_nothing_lost() -> None:
    made = Run(silent)
    stop = made.sender.stop
    made.network.at = [(made.start_ns + 3050 * MS, stop), (made.start_ns + 3060 * MS, stop)]
    made.go()

    assert made.network.now() - made.start_ns == 3060 * MS
    assert made.outcomes == {"lost": 11, "open": 20}
    assert summary.wire_counts(made.records)["sent"] == 11


def test_the_limits_of_a_run_are_data() -> None:
    times = Times(timeout_ns=100 * MS, stall_ns=10 * MS, late_window_ns=50 * MS)

    made = run(by_number(after(9), after(20), after(120), after(160)), setup=replace(SETUP, times=times))

    assert made.outcomes == {"answered": 25, "stalled": 25, "late": 25, "lost": 25}
