"""The phone's own reading and writing of DNS messages, held against dnspython."""

from __future__ import annotations

import contextlib

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.phone import wire

LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=63)
NAME = st.lists(LABEL, min_size=1, max_size=3).map(".".join)


@given(NAME, st.sampled_from(sorted(wire.TYPES)), st.integers(0, 65535), st.booleans())
def test_a_query_is_what_dnspython_reads(name: str, rtype: str, query_id: int, nsid: bool) -> None:
    message = dns.message.from_wire(wire.encode_query(query_id, name, wire.TYPES[rtype], nsid))

    assert message.id == query_id
    assert message.question[0].name.to_text(omit_final_dot=True) == name
    assert message.question[0].rdtype == wire.TYPES[rtype]
    assert message.flags == dns.flags.RD
    assert [option.otype for option in message.options] == ([dns.edns.NSID] if nsid else [])


@given(NAME, st.integers(0, 65535), st.sampled_from([0, 2, 3, 5]), st.lists(st.integers(0, 255), max_size=4))
def test_a_reply_of_dnspython_is_read_with_compression_and_chains(
    name: str, query_id: int, rcode: int, octets: list[int]
) -> None:
    query = dns.message.from_wire(wire.encode_query(query_id, name, 1))
    reply = dns.message.make_response(query)
    reply.set_rcode(dns.rcode.Rcode(rcode))
    reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "CNAME", "elsewhere.example."))
    for octet in octets:
        reply.answer.append(dns.rrset.from_text("elsewhere.example.", 60, "IN", "A", f"192.0.2.{octet}"))
    reply.authority.append(dns.rrset.from_text("example.", 60, "IN", "NS", "ns.example."))

    read = wire.read_reply(reply.to_wire())

    assert (read.id, read.rcode, read.truncated) == (query_id, rcode, False)
    assert read.question == wire.question(name, 1)
    assert [data[-1] for rtype, data in read.answers if rtype == 1] == octets
    assert len(read.answers) == len(octets) + 1  # the authority section is not an answer


def test_case_of_the_echoed_name_does_not_matter_but_the_type_does() -> None:
    query = dns.message.make_query("WwW.Example", 65)  # HTTPS: 65 is "A", 97 is "a"
    reply = wire.read_reply(dns.message.make_response(query).to_wire())

    assert reply.question == wire.question("www.example", 65)
    assert reply.question != wire.question("www.example", 97)


def test_nsid_is_found() -> None:
    query = dns.message.from_wire(wire.encode_query(1, "a.example", 1, nsid=True))
    reply = dns.message.make_response(query)
    reply.use_edns(options=[dns.edns.GenericOption(3, b"node02")])

    assert wire.read_reply(reply.to_wire()).nsid == "node02"


@given(st.binary(max_size=200))
def test_rubbish_is_an_error_of_its_own_kind(data: bytes) -> None:
    with contextlib.suppress(wire.WireError):
        wire.read_reply(data)


@given(st.data())
def test_a_damaged_reply_never_breaks_the_reader(data: st.DataObject) -> None:
    query = dns.message.make_query("www.example", "A")
    reply = dns.message.make_response(query)
    reply.answer.append(dns.rrset.from_text("www.example.", 60, "IN", "A", "192.0.2.1"))
    raw = bytearray(reply.to_wire())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(wire.WireError):
        wire.read_reply(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


@pytest.mark.parametrize("name", ["a..b", "x" * 64 + ".example", ".".join(["abcdefgh"] * 30), "bücher.example"])
def test_impossible_names_are_refused(name: str) -> None:
    with pytest.raises(wire.WireError):
        wire.encode_name(name)
