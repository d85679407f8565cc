"""Upstreams in each resolver's own words."""

from __future__ import annotations

import pytest

from anycastlab.site.upstreams import UpstreamError, parse


@pytest.mark.parametrize(
    ("written", "adguard", "unbound"),
    [
        ("203.0.113.53", "203.0.113.53", "203.0.113.53"),
        ("203.0.113.53:5353", "203.0.113.53:5353", "203.0.113.53@5353"),
        ("2001:db8::53", "2001:db8::53", "2001:db8::53"),
        ("[2001:db8::53]:5353", "[2001:db8::53]:5353", "2001:db8::53@5353"),
        ("tls://9.9.9.9#dns.quad9.net", "tls://dns.quad9.net", "9.9.9.9@853#dns.quad9.net"),
        ("tls://9.9.9.9:8853#dns.quad9.net", "tls://dns.quad9.net:8853", "9.9.9.9@8853#dns.quad9.net"),
    ],
)
def test_both_can_ask(written: str, adguard: str, unbound: str) -> None:
    upstream = parse(written)
    assert (upstream.adguard, upstream.unbound) == (adguard, unbound)


@pytest.mark.parametrize(
    "written", ["https://dns10.quad9.net/dns-query", "quic://dns.example", "tls://dns.quad9.net", "tls://9.9.9.9"]
)
def test_adguard_alone_can_ask(written: str) -> None:
    assert parse(written).adguard == written
    with pytest.raises(UpstreamError, match="unbound cannot ask the upstream"):
        _ = parse(written).unbound


@pytest.mark.parametrize(
    "written",
    ["", "dns.quad9.net", "ftp://9.9.9.9", "9.9.9.9:0", "9.9.9.9:99999", "9.9.9.9#name", "tls://", "a b", "https://"],
)
def test_what_nobody_can_ask_is_one_sentence(written: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        parse(written)
    assert repr(written) in caught.value.problem
    assert caught.value.hint


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        (
            "[/corp.example/]10.8.0.1",
            'Take it out of upstreams and write forward_zones = {"corp.example": ["10.8.0.1"]}.',
        ),
        (
            "[/corp.example/8.10.in-addr.arpa/]10.8.0.1 10.8.0.2",
            'Take it out of upstreams and write forward_zones = {"corp.example": ["10.8.0.1", "10.8.0.2"], '
            '"8.10.in-addr.arpa": ["10.8.0.1", "10.8.0.2"]}.',
        ),
        ("[/corp.example/]#", "Take it out; domains with servers of their own stand in forward_zones."),
        ("[//]10.8.0.1", "Take it out; domains with servers of their own stand in forward_zones."),
    ],
)  # fmt: skip
def test_adguard_homes_own_words_for_a_domain_are_told_as_ours(written: str, hint: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        parse(written)
    assert caught.value.problem == f"The upstream {written!r} is for some domains only, in AdGuard Home's own words."
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("203.0.113.53", None),
        ("tls://9.9.9.9", None),
        ("tls://9.9.9.9#dns.quad9.net", "dns.quad9.net"),  # AdGuard Home cannot be told both
        ("tls://dns.quad9.net", "dns.quad9.net"),
        ("https://dns10.quad9.net/dns-query", "dns10.quad9.net"),
        ("https://9.9.9.9/dns-query", None),
        ("https://[2620:fe::fe]/dns-query", None),
        ("quic://dns.example", "dns.example"),
        ("sdns://AQcAAAAAAAAA", None),
    ],
)
def test_names_that_have_to_be_looked_up(written: str, name: str | None) -> None:
    assert parse(written).name == name
