"""Which rule of a RouterOS firewall a packet meets. Pure; for judging rules that a person wrote, never for writing any.

What cannot be told from the rule alone (a limit, a time, an address list) is a third answer beside yes and no: the rule
may match. A walk goes through a chain as the router does and gives each rule that acts on the packet, up to the first
that surely ends its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network, summarize_address_range
from typing import Final, Literal

from anycastlab.routeros.row import tag_of
from anycastlab.routeros.values import is_true

Network = IPv4Network | IPv6Network
Actual = Mapping[str, str]
Protocol = Literal["udp", "tcp"]
Matches = bool | None
"""None: it cannot be told, or only some packets match."""

ANYWHERE: Final = IPv4Network("0.0.0.0/0")

#: Actions after which a packet meets no further rule of this table.
ENDS: Final = frozenset(
    {"accept", "drop", "reject", "tarpit", "dst-nat", "src-nat", "redirect", "masquerade", "netmap", "same", "route"}
)
#: Actions that do something to the packet and let it go on.
ACTS: Final = frozenset({"mark-routing", "notrack", "fasttrack-connection"})

EPHEMERAL, MOST_PORT = 1024, 65535  # where clients' own ports begin and end
_MOST_JUMPS: Final = 16  # chains within chains; a loop of jumps must end, too

#: Properties that are no matchers.
_INERT: Final = frozenset(
    {
        "action", "address-list", "address-list-timeout", "builtin", "bytes", "chain", "comment", "disabled", "dynamic",
        "hw-offload", "inactive", "invalid", "jump-target", "log", "log-prefix", "new-connection-mark",
        "new-packet-mark", "new-routing-mark", "packets", "passthrough", "reject-with", "to-addresses", "to-ports",
    }
)  # fmt: skip
_NUMBERS: Final = {"6": "tcp", "17": "udp", "1": "icmp"}


@dataclass(frozen=True)
class Packet:
    """The packets of one kind: from any address of `source` to `target`. Interfaces are empty for the router's own."""

    source: Network
    target: Network
    protocol: Protocol
    port: int
    source_port: int | None = None
    """None: any."""
    into: str = ""
    out: str = ""
    state: Literal["new", "established"] = "new"
    local: bool = False
    """`target` is an address of the router."""


@dataclass(frozen=True)
class Hit:
    """A rule that acts on the packet; `sure` when it does so to all of them."""

    row: Actual = field(repr=False)
    action: str
    sure: bool


@dataclass(frozen=True)
class InterfaceLists:
    """`/interface/list` and its members, by list."""

    members: Mapping[str, frozenset[str]]
    includes: Mapping[str, tuple[str, ...]]
    excludes: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, lists: Sequence[Actual], members: Sequence[Actual]) -> InterfaceLists:
        found: dict[str, set[str]] = {row.get("name", ""): set() for row in lists}
        for row in members:
            if not is_true(row.get("disabled")):
                found.setdefault(row.get("list", ""), set()).add(row.get("interface", ""))
        return cls(
            {name: frozenset(interfaces) for name, interfaces in found.items()},
            {row.get("name", ""): _items(row.get("include")) for row in lists},
            {row.get("name", ""): _items(row.get("exclude")) for row in lists},
        )

    def holds(self, name: str, interface: str, depth: int = 0) -> Matches:
        if name in ("all", "none"):
            return name == "all"
        if name not in self.members or depth > _MOST_JUMPS:
            return None  # dynamic and static, or one that was not read
        if any(self.holds(other, interface, depth + 1) for other in self.excludes.get(name, ())):
            return False
        within = interface in self.members[name]
        return within or any(self.holds(other, interface, depth + 1) for other in self.includes.get(name, ()))


def walk(rows: Sequence[Actual], chain: str, packet: Packet, lists: InterfaceLists) -> Iterator[Hit]:
    """The foreign rules that act on `packet` in `chain`, in order, up to the first that surely ends its way.

    Rules of ours are passed over: what they do is known, and they must not hide what happens without them.
    """
    yield from _walk(rows, chain, packet, lists, sure=True, depth=0)


def _walk(
    rows: Sequence[Actual], chain: str, packet: Packet, lists: InterfaceLists, *, sure: bool, depth: int
) -> Iterator[Hit]:
    """A generator whose value is True when the packet's way surely ended in this chain."""
    ended = False
    for row in rows:
        if ended or row.get("chain") != chain or is_off(row) or tag_of(row):
            continue
        matches = match(row, packet, lists)
        if matches is False:
            continue
        certain = sure and matches is True
        action = row.get("action") or "accept"
        if action == "return":
            if certain:
                return
        elif action == "jump":
            if depth < _MOST_JUMPS:
                for hit in _walk(rows, row.get("jump-target", ""), packet, lists, sure=certain, depth=depth + 1):
                    yield hit
                    ended = ended or (hit.sure and hit.action in ENDS)
        elif action in ENDS or action in ACTS:
            yield Hit(row, action, certain)
            ended = certain and action in ENDS


