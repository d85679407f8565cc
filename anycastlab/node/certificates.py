"""The certificate of DNS over TLS at the service address: made once, kept with the other secrets.

One for all nodes, because a client must not notice which node answers. Self-signed: a home has no name a public
authority would sign; clients pin it or trust this one certificate.
"""

from __future__ import annotations

import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from anycastlab import private_file
from anycastlab.node.errors import NodeError
from anycastlab.node.render import Certificate
from anycastlab.paths import state_dir
from anycastlab.site import Site

_VALID: Final = datetime.timedelta(days=3650)  # nothing renews it but a deploy
_RENEW: Final = datetime.timedelta(days=90)  # before its end a deploy makes a new one
_SKEW: Final = datetime.timedelta(days=1)  # boards start with yesterday's clock


def for_site(site: Site, *, create: bool) -> Certificate | None:
    """The stored certificate; a new one if there is none that fits and `create`, else None."""
    path = state_dir() / f"dns-over-tls-{site.service.address}.pem"
    now = datetime.datetime.now(datetime.UTC)
    try:
        stored = path.read_text(encoding="ascii")
    except FileNotFoundError:
        stored = ""
    except OSError as error:
        raise NodeError(f"The certificate {path} cannot be read: {error.strerror}.", "Correct its owner.") from None
    if found := _usable(stored, now):
        return found
    if not create:
        return None
    made = make(site, now)
    try:
        private_file.replace(path, made.certificate + made.key)
    except OSError as error:
        raise NodeError(f"The certificate {path} cannot be written: {error.strerror}.", "Make room there.") from None
    return made


def make(site: Site, now: datetime.datetime) -> Certificate:
    """A new self-signed certificate for the service address and the identity name's zone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"dns at {site.service.address}")])
    addresses = [x509.IPAddress(site.service.address)]
    if site.service.address6:
        addresses.append(x509.IPAddress(site.service.address6))
    alternative = x509.SubjectAlternativeName(addresses)
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


def _usable(stored: str, now: datetime.datetime) -> Certificate | None:
    certificate, begin, key = stored.partition("-----BEGIN PRIVATE KEY-----")
    if not begin:
        return None
    try:
        ends = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
    except ValueError:
        return None
    return Certificate(certificate, begin + key) if ends - now > _RENEW else None
