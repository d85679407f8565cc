"""ctnetlink messages, as a kernel sent them."""

from __future__ import annotations

import socket
import struct

from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router.dataplane import conntrack


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def side(source: str, target: str, protocol: int, *ports: int) -> bytes:
    addresses = attribute(1, socket.inet_aton(source)) + attribute(2, socket.inet_aton(target))
    proto = attribute(1, bytes([protocol]))
    for kind, port in zip((2, 3), ports, strict=False):
        proto += attribute(kind, struct.pack("!H", port))
    return attribute(1 | 0x8000, addresses) + attribute(2 | 0x8000, proto)


def message(origin: bytes, reply: bytes, status: int, timeout: int, more: bytes = b"") -> bytes:
    return (
        struct.pack("=BBH", socket.AF_INET, 0, 0)
        + attribute(1 | 0x8000, origin)
        + attribute(2 | 0x8000, reply)
        + attribute(3, struct.pack("!I", status))
        + attribute(7, struct.pack("!I", timeout))
        + attribute(12, struct.pack("!I", 0xABCD1234))
        + more
    )


def test_a_redirected_query() -> None:
    found = conntrack.parse(
        message(
            side("10.1.1.101", "10.1.9.53", 17, 4053, 53), side("10.1.1.1", "10.1.1.101", 17, 53, 4053), 0x2A | 4, 119
        )
    )
    assert found is not None
    assert found.key == "*ABCD1234"
    assert found.row == {
        "protocol": "udp",
        "src-address": "10.1.1.101",
        "src-port": "4053",
        "dst-address": "10.1.9.53",
        "dst-port": "53",
        "reply-src-address": "10.1.1.1",
        "reply-src-port": "53",
        "reply-dst-address": "10.1.1.101",
        "reply-dst-port": "4053",
        "timeout": "1m59s",
        "seen-reply": "true",
        "assured": "true",
        "confirmed": "true",
        "srcnat": "false",
        "dstnat": "true",
        "dying": "false",
    }
    older = conntrack.joined(found.row)
    assert {name: older[name] for name in older if "address" in name or "port" in name} == {
        "src-address": "10.1.1.101:4053",
        "dst-address": "10.1.9.53:53",
        "reply-src-address": "10.1.1.1:53",
        "reply-dst-address": "10.1.1.101:4053",
    }


def test_tcp_has_a_state_and_icmp_no_port() -> None:
    state = attribute(4 | 0x8000, attribute(1 | 0x8000, attribute(1, b"\x03")))
    tcp = conntrack.parse(
        message(side("10.0.0.1", "10.0.0.2", 6, 1, 2), side("10.0.0.2", "10.0.0.1", 6, 2, 1), 8, 5, state)
    )
    icmp = conntrack.parse(message(side("10.0.0.1", "10.0.0.2", 1), side("10.0.0.2", "10.0.0.1", 1), 8, 5))
    assert tcp is not None
    assert icmp is not None
    assert tcp.row["tcp-state"] == "established"
    assert icmp.row["dst-address"] == "10.0.0.2"
    assert conntrack.joined(icmp.row) == icmp.row


def test_an_entry_without_id_cannot_be_named_and_is_left_out() -> None:
    whole = message(side("10.0.0.1", "10.0.0.2", 1), side("10.0.0.2", "10.0.0.1", 1), 8, 5)
    assert conntrack.parse(whole[:-8]) is None


@given(st.binary(min_size=4, max_size=200))
def test_any_attributes_end(data: bytes) -> None:
    assert len(list(conntrack._attributes(data))) <= len(data) // 4
