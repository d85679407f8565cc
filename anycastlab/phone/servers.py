"""Addresses of resolvers as people write them: `10.1.9.53`, `10.1.9.53@5353`, `fd00::53`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum

from anycastlab.phone.errors import PhoneError


class Transport(StrEnum):
    """How queries travel. DoT is DNS over TLS (RFC 7858)."""

    UDP = "udp"
    TCP = "tcp"
    DOT = "dot"


DEFAULT_PORT = {Transport.UDP: 53, Transport.TCP: 53, Transport.DOT: 853}


@dataclass(frozen=True, slots=True)
class Server:
    """One resolver's address and port."""

    address: str
    port: int

    def __str__(self) -> str:
        return self.address if self.port == DEFAULT_PORT[Transport.UDP] else f"{self.address}@{self.port}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.address

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback


def parse(text: str, transport: Transport) -> Server:
    """Raises PhoneError. Names are not accepted: looking one up would need the resolver that is being measured."""
    address, at, port = text.partition("@")
    try:
        canonical = str(ipaddress.ip_address(address))
    except ValueError:
        raise PhoneError(f"{text!r} is not the address of a server.", "Write 10.1.9.53 or 10.1.9.53@5353.") from None
    if not at:
        return Server(canonical, DEFAULT_PORT[transport])
    if not port.isdigit() or not 1 <= int(port) <= 65535:
        raise PhoneError(f"{text!r}: {port!r} is not a port.", "Ports are 1 to 65535.")
    return Server(canonical, int(port))
