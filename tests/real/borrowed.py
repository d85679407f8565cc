"""A router that belongs to somebody: what is needed to use it, what is said before, and giving it back as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from anycastlab.errors import AnycastlabError
from anycastlab.routeros import originals
from anycastlab.routeros.apply import Check, apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.limits import API_PORT, API_TLS_PORT
from anycastlab.routeros.plan import make_plan
from anycastlab.routeros.planning import Planned, plan_removal, plan_site
from anycastlab.routeros.reading import Reading, read
from anycastlab.routeros.row import MENUS, SETTINGS, Row, describe, is_static, tag_of
from anycastlab.site.model import Site
from anycastlab.site.parts import Node, Resolver, Router

# Opening the resolver to remote requests is not for a test: the guard below does not stand at the real WAN.
LEFT_OUT = frozenset({"/ip/dns"})

Rows = dict[str, list[dict[str, str]]]

_WHERE = re.compile(
    r"^(?P<user>[^:]+):(?P<password>.*)@(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[^@:\[\]\s]+)(:(?P<port>\d{1,5}))?$"
)


class UnusableError(AnycastlabError):
    """The router that was named cannot be used for these tests."""


def target(environment: Mapping[str, str]) -> Target:
    """From ANYCASTLAB_ROUTER=user:password@host[:port], …_TLS=0|1 and …_FINGERPRINT. Raises UnusableError."""
    found = _WHERE.match(environment.get("ANYCASTLAB_ROUTER", ""))
    if not found:
        raise UnusableError(
            "ANYCASTLAB_ROUTER names no router.", "Set it to user:password@host or user:password@host:port."
        )
    port = int(found["port"]) if found["port"] else None
    wish = environment.get("ANYCASTLAB_ROUTER_TLS", "0" if port == API_PORT else "1")
    if wish not in ("0", "1"):
        raise UnusableError(f"ANYCASTLAB_ROUTER_TLS is {wish!r}.", "Set it to 1 for the API over TLS, or to 0.")
    port = port or (API_TLS_PORT if wish == "1" else API_PORT)
    fingerprint = environment.get("ANYCASTLAB_ROUTER_FINGERPRINT") or None
    return Target(found["host"].strip("[]"), port, found["user"], found["password"], wish == "1", fingerprint)


def site(nodes: int = 3) -> Site:
    """A home in documentation addresses (RFC 5737), so that no session comes up and no real packet matches.

    The guard against DNS from the WAN stands at the loopback interface, where none comes from.
    """
    members = tuple(
        Node(
            name=f"node{number:02}",
            host=f"192.0.2.{number}",
            platform="ssh",
            address=f"192.0.2.{number}",
            prefix_length=24,
            gateway="192.0.2.254",
            router_id=f"192.0.2.{number}",
        )
        for number in range(1, nodes + 1)
    )
    router = Router(
        host="@routeros/router",
        api_host="router",
        api_port=API_TLS_PORT,
        router_id="192.0.2.254",
        lan_networks=("198.51.100.0/25", "192.0.2.0/24"),
        wan_interface="lo",
    )
    resolver = Resolver(upstreams=("192.0.2.53",), router_dns="192.0.2.254")
    return Site(service={"address": "198.51.100.253"}, resolver=resolver, nodes=members, router=router)


def introduction(reading: Reading) -> str:
    """What a person should know before agreeing."""
    count = sum(len(rows) for rows in foreign(reading).values())
    return f"""
Router {reading.host}, RouterOS {reading.version}, with {count} rows of its own in the menus concerned.

These tests add rows of anycastlab's, several times, and remove them: firewall accepts, a BGP instance with connections
to 192.0.2.1 to 192.0.2.3, filters, BFD, a disabled redirect, a netwatch. They are all for documentation addresses, so
nothing matches them, but the router will try to reach those addresses meanwhile. The multipath hash policy of
/ip/settings is changed and given back. Writes happen in safe mode where the version has one.
At the end the router must be as before, and is compared. It takes about a minute. A backup of your own is still wise.
"""


def agreed(text: str, terminal: TextIO | None, answers: TextIO | None) -> bool:
    """Shows the text and asks, where there is somebody to answer; who runs this without a terminal has agreed."""
    if terminal is None or answers is None:
        return True
    terminal.write(f"{text}\nGo on? [y/N] ")
    terminal.flush()
    return answers.readline().strip().lower() in ("y", "yes")


def refuse_ours(reading: Reading) -> None:
    """Raises UnusableError when rows of ours are there: the tests would remove a household's as their own."""
    ours = [(menu, row) for menu, rows in reading.menus.items() for row in rows if tag_of(row)]
    if ours:
        menu, row = ours[0]
        raise UnusableError(
            f"Router {reading.host} has {len(ours)} rows of anycastlab's already, one in {menu}: {describe(row)}.",
            "If a deploy made them, use another router. If an interrupted run of these tests did, remove all rows "
            "whose comment begins with `anycastlab:`.",
        )


@dataclass(frozen=True)
class Loan:
    """A borrowed router. `before` is what it must be like at the end."""

    connection: Connection
    before: Reading
    state: Path

    def read(self) -> Reading:
        return read(self.connection)

    def plan(self, nodes: int = 3) -> Planned:
        """What a deploy of `site(nodes)` would change, the resolver's settings left out."""
        reading = self.read()
        whole = plan_site(site(nodes), reading)
        rows: tuple[Row, ...] = tuple(row for row in whole.desired if row.menu not in LEFT_OUT)
        return Planned(make_plan(rows, reading.menus, whole.plan.notes, reading.host), rows, reading)

    def deploy(self, nodes: int = 3, check: Check | None = None) -> None:
        """As a deploy does it, but for the check of sessions and answers, which nobody here can give."""
        planned = self.plan(nodes)
        originals.remember(self.state, planned)
        apply(self.connection, planned, self.state, site=site(nodes), check=check)

    def removal(self) -> Planned:
        reading = self.read()
        return plan_removal(site(), reading, originals.load(self.state, reading.host))

    def remove(self) -> None:
        planned = self.removal()
        if planned.changes:
            apply(self.connection, planned, self.state)
        originals.forget(self.state, self.connection.host)

    def not_as_before(self) -> list[str]:
        """Menus that differ from what they were."""
        before, now = contents(self.before), contents(self.read())
        return [menu for menu in MENUS if now.get(menu) != before.get(menu)]

    def foreign(self) -> Rows:
        return foreign(self.read())


def foreign(reading: Reading) -> Rows:
    """Every row that is not ours, whole and in its order; settings, of which each menu has one row, aside."""
    return {
        menu: [row for row in rows if not tag_of(row)]
        for menu, rows in contents(reading).items()
        if menu not in SETTINGS
    }


def contents(reading: Reading) -> Rows:
    """What is configured, ids included: without rows the router makes itself, and what it thinks of rows just now."""
    return {
        menu: [{k: v for k, v in row.items() if k not in ("inactive", "invalid")} for row in rows if is_static(row)]
        for menu, rows in reading.menus.items()
    }


@contextmanager
def borrowed(where: Target, state: Path) -> Iterator[Loan]:
    """The router for one test. Whatever that did, it is as before afterwards, or an AssertionError says where not."""
    connection = Connection(where)
    try:
        before = read(connection)
        refuse_ours(before)
        loan = Loan(connection, before, state)
        try:
            yield loan
        finally:
            loan.remove()
        changed = loan.not_as_before()
        assert not changed, f"{', '.join(changed)} of router {before.host} not as before"
    finally:
        connection.close()