def match(row: Actual, packet: Packet, lists: InterfaceLists) -> Matches:
    """Whether all matchers of the rule fit."""
    found: Matches = True
    for name, value in row.items():
        if name in _INERT or value == "" or name.startswith("."):
            continue
        matcher = _MATCHERS.get(name)
        fits = None if matcher is None else _negated(value, lambda text, m=matcher: m(text, packet, lists))  # type: ignore[misc]
        if fits is False:
            return False
        if fits is None:
            found = None
    return found


def is_off(row: Actual) -> bool:
    """Disabled, or invalid: one that names what does not exist, or stands in a chain nobody jumps to."""
    return is_true(row.get("disabled")) or is_true(row.get("invalid"))


def within(text: str, network: Network) -> Matches:
    """Whether all of `network` lies in the addresses `text`: an address, a prefix or a range."""
    try:
        parts = _networks(text)
    except ValueError:
        return None
    parts = [part for part in parts if part.version == network.version]
    if any(network.subnet_of(part) for part in parts):  # type: ignore[arg-type]  # of one version, as filtered above
        return True
    return None if any(part.overlaps(network) for part in parts) else False


def _networks(text: str) -> list[Network]:
    found: list[Network] = []
    for part in _items(text):
        first, dash, last = part.partition("-")
        if dash:
            found += summarize_address_range(ip_address(first), ip_address(last))
        else:
            found.append(ip_network(part, strict=False))
    return found


def _negated(value: str, matcher: Callable[[str], Matches]) -> Matches:
    if not value.startswith("!"):
        return matcher(value)
    fits = matcher(value[1:])
    return None if fits is None else not fits


def _protocol(text: str, packet: Packet, _lists: InterfaceLists) -> Matches:
    return _NUMBERS.get(text, text) == packet.protocol


def _port(text: str, port: int | None) -> Matches:
    spans = [(low, high or low) for low, _, high in (item.partition("-") for item in _items(text))]
    try:
        if port is not None:
            return any(int(low) <= port <= int(high) for low, high in spans)
        if any(int(low) <= EPHEMERAL and int(high) >= MOST_PORT for low, high in spans):
            return True
        return None if any(int(high) >= EPHEMERAL for _, high in spans) else False
    except ValueError:
        return None


def _either_port(text: str, packet: Packet, _lists: InterfaceLists) -> Matches:
    return bool(_port(text, packet.port) or _port(text, packet.source_port))


def _interface(text: str, interface: str) -> Matches:
    return None if text.startswith("all-") and interface else text == interface  # all-ppp, all-vlan, …


def _interface_list(text: str, interface: str, lists: InterfaceLists) -> Matches:
    return lists.holds(text, interface) if interface else text == "all"


def _state(text: str, packet: Packet, _lists: InterfaceLists) -> Matches:
    return packet.state in _items(text)


def _nat_state(_text: str, _packet: Packet, _lists: InterfaceLists) -> Matches:
    return False  # none of ours is translated while nodes serve


def _address_type(text: str, local: bool) -> Matches:
    if text == "local":
        return local
    if text == "unicast":
        return None if local else True
    return False if text in ("broadcast", "multicast", "blackhole", "prohibit", "unreachable") else None


def _ipsec(text: str, _packet: Packet, _lists: InterfaceLists) -> Matches:
    return text.endswith(",none")


_MATCHERS: Final[Mapping[str, Callable[[str, Packet, InterfaceLists], Matches]]] = {
    "protocol": _protocol,
    "src-address": lambda text, packet, _: within(text, packet.source),
    "dst-address": lambda text, packet, _: within(text, packet.target),
    "src-address-type": lambda text, packet, _: _address_type(text, not packet.into),
    "dst-address-type": lambda text, packet, _: _address_type(text, packet.local),
    "src-port": lambda text, packet, _: _port(text, packet.source_port),
    "dst-port": lambda text, packet, _: _port(text, packet.port),
    "port": _either_port,
    "any-port": _either_port,
    "in-interface": lambda text, packet, _: _interface(text, packet.into),
    "out-interface": lambda text, packet, _: _interface(text, packet.out),
    "in-interface-list": lambda text, packet, lists: _interface_list(text, packet.into, lists),
    "out-interface-list": lambda text, packet, lists: _interface_list(text, packet.out, lists),
    "connection-state": _state,
    "connection-nat-state": _nat_state,
    "ipsec-policy": _ipsec,
}


def _items(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
