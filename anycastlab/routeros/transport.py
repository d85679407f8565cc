"""Bytes to and from a router: TCP, TLS with host name or pinned certificate, and a deadline per answer.

Below librouteros: its protocol classes get these transports. `Transport` is also what tests inject.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import time
from collections.abc import Callable
from typing import Protocol

from anycastlab.routeros.errors import RouterUnreachable
from anycastlab.routeros.limits import CONNECT_TIMEOUT_S, RECEIVE_BYTES


class Transport(Protocol):
    """What the API protocol needs. All raise OSError (TimeoutError included) when the line fails."""

    deadline: float

    def write(self, data: bytes) -> None: ...
    def read(self, length: int) -> bytes: ...
    def close(self) -> None: ...


class SocketTransport:
    """A connected socket. `deadline` is the `time.monotonic()` by which the current call must be over."""

    def __init__(self, sock: socket.socket) -> None:
        self.deadline = time.monotonic() + CONNECT_TIMEOUT_S
        self._socket = sock
        self._buffer = b""
        self._position = 0

    def write(self, data: bytes) -> None:
        self._arm()
        self._socket.sendall(data)

    def read(self, length: int) -> bytes:
        """Exactly `length` bytes. Small reads come from a buffer: a word costs no system call of its own."""
        end = self._position + length
        if end <= len(self._buffer):
            data = self._buffer[self._position : end]
            self._position = end
            return data
        parts = [self._buffer[self._position :]]
        missing = length - len(parts[0])
        while missing > 0:
            self._arm()
            got = self._socket.recv(max(RECEIVE_BYTES, min(missing, 1 << 20)))
            if not got:
                raise ConnectionResetError("the router closed the connection")
            parts.append(got)
            missing -= len(got)
        data = b"".join(parts)
        self._buffer, self._position = data[length:], 0
        return data[:length]

    def close(self) -> None:
        self._socket.close()

    def _arm(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no complete answer in time")
        self._socket.settimeout(left)


Opener = Callable[[str, int, bool, str | None], Transport]


def open_transport(host: str, port: int, tls: bool, fingerprint: str | None) -> Transport:
    """A connected transport, or RouterUnreachable with the reason in words."""
    try:
        sock = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
    except OSError as error:
        raise _unreachable(host, port, tls, error) from error
    try:
        if tls:
            sock = _wrap(sock, host, port, fingerprint)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return SocketTransport(sock)


def certificate_fingerprint(host: str, port: int) -> str:
    """sha256 of the certificate shown there, 64 hex digits. Trusts nobody: for showing it to a person only."""
    sock = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
    try:
        with _unverified().wrap_socket(sock, server_hostname=host) as secure:
            return hashlib.sha256(secure.getpeercert(binary_form=True) or b"").hexdigest()
    finally:
        sock.close()


def normal_fingerprint(text: str) -> str:
    """Fingerprints are written `AA:BB…`, `aa bb …` or plain; all mean the same."""
    return "".join(c for c in text.lower().removeprefix("sha256:") if c in "0123456789abcdef")


def _wrap(sock: socket.socket, host: str, port: int, fingerprint: str | None) -> ssl.SSLSocket:
    context = _unverified() if fingerprint else ssl.create_default_context()
    try:
        secure = context.wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(host, port, error) from error
    except (ssl.SSLError, ConnectionError, TimeoutError) as error:
        # A plain API port waits for the rest of a word, so the handshake may also just take too long.
        raise RouterUnreachable(
            f"{host}:{port} does not speak TLS as the API needs it: {_reason(error)}.",
            "The service api-ssl needs a certificate: /ip/service set api-ssl certificate=<name> disabled=no; "
            "or is this the plain port? Then set router_tls to False.",
            host,
        ) from error
    except OSError as error:
        raise _unreachable(host, port, True, error) from error
    if fingerprint:
        pinned = normal_fingerprint(fingerprint)
        seen = hashlib.sha256(secure.getpeercert(binary_form=True) or b"").hexdigest()
        if seen != pinned:
            secure.close()
            raise RouterUnreachable(
                f"{host}:{port} shows a certificate with sha256 {seen}, not the pinned {pinned}.",
                "If the router got a new certificate, change router_tls_fingerprint; if not, somebody is in between.",
                host,
            )
    return secure


def _unverified() -> ssl.SSLContext:
    """For pinned certificates: the pin replaces authority and host name, as RouterOS certificates are self-made."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _untrusted(host: str, port: int, error: ssl.SSLCertVerificationError) -> RouterUnreachable:
    try:
        shown = certificate_fingerprint(host, port)
        advice = f"It has sha256 {shown}; compare that on the router, then set router_tls_fingerprint to it."
    except OSError:
        advice = "Pin it: set router_tls_fingerprint to the certificate's sha256."
    return RouterUnreachable(
        f"The certificate of {host}:{port} is not trusted: {error.verify_message or _reason(error)}.", advice, host
    )


def _unreachable(host: str, port: int, tls: bool, error: OSError) -> RouterUnreachable:
    service = "api-ssl" if tls else "api"
    if isinstance(error, socket.gaierror):
        return RouterUnreachable(
            f"The router's name {host} does not resolve.", "Check api_host in the inventory.", host
        )
    if isinstance(error, ConnectionRefusedError):
        return RouterUnreachable(
            f"No API service answers at {host}:{port} (connection refused).",
            f"Enable it: /ip/service set {service} disabled=no port={port}; and look at its address list.",
            host,
        )
    if isinstance(error, TimeoutError):
        return RouterUnreachable(
            f"Router {host}:{port} does not answer within {CONNECT_TIMEOUT_S:g} s.",
            "Is it on, is the address right, and does its input chain let this machine in?",
            host,
        )
    return RouterUnreachable(f"Router {host}:{port} cannot be reached: {_reason(error)}.", "Check the address.", host)


def _reason(error: BaseException) -> str:
    text = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return str(text).lower().replace("_", " ").rstrip(".") or type(error).__name__
