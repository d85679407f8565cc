"""What is read from a router before anything is planned: every menu once, whole, with the properties needed. Pure.

The commands are data, so that the pyinfra fact and the plain functions read the same: `reading_commands` says what to
ask, `reading_from` makes a `Reading` of the answers. All menus are asked side by side, in one round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from typing import Final

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import NoSuchCommand, RouterRefused
from anycastlab.routeros.row import MENUS, SETTINGS, tag_of
from anycastlab.routeros.rows import Device, proplist
from anycastlab.routeros.version import Capabilities, capabilities
from anycastlab.routeros.wire import Reply
from anycastlab.site.model import Site

Command = tuple[str, ...]

VERSION_COMMAND: Command = ("/system/resource/print", "=.proplist=version")
#: A router may hold a million routes: only those with a comment can be ours.
QUERIES: Mapping[str, Command] = {"/ip/route": ("?comment",), "/ipv6/route": ("?comment",)}

ADDRESSES_COMMAND: Command = ("/ip/address/print", "=.proplist=address,interface,actual-interface,disabled,comment")

DEFAULT_ROUTES: Final = "default routes"

#: What a person has beside our menus, and may undo ours (`obstacles`): by menu, and the default routes of all tables.
#: Some menus exist with a package or a kind of hardware only.
AROUND: Final[Mapping[str, Command]] = {
    DEFAULT_ROUTES: (
        "/ip/route/print",
        "=.proplist=.id,dst-address,gateway,immediate-gw,active,disabled,distance,routing-table,comment",
        "?dst-address=0.0.0.0/0",
    ),
    **{
        menu: (f"{menu}/print",)
        for menu in (
            "/ip/firewall/raw",
            "/ip/firewall/mangle",
            "/ip/firewall/connection/tracking",
            "/routing/rule",
            "/ip/vrf",
            "/ip/hotspot",
            "/ip/dns/forwarders",
            "/interface/list",
            "/interface/list/member",
            "/interface/bridge/settings",
            "/interface/ethernet/switch",
            "/interface/ethernet/switch/port",
        )
    },
}


@dataclass(frozen=True)
class Reading:
    """A router's menus at one moment. A menu it does not have is missing from `menus`."""

    version: str
    menus: Mapping[str, Sequence[Reply]] = field(repr=False)
    addresses: Sequence[Reply] = ()
    host: str = ""
    around: Mapping[str, Sequence[Reply]] = field(default_factory=dict, repr=False)
    """Menus of `AROUND` that the router has."""

    @property
    def missing(self) -> frozenset[str]:
        return frozenset(MENUS) - self.menus.keys()

    @property
    def device(self) -> Device:
        """Raises RouterError for an unsupported version."""
        return Device(
            caps=self.capabilities,
            addresses=tuple(IPv4Interface(row["address"]) for row in self.addresses if row.get("address")),
            ipv6_firewall="/ipv6/firewall/filter" in self.menus,
            ipv6_route="/ipv6/route" in self.menus,
            ipv6_hash=any(not row or "multipath-hash-policy" in row for row in self.menus.get("/ipv6/settings", ())),
        )

    @property
    def capabilities(self) -> Capabilities:
        return capabilities(self.version, self.missing, self.host)

    def shares_load(self, site: Site) -> bool:
        """Whether BGP uses all nodes at once: the version can, and the instance is told to, which may be a person's."""
        if not self.capabilities.multipath or site.router.bgp_instance is None:
            return self.capabilities.multipath
        instances = self.menus.get("/routing/bgp/instance", ())
        paths = [row.get("multipath", "") for row in instances if row.get("name") == site.router.bgp_instance]
        return any(text.isdigit() and int(text) >= len(site.nodes) for text in paths)

    def own(self, menu: str) -> list[Reply]:
        return [row for row in self.menus.get(menu, ()) if tag_of(row)]


def reading_commands(version: str, host: str = "") -> list[Command]:
    """What to ask a router of this version. Raises RouterError for an unsupported one."""
    schema = capabilities(version, host=host).schema
    commands: list[Command] = [
        (f"{menu}/print", f"=.proplist={','.join(proplist(menu, schema, ()))}", *QUERIES.get(menu, ()))
        for menu in MENUS
    ]
    return [*commands, ADDRESSES_COMMAND, *AROUND.values()]


def reading_from(version: str, answers: Sequence[Sequence[Reply] | None], host: str = "") -> Reading:
    """A reading from the answers to `reading_commands`; None stands for a menu that does not exist."""
    menus, addresses, around = answers[: len(MENUS)], answers[len(MENUS)], answers[len(MENUS) + 1 :]
    return Reading(
        version,
        {menu: list(rows) for menu, rows in zip(MENUS, menus, strict=True) if rows is not None},
        list(addresses or ()),
        host,
        {menu: list(rows) for menu, rows in zip(AROUND, around, strict=True) if rows is not None},
    )


def fresh(version: str, host: str = "") -> Reading:
    """A router of that version nobody has configured: what a plan is made against before the lab's exists."""
    caps = capabilities(version, host=host)
    empty: dict[str, list[Reply]] = {}
    for menu in MENUS:
        if caps.schema.menu(menu) is not None and (menu != "/routing/bgp/instance" or caps.instance):
            empty[menu] = [{}] if menu in SETTINGS else []
    return Reading(version, empty, (), host)


def read(connection: Connection) -> Reading:
    """Reads a router over a connection."""
    rows = connection.call(*VERSION_COMMAND)
    version = rows[0].get("version", "") if rows else ""
    answers = read_many(connection, reading_commands(version, connection.host))
    return reading_from(version, answers, connection.host)


def read_many(connection: Connection, commands: Sequence[Sequence[str]]) -> list[list[Reply] | None]:
    """Rows of each command in one round trip, None where the menu does not exist; another refusal is raised."""
    answers: list[list[Reply] | None] = []
    for answer in connection.call_many(commands):
        if isinstance(answer, NoSuchCommand):
            answers.append(None)
        elif isinstance(answer, RouterRefused):
            raise answer
        else:
            answers.append(answer)
    return answers
