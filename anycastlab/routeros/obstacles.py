"""Rows of a person that undo ours, each with its id, what it means, and what helps. Pure.

They are never changed: they are told in the plan, and again as the cause when a check fails. What each family of rows
can do is in a module of its own (`obstacles_firewall`, `obstacles_routing`, `obstacles_dns`); here is what they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Final, Literal

from anycastlab.routeros.packet import Actual, InterfaceLists, is_off
from anycastlab.routeros.reading import Reading
from anycastlab.routeros.row import describe
from anycastlab.routeros.values import is_true
from anycastlab.site.model import Site
from anycastlab.site.parts import Node

Weight = Literal["exposes", "breaks", "may"]
"""`exposes`: with our rows the router would serve the internet, so nothing is written. `breaks`: as long as it is
there, the service or its last resort does not work for somebody. `may`: depends on what cannot be seen in the row."""

FEW: Final = 2
"""So many rules that cannot be judged are told one by one."""


@dataclass(frozen=True)
class Obstacle:
    """`where` is the menu and the row in words, with its id."""

    where: str
    means: str
    hint: str
    weight: Weight = "breaks"
    judged: bool = True
    """False: whether it does what `means` says hangs on matchers that cannot be read here, such as an address list."""

    def __str__(self) -> str:
        return f"{self.where}: {self.means} {self.hint}"


@dataclass(frozen=True)
class Scene:
    """The site and the router, and what both together say about who is behind which interface."""

    site: Site
    reading: Reading
    lists: InterfaceLists
    clients: tuple[tuple[IPv4Network, str], ...]
    """Networks that ask, each with the router's interface to them; empty where it is not known."""

    @classmethod
    def of(cls, site: Site, reading: Reading) -> Scene:
        around = reading.around
        lists = InterfaceLists.of(around.get("/interface/list", ()), around.get("/interface/list/member", ()))
        # A subnet of the nodes' own has no clients to speak of.
        theirs = {node.network for node in site.nodes} if site.layout == "routed" else set()
        networks = [network for network in site.router.lan_networks if network not in theirs]
        clients = tuple((network, _interface_to(network, reading)) for network in networks or site.router.lan_networks)
        return cls(site, reading, lists, clients)

    def interface_of(self, node: Node) -> str:
        return _interface_to(IPv4Network(node.address), self.reading)

    def rows(self, menu: str) -> Sequence[Actual]:
        """Rows of any menu that was read; none where the router lacks it."""
        return self.reading.menus.get(menu) or self.reading.around.get(menu) or ()

    def enabled(self, menu: str) -> Iterator[Actual]:
        return (row for row in self.rows(menu) if not is_off(row))

    def who(self, address: str) -> str:
        """What an address is to us: `the service address`, `node01`, or nothing."""
        site = self.site
        if address in (str(site.service.address), str(site.service.address6)):
            return "the service address"
        return next((n.name for n in site.nodes if address in (str(n.address), str(n.address6))), "")


def told(obstacles: Sequence[Obstacle]) -> list[str]:
    """What a plan says of them. Rules that could not be judged share a line: a well-kept firewall has many of these."""
    unjudged = [obstacle.where.partition(" chain=")[0] for obstacle in obstacles if not obstacle.judged]
    if len(unjudged) <= FEW:
        return [str(obstacle) for obstacle in obstacles]
    notes = [str(obstacle) for obstacle in obstacles if obstacle.judged]
    return [
        *notes,
        f"{len(unjudged)} rules of yours may be in the way of DNS, depending on matchers that cannot be read here: "
        f"{', '.join(unjudged)}. `anycastlab router verify` says of each what it may catch.",
    ]


def at(menu: str, row: Actual) -> str:
    """Where a row is, for the person who looks for it."""
    return f"{menu} {describe(row)}".rstrip()


def connected(reading: Reading) -> Iterator[tuple[IPv4Interface, str]]:
    """The router's addresses with their interfaces; an address on a bridge's port is the bridge's."""
    for row in reading.addresses:
        if row.get("address") and not is_true(row.get("disabled")):
            yield IPv4Interface(row["address"]), row.get("actual-interface") or row.get("interface", "")


def interface_towards(address: IPv4Address, reading: Reading) -> str:
    return _interface_to(IPv4Network(address), reading)


def _interface_to(network: IPv4Network, reading: Reading) -> str:
    found = [(own.network.prefixlen, name) for own, name in connected(reading) if own.network.overlaps(network)]
    return max(found)[1] if found else ""
