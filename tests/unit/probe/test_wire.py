"""The hand-written DNS messages against dnspython, the field's authority."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.probe import wire

NAME = "id.anycast.lan"


def reply_to(query: bytes, *records: tuple[str, str, str], rcode: dns.rcode.Rcode = dns.rcode.NOERROR) -> bytes:
    message = dns.message.make_response(dns.message.from_wire(query))
    message.set_rcode(rcode)
    for owner, kind, text in records:
        message.answer.append(dns.rrset.from_text(owner, 30, "IN", kind, text))
    return message.to_wire()


@given(st.from_regex(r"([a-z0-9]{1,20}\.){0,5}[a-z]{2,10}", fullmatch=True), st.integers(0, 65535))
def test_dnspython_reads_our_queries(name: str, query_id: int) -> None:
    message = dns.message.from_wire(wire.query(name, wire.TXT, query_id))
    assert message.id == query_id
    assert message.flags == dns.flags.RD
    assert message.question[0].name.to_text() == f"{name}."
    assert message.question[0].rdtype == wire.TXT


def test_reads_what_dnspython_writes() -> None:
    query = wire.query(NAME, wire.TXT, 7)
    data = reply_to(query, (f"{NAME}.", "CNAME", "node.lan."), (f"{NAME}.", "TXT", '"node" "01"'))
    assert wire.parse_reply(data, NAME, wire.TXT, 7) == wire.Reply(wire.NOERROR, 2, ("node01",))


def test_the_text_of_another_name_is_not_ours() -> None:
    data = reply_to(wire.query(NAME, wire.TXT, 7), ("other.lan.", "TXT", '"node01"'))
    reply = wire.parse_reply(data, NAME, wire.TXT, 7)
    assert reply is not None
    assert reply.texts == ()


@pytest.mark.parametrize(
    ("name", "qtype", "query_id"), [(NAME, wire.TXT, 8), ("id.anycast.lam", wire.TXT, 7), (NAME, wire.A, 7)]
)
def test_a_reply_to_another_query_is_none(name: str, qtype: int, query_id: int) -> None:
    data = reply_to(wire.query(NAME, wire.TXT, 7), (f"{NAME}.", "TXT", '"node01"'))
    assert wire.parse_reply(data, name, qtype, query_id) is None


def test_a_query_is_no_reply() -> None:
    query = wire.query(NAME, wire.TXT, 7)
    assert wire.parse_reply(query, NAME, wire.TXT, 7) is None


def test_names_compare_without_case() -> None:
    query = wire.query(NAME, wire.TXT, 7)
    data = reply_to(query, (f"{NAME}.", "TXT", '"node01"')).replace(b"anycast", b"AnyCast")
    assert wire.parse_reply(data, NAME, wire.TXT, 7) == wire.Reply(wire.NOERROR, 1, ("node01",))


@given(st.binary(max_size=200))
def test_garbage_is_none(data: bytes) -> None:
    header = b"\x00\x07\x80\x00\x00\x01\x00\x02\x00\x00\x00\x00"
    question = wire.query(NAME, wire.TXT, 7)[12:]
    assert wire.parse_reply(data, NAME, wire.TXT, 7) is None
    # Behind an impeccable beginning as well
    reply = wire.parse_reply(header + question + data, NAME, wire.TXT, 7)
    assert reply is None or reply.answers == 2


def test_a_loop_of_pointers_ends() -> None:
    query = wire.query(NAME, wire.TXT, 7)
    looped = b"\x00\x07\x80\x00\x00\x01\x00\x01\x00\x00\x00\x00" + query[12:]
    at = len(looped)
    looped += bytes((0xC0 | at >> 8, at & 0xFF)) + b"\x00\x10\x00\x01\x00\x00\x00\x1e\x00\x00"
    assert wire.parse_reply(looped, NAME, wire.TXT, 7) is None
