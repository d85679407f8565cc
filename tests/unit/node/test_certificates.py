"""The certificate of the nodes: right for every address where they speak TLS, and the same key for ever."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from anycastlab.node import certificates
from anycastlab.node.render import Certificate
from anycastlab.site import Service, Site
from tests.unit.node.homes import home


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    return tmp_path


def made(site: Site) -> Certificate:
    found = certificates.for_site(site, create=True)
    assert found is not None
    return found


def addresses(certificate: Certificate) -> set[str]:
    loaded = x509.load_pem_x509_certificate(certificate.certificate.encode())
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(address) for address in names.get_values_for_type(x509.IPAddress)}


def public_key(certificate: Certificate) -> bytes:
    loaded = x509.load_pem_x509_certificate(certificate.certificate.encode())
    return loaded.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def test_it_is_made_once_for_the_service_and_every_web_page() -> None:
    assert certificates.for_site(home(), create=False) is None
    first = made(home())
    assert addresses(first) == {"10.1.9.53", "10.1.2.11", "10.1.2.13"}  # node02 runs unbound, which has no page
    assert made(home()) == first
    assert certificates.for_site(home(), create=False) == first


def test_it_follows_an_address_that_comes_later_with_the_same_key() -> None:
    first = made(home(nodes=2))
    twin = {"address6": "fd00:10:1:2::b", "gateway6": "fd00:10:1:2::1"}
    members = {f"node{n:02}": {**twin, "address6": f"fd00:10:1:2::{n}1"} for n in (1, 2, 3)}
    grown = home(service=Service(address6="fd00:10:1:9::53"), **members)
    assert certificates.for_site(grown, create=False) is None  # a dry run tells that it will be another
    later = made(grown)
    assert addresses(later) == {"10.1.9.53", "fd00:10:1:9::53", "10.1.2.11", "10.1.2.13"}
    assert public_key(later) == public_key(first)
    assert later.key == first.key
    # one that covers more than is needed stays as it is
    assert made(home(nodes=1)) == later


def test_another_home_with_the_same_service_address_does_not_take_it_away() -> None:
    made(home("routed"))
    both = made(home("flat"))
    assert made(home("routed")) == both


def test_one_that_ends_soon_is_made_anew_with_the_same_key(state: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    old = certificates.make(home(), now - datetime.timedelta(days=3650 - 30))
    (state / "dns-over-tls-10.1.9.53.pem").write_text(old.certificate + old.key)
    fresh = made(home())
    assert fresh.certificate != old.certificate
    assert public_key(fresh) == public_key(old)


@pytest.mark.parametrize("text", ["", "x", "ü", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_no_certificate_with_its_key_is_made_anew(state: Path, text: str) -> None:
    (state / "dns-over-tls-10.1.9.53.pem").write_text(text)
    assert addresses(made(home())) == {"10.1.9.53", "10.1.2.11", "10.1.2.13"}


def test_a_pipe_in_its_place_holds_nobody_up(state: Path) -> None:
    os.mkfifo(state / "dns-over-tls-10.1.9.53.pem")
    assert addresses(made(home())) == {"10.1.9.53", "10.1.2.11", "10.1.2.13"}


def test_a_certificate_with_another_key_is_made_anew(state: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    one, other = certificates.make(home(), now), certificates.make(home(), now)
    (state / "dns-over-tls-10.1.9.53.pem").write_text(one.certificate + other.key)
    assert made(home()).certificate not in (one.certificate, other.certificate)
