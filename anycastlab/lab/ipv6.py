"""IPv6 on the interfaces of a lab machine: there with an IPv6 service address, gone without.

Apart from the instance's own description, because it comes and goes while the machine serves: the address is put on the
running interface, which disturbs nothing else on it, and a drop-in of systemd-networkd brings it back after a reboot.
Only unique local addresses on bridges that lead nowhere; this host has none of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Final

from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.exceptions import FactProcessError

from anycastlab import tell
from anycastlab.lab import specs
from anycastlab.shell_fact import ShellFact, asked
from anycastlab.site import Node, topology

_DROP_IN: Final = "/etc/systemd/network/10-{interface}.network.d/ipv6.conf"  # beside the first boot's own file


@dataclass(frozen=True)
class Leg:
    """One interface with its IPv6 address, and the way out if it leads there."""

    interface: str
    address: IPv6Address
    gateway: IPv6Address | None = None

    @property
    def prefix(self) -> str:
        return f"{self.address}/{topology.LAN6.prefixlen}"

    @property
    def drop_in(self) -> str:
        return _DROP_IN.format(interface=self.interface)

    def text(self) -> str:
        """The drop-in. Nobody else is on these bridges: no second is lost to looking for a duplicate."""
        lines = ["[Address]", f"Address={self.prefix}", "DuplicateAddressDetection=none"]
        if self.gateway is not None:
            lines += ["[Route]", f"Gateway={self.gateway}"]
        return "\n".join(lines) + "\n"

    def add(self) -> str:
        """The shell command that brings it, now and after the next boot."""
        folder = self.drop_in.rpartition("/")[0]
        way = (
            f" && ip -6 route replace default via {self.gateway} dev {self.interface}"
            if self.gateway is not None
            else ""
        )
        return (
            f"mkdir -p {folder} && printf %s {shlex.quote(self.text())} > {self.drop_in}"
            f" && ip -6 address replace {self.prefix} dev {self.interface} nodad{way}"
        )


def router_legs() -> tuple[Leg, ...]:
    """The router's; its way out has no IPv6."""
    return Leg(specs.LAN, topology.ROUTER_LAN6), Leg(specs.DNS, topology.ROUTER_DNS6)


def client_legs(number: int) -> tuple[Leg, ...]:
    address = topology.twin_address(topology.LAN6, topology.FIRST_CLIENT - 1 + number)
    return (Leg("eth0", address, topology.ROUTER_LAN6),)


def node_legs(node: Node) -> tuple[Leg, ...]:
    return (Leg(node.interface, node.address6, node.gateway6),) if node.address6 else ()


@dataclass(frozen=True)
class Addresses:
    """What is on a machine: drop-ins by interface, (interface, prefix) of addresses, (interface, via) of ways out."""

    drop_ins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    live: frozenset[tuple[str, str]] = frozenset()
    routes: frozenset[tuple[str, str]] = frozenset()


class AddressesFact(ShellFact[Addresses]):
    """The default is a machine that does not exist yet."""

    @staticmethod
    def default() -> Addresses:
        return Addresses()

    def command(self) -> StringCommand:
        pattern = _DROP_IN.format(interface="*")
        return asked(
            f"grep -s . {pattern} /dev/null | sed 's/^/file /';"
            " ip -6 -o address show scope global; ip -6 route show default"
        )

    def read(self, output: list[str]) -> Addresses:
        try:
            return parse(output)
        except (IndexError, ValueError) as error:
            raise FactProcessError(f"the machine's IPv6 addresses cannot be read ({error})") from error


def parse(lines: list[str]) -> Addresses:
    """From what the fact's command prints. Raises IndexError or ValueError."""
    before, after = _DROP_IN.split("{interface}")
    drop_ins: dict[str, tuple[str, ...]] = {}
    live, routes = set(), set()
    for line in lines:
        words = line.split()
        if words[:1] == ["file"]:
            path, _, text = line.removeprefix("file ").partition(":")
            name = path.removeprefix(before).removesuffix(after)
            drop_ins[name] = (*drop_ins.get(name, ()), text)
        elif words[:1] == ["default"] and "via" in words:
            routes.add((words[words.index("dev") + 1], words[words.index("via") + 1]))
        elif words[2:3] == ["inet6"]:
            live.add((words[1], words[3]))
    return Addresses(drop_ins, frozenset(live), frozenset(routes))


def changes(wanted: tuple[Leg, ...], actual: Addresses) -> list[str]:
    """The shell commands that make it so; none when it is. Pure."""
    commands = []
    texts = {leg.interface: tuple(leg.text().splitlines()) for leg in wanted}
    for interface, text in sorted(actual.drop_ins.items()):
        if texts.get(interface) != text:
            commands.append(_remove(interface, text))
    for leg in wanted:
        there = (
            actual.drop_ins.get(leg.interface) == texts[leg.interface]
            and (leg.interface, leg.prefix) in actual.live
            and (leg.gateway is None or (leg.interface, str(leg.gateway)) in actual.routes)
        )
        if not there:
            commands.append(leg.add())
    return commands


def _remove(interface: str, text: tuple[str, ...]) -> str:
    """Whatever an earlier drop-in brought; what is gone already is no error."""
    device = shlex.quote(interface)
    parts = []
    for line in text:
        key, _, value = line.partition("=")
        if key == "Gateway":
            parts.append(f"ip -6 route del default via {shlex.quote(value)} dev {device} 2>/dev/null")
        elif key == "Address":
            parts.append(f"ip -6 address del {shlex.quote(value)} dev {device} 2>/dev/null")
    folder = shlex.quote(_DROP_IN.format(interface=interface).rpartition("/")[0])
    return "; ".join([*parts, f"rm -rf {folder}"])


@operation()
def addresses(legs: tuple[Leg, ...]) -> Generator[StringCommand, None, None]:
    """The machine's interfaces have exactly these IPv6 addresses of ours.

    + legs: interface, address and gateway of each; none: what an earlier run brought goes
    """
    todo = changes(legs, host.get_fact(AddressesFact))
    if not todo:
        host.noop("IPv6 addresses are as described")
        return
    tell.change(
        f"change the IPv6 addresses: {', '.join(leg.prefix for leg in legs) or 'none any more'}",
        lambda: [f"+ {leg.interface} {leg.prefix}" for leg in legs],
    )
    for command in todo:
        yield StringCommand(command)
