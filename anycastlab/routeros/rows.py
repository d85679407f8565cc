"""The desired rows of a router, as a function of the site and of what the router can do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface

from anycastlab.command_trees.schema import Kind, Schema
from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.row import MENUS, SECRETS, Row
from anycastlab.routeros.rows_bgp import bgp_rows
from anycastlab.routeros.rows_fallback import NETWATCH, fallback_rows
from anycastlab.routeros.rows_firewall import firewall_rows
from anycastlab.routeros.rows_settings import dhcp_rows, probe_zone_row, settings_rows
from anycastlab.routeros.values import microseconds
from anycastlab.routeros.version import Capabilities
from anycastlab.site.model import Site


@dataclass(frozen=True)
class Device:
    """What was found on the router and shapes the rows."""

    caps: Capabilities
    addresses: tuple[IPv4Interface, ...] = ()
    ipv6_firewall: bool = True
    ipv6_hash: bool = True
    """It can be told how to spread IPv6 flows over several next hops."""
    ipv6_route: bool = True


def desired_rows(site: Site, device: Device) -> list[Row]:
    """All rows, in the order of writing, checked against the version's command tree. Raises PlanError."""
    rows = [
        *firewall_rows(site, ipv6=site.service.address6 is not None and device.ipv6_firewall),
        *settings_rows(site, ipv6=device.ipv6_hash),
        probe_zone_row(site),
        *bgp_rows(site, device.caps),
        *fallback_rows(site, device.caps, device.ipv6_route),
        *dhcp_rows(site, device.addresses),
    ]
    rows.sort(key=lambda row: (MENUS.index(row.menu), row.place))
    problems = list(check(rows, device.caps.schema))
    if problems:
        raise PlanError(
            f"RouterOS {device.caps.version.number} does not take what is planned for it: {'; '.join(problems)}.",
            "Change the value in the inventory or group_data.",
            site.router.api_host,
        )
    return rows


def check(rows: Iterable[Row], schema: Schema) -> Iterable[str]:
    """Each disagreement with the command tree in words. A menu outside the published trees cannot be checked."""
    for row in rows:
        menu = schema.menu(row.menu)
        if menu is None:
            if not row.menu.startswith("/ipv6/"):
                yield f"{row.menu} does not exist"
            continue
        verb = "add" if row.tag else "set"
        sent: dict[str, str | None] = {**row.properties, **(row.initial or {})}
        for name, value in sent.items():
            if name not in menu.arguments(verb):
                yield f"{row.menu} has no {name}"
            elif value is not None and (problem := _value_problem(menu.kind(verb, name), value)):
                shown = "***" if name in SECRETS else value
                yield f"{row.menu} {name}={shown} {problem}"


def _value_problem(kind: Kind, value: str) -> str:
    if kind.name == "enum" and value not in kind.words and value.removeprefix("!") not in kind.words:
        return f"is none of {', '.join(kind.words)}"
    if kind.name == "bool" and value not in {"yes", "no", "true", "false"}:
        return "is neither yes nor no"
    if kind.name == "text" and kind.words and len(value.encode()) > int(kind.words[0]):
        return f"is longer than {kind.words[0]} bytes"
    if value in kind.words or not (kind.low or kind.high):
        return ""
    if kind.name == "int":
        return _range_problem(_integer(value), _integer(kind.low), _integer(kind.high), kind)
    if kind.name == "time":
        return _range_problem(microseconds(value), microseconds(kind.low), microseconds(kind.high), kind)
    return ""


def _range_problem(value: int | None, low: int | None, high: int | None, kind: Kind) -> str:
    if value is None:
        return "is no number" if kind.name == "int" else "is no time"
    if (low is not None and value < low) or (high is not None and value > high):
        return f"lies outside {kind.low}..{kind.high}"
    return ""


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def proplist(menu: str, schema: Schema, rows: Sequence[Row]) -> list[str]:
    """Properties to read from a menu so that a plan can be made, verified and undone from them.

    What an own row may hold is read whole (a backup restores it, a stray matcher is drift), plus the flags.
    """
    known = schema.menu(menu)
    names = set(known.properties) if known is not None else set()
    for row in rows:
        if row.menu == menu:
            names.update(row.properties)
            names.update(row.initial or {})
    if menu == NETWATCH:
        names.add("status")
    if menu == "/ip/dns":
        names.add("dynamic-servers")  # a provider's, by DHCP; shown and never set
    return [".id", "comment", "dynamic", "builtin", "invalid", "inactive", *sorted(names - {"comment"})]
