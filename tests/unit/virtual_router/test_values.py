"""Values: what a router would print for what a client sent, and what it refuses, in its own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.command_trees.schema import Kind, Schema
from anycastlab.virtual_router.dataplane.api import CommandRefused
from anycastlab.virtual_router.times import parse_ms, print_ms
from anycastlab.virtual_router.values import canonical

SCHEMA = Schema.load("7.22.3")
NAMES = {"/interface": ["ether1", "lo"], "/routing/bgp/instance": ["anycast"]}


def printed(menu: str, name: str, text: str, verb: str = "add") -> str:
    found = SCHEMA.menu(menu)
    assert found is not None
    return canonical(name, text, found.kind(verb, name), lambda path: NAMES.get(path, ()))


FILTER, NAT, CONNECTION = "/ip/firewall/filter", "/ip/firewall/nat", "/routing/bgp/connection"


@pytest.mark.parametrize(
    ("menu", "name", "sent", "shown"),
    [
        (CONNECTION, "use-bfd", "yes", "true"),
        (CONNECTION, "use-bfd", "no", "false"),
        (CONNECTION, "disabled", "true", "true"),
        (CONNECTION, "hold-time", "00:01:30", "1m30s"),
        (CONNECTION, "hold-time", "90", "1m30s"),
        (CONNECTION, "hold-time", "infinity", "infinity"),
        (CONNECTION, "keepalive-time", "1000ms", "1s"),
        (CONNECTION, "remote.address", "10.1.2.11", "10.1.2.11"),
        (CONNECTION, "remote.address", "10.1.2.11/32", "10.1.2.11/32"),
        (CONNECTION, "remote.address", "10.1.2.11/24", "10.1.2.0/24"),
        (CONNECTION, "remote.address", "fd00:1::0:11", "fd00:1::11"),
        (CONNECTION, "local.address", "ether1", "ether1"),
        (CONNECTION, "afi", "ip,ipv6", "ip,ipv6"),
        (CONNECTION, "remote.as", "65053", "65053"),
        (CONNECTION, "instance", "anycast", "anycast"),
        (CONNECTION, "comment", "Küche №1", "Küche №1"),
        ("/routing/bfd/configuration", "min-tx", "0.2s", "200ms"),
        ("/routing/bfd/configuration", "min-tx", "200ms", "200ms"),
        ("/routing/bfd/configuration", "addresses", "10.1.2.0/24,10.1.2.11", "10.1.2.0/24,10.1.2.11/32"),
        ("/routing/bfd/configuration", "interfaces", "ether1,all", "ether1,all"),
        (FILTER, "dst-address", "10.1.9.53/32", "10.1.9.53"),
        (FILTER, "dst-address", "10.1.9.53/24", "10.1.9.0/24"),
        (FILTER, "dst-address", "!10.0.0.0/8", "!10.0.0.0/8"),
        (FILTER, "src-address", "10.1.1.5-10.1.1.9", "10.1.1.5-10.1.1.9"),
        (FILTER, "dst-port", "53,1000-2000", "53,1000-2000"),
        (FILTER, "connection-state", "established,related", "established,related"),
        (FILTER, "protocol", "udp", "udp"),
        (NAT, "to-addresses", "10.1.1.1/32", "10.1.1.1"),
        (NAT, "to-ports", "53", "53"),
        ("/ip/route", "dst-address", "10.1.9.53", "10.1.9.53/32"),
        ("/ip/route", "dst-address", "0.0.0.0/0", "0.0.0.0/0"),
        ("/ip/address", "address", "10.1.1.1/24", "10.1.1.1/24"),
        ("/ip/dns", "servers", "9.9.9.9,2620:fe::fe", "9.9.9.9,2620:fe::fe"),
        ("/ip/dns", "cache-size", "4096KiB", "4096"),
        ("/ip/dns", "cache-max-ttl", "7d", "1w"),
        ("/ip/settings", "rp-filter", "strict", "strict"),
        ("/ip/firewall/address-list", "address", "nas.lan", "nas.lan"),
        ("/tool/netwatch", "interval", "1s", "1s"),
        ("/tool/netwatch", "type", "dns", "dns"),
        ("/ipv6/firewall/filter", "dst-address", "fd00:9::53", "fd00:9::53/128"),
        ("/ipv6/firewall/filter", "connection-state", "established", "established"),
        ("/ipv6/route", "dst-address", "fd00:9::53", "fd00:9::53/128"),
        ("/system/scheduler", "start-time", "03:04", "03:04:00"),
        ("/system/scheduler", "start-time", "startup", "startup"),
        ("/ip/dhcp-server/lease", "mac-address", "aabbccddeeff", "AA:BB:CC:DD:EE:FF"),
    ],
)
def test_a_value_is_shown_as_a_router_prints_it(menu: str, name: str, sent: str, shown: str) -> None:
    found = SCHEMA.menu(menu)
    assert found is not None
    assert printed(menu, name, sent, "add" if name in found.arguments("add") else "set") == shown


@pytest.mark.parametrize(
    ("menu", "name", "sent", "text"),
    [
        (CONNECTION, "local.role", "ebpg", "input does not match any value of local.role"),
        (CONNECTION, "use-bfd", "maybe", "input does not match any value of use-bfd"),
        (CONNECTION, "afi", "ip,ipx", "input does not match any value of afi"),
        (CONNECTION, "instance", "nosuch", "input does not match any value of instance"),
        (CONNECTION, "remote.as", "4294967296", "value of remote.as out of range (0..4294967295)"),
        (CONNECTION, "remote.as", "AS65053", "invalid value for argument remote.as"),
        (CONNECTION, "hold-time", "2s", "value of hold-time out of range (3s..18h12m15s)"),
        (CONNECTION, "hold-time", "soon", "invalid value for argument hold-time"),
        (CONNECTION, "remote.address", "10.1.2.256", "invalid value for argument remote.address"),
        (CONNECTION, "tcp-md5-key", "k" * 81, "value of tcp-md5-key should not be longer than 80"),
        (FILTER, "action", "acept", "input does not match any value of action"),
        (FILTER, "dst-port", "70000", "value of dst-port out of range (0..65535)"),
        (FILTER, "dst-port", "53-", "invalid value for argument dst-port"),
        (FILTER, "dst-port", "90-80", "invalid value for argument dst-port"),
        (FILTER, "src-address", "10.1.1.9-10.1.1.5", "invalid value for argument src-address"),
        (FILTER, "connection-state", "fresh", "input does not match any value of connection-state"),
        ("/ip/address", "interface", "ether9", "input does not match any value of interface"),
        ("/ip/route", "dst-address", "nowhere", "invalid value for argument dst-address"),
        ("/tool/netwatch", "interval", "500ms", "value of interval out of range (1s..71w2h27m52s950ms)"),
        ("/ipv6/firewall/filter", "dst-address", "10.1.9.53", "invalid value for argument dst-address"),
        ("/system/scheduler", "start-date", "jan/01/2027", "invalid value for argument start-date"),
        ("/routing/bfd/configuration", "multiplier", "0", "value of multiplier out of range (1..100)"),
    ],
)
def test_a_wrong_value_is_refused_in_routeros_words(menu: str, name: str, sent: str, text: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        printed(menu, name, sent)
    assert refused.value.message == text


@given(st.integers(0, 10**11))
def test_times_are_read_as_they_are_printed(milliseconds: int) -> None:
    assert parse_ms(print_ms(milliseconds)) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "1x", "1m 30s", "-1s", "1:2", "1.2.3s", "ms"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        parse_ms(text)


@given(st.sampled_from(sorted(SCHEMA.menus)), st.data(), st.text(max_size=30))
def test_any_text_is_accepted_or_refused_and_what_is_accepted_is_stable(
    path: str, data: st.DataObject, text: str
) -> None:
    """Canonical form is a fixed point: a client that writes back what it read changes nothing."""
    menu = SCHEMA.menu(path)
    assert menu is not None
    if not menu.properties:
        return
    name = data.draw(st.sampled_from(sorted(menu.properties)))
    kind = menu.kind("add", name)
    text = data.draw(
        st.one_of(st.just(text), st.sampled_from(kind.words or ("1",)), st.from_regex(r"[0-9./:,a-z-]{1,12}"))
    )
    refusal = ""
    try:
        shown = canonical(name, text, kind, lambda _: ("main", "ether1"))
    except CommandRefused as refused:
        refusal = refused.message
    said = "interface" if name in ("in-interface", "out-interface") else name  # as routers say it
    assert said in refusal if refusal else canonical(name, shown, kind, lambda _: ("main", "ether1")) == shown


def test_a_kind_reads_its_notation() -> None:
    assert Kind.parse("!set new established") == Kind("set", ("new", "established"), negatable=True)
    assert Kind.parse("time 3s..1h infinity") == Kind("time", ("infinity",), "3s", "1h")
    assert Kind.parse("int 0..5").high == "5"
