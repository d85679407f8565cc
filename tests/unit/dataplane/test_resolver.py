"""The router's DNS, asked over real sockets on 127.0.0.1, with an upstream in the test."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router.dataplane import dns_wire
from anycastlab.virtual_router.dataplane.resolver import Resolver, Settings
from anycastlab.virtual_router.dataplane.static_names import StaticNames

from .rows_of_a_home import numbered

STATIC = numbered(
    {"name": "nas.lan", "address": "10.1.1.20", "type": "A", "ttl": "1h"},
    {"name": "nas.lan", "address": "fd01::20", "type": "AAAA"},
    {"name": "www.nas.lan", "cname": "nas.lan", "type": "CNAME"},
    {"name": "note.lan", "text": "x" * 300, "type": "TXT"},
    {"name": "mail.lan", "mx-exchange": "nas.lan", "mx-preference": "10", "type": "MX"},
    {"name": "ads.example", "type": "NXDOMAIN", "match-subdomain": "true"},
    {"regexp": "^x[0-9]+\\.test$", "address": "192.0.2.9", "type": "A"},
    {"name": "off.lan", "address": "10.1.1.30", "type": "A", "disabled": "true"},
    {"name": "loop.lan", "cname": "loop.lan", "type": "CNAME"},
)


def test_patterns_are_tried_before_plain_names() -> None:
    rows = numbered(
        {"name": "nas.lan", "address": "10.1.1.20", "type": "A"},
        {"name": "gone.lan", "type": "NXDOMAIN", "match-subdomain": "true"},
        {"regexp": "^(nas|x\\.gone)\\.lan$", "address": "192.0.2.9", "type": "A"},
    )
    names = StaticNames.compile(rows)
    for name in ("nas.lan", "x.gone.lan"):
        reply = names.lookup(name, 1)
        assert reply is not None
        assert [record.data for _, record in reply.records] == [bytes([192, 0, 2, 9])]


def test_with_doh_the_servers_are_not_asked() -> None:
    row = {"servers": "192.0.2.1", "dynamic-servers": "192.0.2.2", "use-doh-server": "https://10.1.9.53/dns-query"}
    assert Settings.of({"/ip/dns": [row]}).servers == ()
    assert Settings.of({"/ip/dns": [{**row, "use-doh-server": ""}]}).servers == ("192.0.2.1", "192.0.2.2")


def free_port() -> int:
    """A port that is free for UDP and for TCP."""
    for _ in range(50):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            port = int(udp.getsockname()[1])
            try:
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


class Upstream:
    """A name server on 127.0.0.1: answers A with a counter as address, TXT with something large over TCP only."""

    def __init__(self) -> None:
        self.asked = 0
        self.silent = False
        self.rcode = dns.rcode.NOERROR
        self.port = free_port()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.tcp = socket.create_server(("127.0.0.1", self.port))
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.serve_udp, self.serve_tcp)]
        for thread in self.threads:
            thread.start()

    def answer(self, wire: bytes, tcp: bool) -> bytes:
        query = dns.message.from_wire(wire)
        reply = dns.message.make_response(query)
        reply.set_rcode(self.rcode)
        reply.flags |= dns.flags.RA
        asked = query.question[0]
        self.asked += 1
        if self.rcode == dns.rcode.NOERROR:
            if asked.rdtype == dns.rdatatype.TXT:
                if tcp:
                    reply.answer.append(
                        dns.rrset.from_text(asked.name, 60, "IN", "TXT", *(f'"{n}{"y" * 249}"' for n in range(8)))
                    )
                else:
                    reply.flags |= dns.flags.TC
            else:
                reply.answer.append(dns.rrset.from_text(asked.name, 60, "IN", "A", f"192.0.2.{self.asked}"))
        return reply.to_wire(max_size=65535)

    def serve_udp(self) -> None:
        while True:
            try:
                wire, client = self.udp.recvfrom(4096)
            except OSError:
                return
            if not wire:
                return
            if not self.silent:
                self.udp.sendto(self.answer(wire, tcp=False), client)

    def serve_tcp(self) -> None:
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            with connection:
                head = connection.recv(2)
                if len(head) == 2:
                    answer = self.answer(connection.recv(int.from_bytes(head, "big")), tcp=True)
                    connection.sendall(len(answer).to_bytes(2, "big") + answer)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", ("127.0.0.1", self.port))
        with socket.create_connection(("127.0.0.1", self.port)):
            self.tcp.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(5)
        self.udp.close()
        self.tcp.close()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def resolver(upstream: Upstream) -> Iterator[Resolver]:
    running = Resolver(port=free_port(), listen4="127.0.0.1", listen6=None)
    running.upstream_port = upstream.port
    running.start()
    configure(running)
    yield running
    running.stop()


def configure(resolver: Resolver, static: object = STATIC, **own: str) -> None:
    row = {"servers": "127.0.0.1", "allow-remote-requests": "true", "query-server-timeout": "200ms", **own}
    settings = Settings.of({"/ip/dns": [row], "/ip/dns/static": static})  # type: ignore[dict-item]
    asyncio.run(resolver.configure(settings))


def ask(resolver: Resolver, name: str, kind: str = "A", *, tcp: bool = False, edns: bool = True) -> dns.message.Message:
    query = dns.message.make_query(name, kind, use_edns=0 if edns else None, payload=1232)
    send = dns.query.tcp if tcp else dns.query.udp
    return send(query, "127.0.0.1", port=resolver.port, timeout=5)


def texts(reply: dns.message.Message) -> list[str]:
    return [item.to_text() for rrset in reply.answer for item in rrset]


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
@pytest.mark.parametrize(
    ("name", "kind", "rcode", "answer"),
    [
        ("nas.lan", "A", "NOERROR", ["10.1.1.20"]),
        ("NaS.lAn", "A", "NOERROR", ["10.1.1.20"]),
        ("nas.lan", "AAAA", "NOERROR", ["fd01::20"]),
        ("nas.lan", "MX", "NOERROR", []),
        ("www.nas.lan", "A", "NOERROR", ["nas.lan.", "10.1.1.20"]),
        ("mail.lan", "MX", "NOERROR", ["10 nas.lan."]),
        ("20.1.1.10.in-addr.arpa", "PTR", "NOERROR", ["nas.lan."]),
        ("21.1.1.10.in-addr.arpa", "PTR", "NXDOMAIN", []),
        ("off.lan", "A", "NXDOMAIN", []),
        ("random-123.lan", "A", "NXDOMAIN", []),
        ("lan", "A", "NOERROR", []),
        ("a.b.ads.example", "A", "NXDOMAIN", []),
        ("x12.test", "A", "NOERROR", ["192.0.2.9"]),
        ("loop.lan", "A", "SERVFAIL", []),
        ("www.example", "A", "NOERROR", ["192.0.2.1"]),
    ],
)
def test_answers(resolver: Resolver, tcp: bool, name: str, kind: str, rcode: str, answer: list[str]) -> None:
    reply = ask(resolver, name, kind, tcp=tcp)
    assert (dns.rcode.to_text(reply.rcode()), texts(reply)) == (rcode, answer)
    assert reply.flags & dns.flags.RA
    if not answer and rcode != "SERVFAIL":
        assert reply.authority[0].rdtype == dns.rdatatype.SOA


def test_the_client_s_spelling_and_id_come_back_also_from_the_cache(resolver: Resolver, upstream: Upstream) -> None:
    for name in ("www.example", "WwW.eXaMpLe"):
        query = dns.message.make_query(name, "A", use_edns=0)
        reply = dns.query.udp(query, "127.0.0.1", port=resolver.port, timeout=5)
        assert reply.id == query.id
        assert str(reply.question[0].name) == f"{name}."
        assert texts(reply) == ["192.0.2.1"]
    assert upstream.asked == 1
    resolver.flush()
    assert texts(ask(resolver, "www.example")) == ["192.0.2.2"]


def test_a_large_answer_says_truncated_over_udp_and_comes_whole_over_tcp(resolver: Resolver) -> None:
    assert ask(resolver, "big.example", "TXT").flags & dns.flags.TC
    assert len("".join(texts(ask(resolver, "big.example", "TXT", tcp=True)))) > 2000
    # Static ones are cut to what the client can take.
    assert ask(resolver, "note.lan", "TXT", edns=False).answer
    configure(resolver, numbered(*({"name": "many.lan", "address": f"10.1.1.{n}"} for n in range(100))))
    assert ask(resolver, "many.lan", edns=False).flags & dns.flags.TC
    assert len(texts(ask(resolver, "many.lan", tcp=True))) == 100


def test_a_changed_row_counts_at_once(resolver: Resolver) -> None:
    for number in range(20):
        configure(resolver, numbered({"name": "new.lan", "address": f"10.1.1.{number}"}))
        assert texts(ask(resolver, "new.lan")) == [f"10.1.1.{number}"]


def test_changing_rows_drops_no_query(resolver: Resolver) -> None:
    answered: list[list[str]] = []

    def household() -> None:
        for _ in range(300):
            answered.append(texts(ask(resolver, "nas.lan")))

    thread = threading.Thread(target=household)
    thread.start()
    while thread.is_alive():
        configure(resolver)
    assert answered == [["10.1.1.20"]] * 300


def test_a_silent_upstream_costs_its_timeout_and_local_names_nothing(resolver: Resolver, upstream: Upstream) -> None:
    upstream.silent = True
    started = time.monotonic()
    assert ask(resolver, "www.example").rcode() == dns.rcode.SERVFAIL
    assert 0.15 < time.monotonic() - started < 2
    assert texts(ask(resolver, "nas.lan")) == ["10.1.1.20"]


def test_the_second_server_is_asked_when_the_first_is_silent_and_stays_first(upstream: Upstream) -> None:
    resolver = Resolver(port=free_port(), listen4="127.0.0.1", listen6=None)
    resolver.upstream_port = upstream.port
    resolver.start()
    try:
        configure(resolver, servers="127.0.0.99,127.0.0.1")
        assert ask(resolver, "one.example").rcode() == dns.rcode.NOERROR
        started = time.monotonic()
        assert ask(resolver, "two.example").rcode() == dns.rcode.NOERROR
        assert time.monotonic() - started < 0.15
    finally:
        resolver.stop()


def test_an_upstream_s_denial_is_passed_on(resolver: Resolver, upstream: Upstream) -> None:
    upstream.rcode = dns.rcode.NXDOMAIN
    assert ask(resolver, "nobody.example").rcode() == dns.rcode.NXDOMAIN


def test_many_clients_of_one_name_ask_the_upstream_once(resolver: Resolver, upstream: Upstream) -> None:
    upstream.silent = True
    clients = [threading.Thread(target=ask, args=(resolver, "same.example")) for _ in range(10)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert resolver.counts.forwarded == 1


def test_without_remote_requests_only_the_router_itself_is_answered() -> None:
    resolver = Resolver(port=free_port(), listen4="127.0.0.2", listen6=None)
    resolver.start()
    try:
        configure(resolver, **{"allow-remote-requests": "false"})
        assert texts(ask(resolver, "nas.lan")) == ["10.1.1.20"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(1)
            client.connect(("127.0.0.2", resolver.port))
            client.send(dns.message.make_query("nas.lan", "A").to_wire())
            with pytest.raises(ConnectionRefusedError):
                client.recv(512)
    finally:
        resolver.stop()


def test_five_hundred_questions_a_second_take_less_than_one_core(resolver: Resolver) -> None:
    wires = [
        dns.message.make_query(name, "A").to_wire() for name in ("nas.lan", "r1.lan", "www.example", "www.nas.lan")
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", resolver.port))
        client.settimeout(5)
        before = time.process_time()
        for number in range(2000):
            client.send(wires[number % len(wires)])
            client.recv(4096)
        # Client and resolver together; CPU time, so a busy machine does not matter.
        assert 2000 / (time.process_time() - before) > 1000


@pytest.mark.parametrize(
    "row",
    [
        {"name": "x.lan", "address": "10.1.1.999"},
        {"name": "x.lan", "type": "CNAME"},
        {"name": "x.lan", "type": "FWD"},
        {"regexp": "(", "address": "10.1.1.1"},
        {"address": "10.1.1.1"},
        {"name": "x" * 64 + ".lan", "address": "10.1.1.1"},
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_the_others_are_used(row: dict[str, str]) -> None:
    names = StaticNames.compile(numbered(row, {"name": "ok.lan", "address": "10.1.1.2"}))
    assert list(names.problems) == ["*1"]
    reply = names.lookup("ok.lan", 1)
    assert reply is not None
    assert len(reply.records) == 1


@given(st.binary(max_size=80))
def test_any_bytes_are_a_question_or_refused(data: bytes) -> None:
    try:
        question = dns_wire.parse(data)
    except dns_wire.Malformed:
        dns_wire.malformed_response(data)
        return
    reply = dns.message.from_wire(dns_wire.respond(question, dns_wire.NXDOMAIN), ignore_trailing=True)
    assert reply.id == int.from_bytes(data[:2], "big")


@given(st.binary(min_size=12, max_size=120))
def test_any_upstream_bytes_are_an_answer_or_refused(data: bytes) -> None:
    question = dns_wire.parse(dns.message.make_query("a.example", "A", id=1).to_wire())
    for wire in (data, question.id_bytes + b"\x81\x80" + data[4:12] + question.section + data):
        try:
            answer = dns_wire.read_answer(wire, question, 60, 1, 3600)
        except dns_wire.Malformed:
            continue
        assert dns_wire.reuse(answer, question, 5)[:2] == question.id_bytes


def test_ttls_go_down_with_age_and_never_below_zero() -> None:
    query = dns.message.make_query("a.example", "A", use_edns=0)
    reply = dns.message.make_response(query)
    reply.answer.append(dns.rrset.from_text("a.example.", 60, "IN", "A", "192.0.2.1"))
    reply.additional.append(dns.rrset.from_text("b.example.", 10, "IN", "A", "192.0.2.2"))
    question = dns_wire.parse(query.to_wire())
    answer = dns_wire.read_answer(reply.to_wire(), question, 60, 1, 3600)
    assert answer.ttl == 10
    aged = dns.message.from_wire(dns_wire.reuse(answer, question, 20))
    assert [rrset.ttl for rrset in (*aged.answer, *aged.additional)] == [40, 0]
    assert aged.edns == 0
