"""The router's interfaces: RouterOS name, Linux device, addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_address


@dataclass(frozen=True)
class Interface:
    """`name` is what rows say (`ether1-wan`), `device` what Linux says (`wan`)."""

    name: str
    device: str
    addresses: tuple[IPv4Interface | IPv6Interface, ...] = ()


@dataclass(frozen=True)
class Interfaces:
    """All of them, looked up both ways."""

    all: tuple[Interface, ...] = ()

    @classmethod
    def of(cls, interfaces: Iterable[Interface]) -> Interfaces:
        return cls(tuple(interfaces))

    def device(self, name: str) -> str | None:
        """Linux name of a RouterOS name; None when there is no such interface."""
        if name == "lo":
            return "lo"
        return next((i.device for i in self.all if i.name == name), None)

    def name(self, device: str) -> str:
        """RouterOS name of a Linux device; unknown devices keep their own."""
        return next((i.name for i in self.all if i.device == device), device)

    def towards(self, address: str) -> str | None:
        """RouterOS name of the interface whose subnet holds `address`."""
        wanted = ip_address(address)
        for interface in self.all:
            if any(wanted in own.network for own in interface.addresses):
                return interface.name
        return None

    def lowest_ipv4(self) -> str | None:
        """What the router takes as dynamic router-id."""
        own = [a.ip for i in self.all for a in i.addresses if isinstance(a, IPv4Interface)]
        return str(min(own)) if own else None

    def names(self) -> Sequence[str]:
        return [i.name for i in self.all]
