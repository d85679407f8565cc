"""The certificate of DNS over TLS at the service address and of AdGuard Home's web page on each node.

Made once and kept with the other secrets. One for all nodes, because a client must not notice which node answers.
Self-signed: a home has no name a public authority would sign; clients pin its key or trust this one certificate. When
an address is added it is issued anew with the same key, so that a pinned key stays right (RFC 7858, 4.2).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from anycastlab import private_file, stored
from anycastlab.node.errors import NodeError
from anycastlab.node.render import Certificate
from anycastlab.paths import state_dir
from anycastlab.site import Site

Address = IPv4Address | IPv6Address

_VALID: Final = datetime.timedelta(days=3650)  # nothing renews it but a deploy
_RENEW: Final = datetime.timedelta(days=90)  # before its end a deploy makes a new one
_MOST: Final = 1 << 16  # octets of the file; a certificate for 64 nodes and its key have some thousand
_SKEW: Final = datetime.timedelta(days=1)  # boards start with yesterday's clock


def for_site(site: Site, *, create: bool) -> Certificate | None:
    """The stored certificate; a new one if there is none that fits and `create`, else None."""
    path = state_dir() / f"dns-over-tls-{site.service.address}.pem"
    now = datetime.datetime.now(datetime.UTC)
    try:
        text = stored.read_text(path, _MOST)
    except (FileNotFoundError, stored.Damaged):  # what is damaged is made anew: nothing but the certificate is lost
        text = ""
    except OSError as error:
        raise NodeError(f"The certificate {path} cannot be read: {error.strerror}.", "Correct its owner.") from None
    kept = _read(text)
    if kept is not None and kept.ends - now > _RENEW and kept.addresses >= _addresses(site):
        return kept.certificate
    if not create:
        return None
    # Earlier addresses stay in: another home or lab of this machine may have the same service address.
    made = make(site, now, kept.key, kept.addresses) if kept else make(site, now)
    try:
        private_file.replace(path, made.certificate + made.key)
    except OSError as error:
        raise NodeError(f"The certificate {path} cannot be written: {error.strerror}.", "Make room there.") from None
    return made


def make(
    site: Site,
    now: datetime.datetime,
    key: ec.EllipticCurvePrivateKey | None = None,
    more: frozenset[Address] = frozenset(),
) -> Certificate:
    """A new self-signed certificate for every address where the nodes speak TLS, and for `more`."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"dns at {site.service.address}")])
    addresses = sorted(_addresses(site) | more, key=lambda address: (address.version, int(address)))
    alternative = x509.SubjectAlternativeName([x509.IPAddress(address) for address in addresses])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


def _addresses(site: Site) -> frozenset[Address]:
    """The service addresses, and those of the nodes with a web page."""
    service = (site.service.address, site.service.address6)
    pages = (node.address for node in site.nodes if node.resolver == "adguardhome")
    return frozenset(address for address in (*service, *pages) if address)


@dataclass(frozen=True)
class _Kept:
    certificate: Certificate
    key: ec.EllipticCurvePrivateKey
    ends: datetime.datetime
    addresses: frozenset[Address]


def _read(kept: str) -> _Kept | None:
    """What the file holds; None where it is not a certificate with its own key."""
    text, begin, rest = kept.partition("-----BEGIN PRIVATE KEY-----")
    try:
        found = x509.load_pem_x509_certificate(text.encode())
        key = serialization.load_pem_private_key((begin + rest).encode(), password=None)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != found.public_key():
        return None
    addresses = frozenset(
        address
        for address in names.get_values_for_type(x509.IPAddress)
        if isinstance(address, (IPv4Address, IPv6Address))
    )
    return _Kept(Certificate(text, begin + rest), key, found.not_valid_after_utc, addresses)
