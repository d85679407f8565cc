"""The lab's internet has what the household asks for."""

from __future__ import annotations

import dns.name
import dns.rdatatype
import dns.zone

from anycastlab.lab import upstream
from anycastlab.lab.router import LOCAL_NAMES
from anycastlab.phone import mix


def parsed(text: str, origin: str) -> dns.zone.Zone:
    return dns.zone.from_text(text, origin=origin, relativize=False)


def test_every_zone_is_one_that_dnspython_reads_too() -> None:
    for text, origin in (
        (upstream.root_zone(), "."),
        (upstream.zone(), f"{upstream.ZONE}."),
        (upstream.signed_zone(), f"{upstream.SIGNED_ZONE}."),
    ):
        assert parsed(text, origin).get_rdataset(origin, dns.rdatatype.SOA) is not None


def test_every_public_name_of_the_phones_lab_mix_exists() -> None:
    zone = parsed(upstream.zone(), f"{upstream.ZONE}.")
    for entry in mix.load("lab").entries:
        if entry.kind == "local":
            continue
        name = dns.name.from_text(entry.name.replace("{random}", "*"))
        assert zone.get_rdataset(name, entry.type) is not None, entry.name


def test_every_fixed_local_name_of_the_phones_lab_mix_is_the_routers() -> None:
    fixed = [e.name for e in mix.load("lab").entries if e.kind == "local" and "{random}" not in e.name]
    assert fixed
    assert set(fixed) <= set(LOCAL_NAMES)


def test_the_big_answer_needs_tcp() -> None:
    zone = parsed(upstream.zone(), f"{upstream.ZONE}.")
    big = zone.find_rdataset(f"{upstream.BIG_NAME}.", dns.rdatatype.TXT)
    assert sum(len(string) + 1 for record in big for string in record.strings) > 1232


def test_the_delay_is_the_one_that_was_asked_for() -> None:
    assert "DelayAction(70)" in upstream.dnsdist_conf(70)
