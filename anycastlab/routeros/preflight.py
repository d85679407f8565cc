"""Questions asked before the first write, so that a change does not stop half-way for a reason known beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import NotPermitted, RouterDenied, RouterError, RouterRefused
from anycastlab.routeros.planning import Planned
from anycastlab.routeros.reading import VERSION_COMMAND
from anycastlab.routeros.row import SECRETS, tag_of
from anycastlab.routeros.values import is_true

#: What every run needs; `sensitive` is added where a key has to be compared.
POLICIES = ("api", "read", "write", "test")


def preflight(
    connection: Connection, planned: Planned, services: Sequence[IPv4Address | IPv6Address] = ()
) -> list[str]:
    """Notes. Raises RouterError for what would make the change fail. Up to six round trips."""
    _version(connection, planned)
    _policies(connection, planned)
    notes = list(_device_mode(connection))
    if planned.reading.capabilities.safe_mode:
        _safe_mode(connection)
    for service in services:
        _static_route(connection, service)
    return notes


#: Distance of routes learned over eBGP (MikroTik manual, "IP Routing").
EBGP_DISTANCE = 20


def _via(row: Mapping[str, str]) -> str:
    return f" via {row['gateway']}" if row.get("gateway") else ""


def _version(connection: Connection, planned: Planned) -> None:
    """Rows depend on the version; a router upgraded since it was read needs another plan."""
    rows = connection.call(*VERSION_COMMAND)
    now = rows[0].get("version", "") if rows else ""
    if now != planned.reading.version:
        raise RouterError(
            f"Router {connection.host} runs RouterOS {now}, but the plan was made for {planned.reading.version}.",
            "Run again, so that the plan is made for this version. Nothing was changed.",
            connection.host,
        )


def _policies(connection: Connection, planned: Planned) -> None:
    name = connection.target.user
    try:
        users = connection.print("/user", ["name", "group", "disabled"], f"?name={name}")
        if not users:
            return  # an account from RADIUS: it is not listed, and only trying tells
        group = users[0].get("group", "")
        groups = connection.print("/user/group", ["name", "policy"], f"?name={group}")
    except NotPermitted as error:
        raise RouterDenied(
            f"User {name} may not read on router {connection.host}.",
            "Its group needs the policies api,read,write,test.",
            connection.host,
        ) from error
    except RouterRefused:
        return
    granted = set(groups[0].get("policy", "").split(",")) if groups else set()
    needed = [*POLICIES, *(["sensitive"] if _has_secret(planned) else [])]
    missing = [policy for policy in needed if policy not in granted]
    if groups and missing:
        raise RouterDenied(
            f"User {name} of router {connection.host} is in group {group}, which lacks the "
            f"{'policy' if len(missing) == 1 else 'policies'} {', '.join(missing)}.",
            f"/user/group set {group} policy={','.join(needed)}",
            connection.host,
        )


def _has_secret(planned: Planned) -> bool:
    return any(
        value is not None for row in planned.desired for name, value in row.properties.items() if name in SECRETS
    )


def _device_mode(connection: Connection) -> Iterator[str]:
    try:
        rows = connection.print("/system/device-mode")
    except RouterRefused:
        return
    if rows and is_true(rows[0].get("flagged")):
        yield "the router is flagged (/system/device-mode): RouterOS found something suspicious and limits features."


def _safe_mode(connection: Connection) -> None:
    try:
        rows = connection.print("/safe-mode")
    except RouterRefused:
        return
    if rows and is_true(rows[0].get("enabled")) and not is_true(rows[0].get("current")):
        raise safe_mode_held(connection.host, rows[0].get("user", ""))


def safe_mode_held(host: str, user: str = "") -> RouterError:
    by = f" by {user}" if user else ""
    return RouterError(
        f"Safe mode of router {host} is held{by} in another session; nothing was changed.",
        "Leave safe mode in that WinBox or terminal. If it is gone, the hold ends with its TCP connection "
        "(minutes), or at once by ending it under /user/active.",
        host,
    )


def _static_route(connection: Connection, service: IPv4Address | IPv6Address) -> None:
    """A static one wins against BGP by distance: the nodes' routes would never become active.

    One that is disabled or farther than BGP's does not. Ours is the plan's matter.
    """
    menu, prefix = ("/ip/route" if service.version == 4 else "/ipv6/route"), f"{service}/{service.max_prefixlen}"
    names = [".id", "dst-address", "gateway", "dynamic", "disabled", "distance", "comment"]
    rows = connection.print(menu, names, f"?dst-address={prefix}")
    for row in rows:
        distance = row.get("distance", "")
        farther = distance.isdigit() and int(distance) > EBGP_DISTANCE
        if not (is_true(row.get("dynamic")) or is_true(row.get("disabled")) or farther or tag_of(row)):
            raise RouterError(
                f"Router {connection.host} has a static route for the service address ({row.get('.id')} "
                f"{prefix}{_via(row)}); it would hide the nodes'.",
                f"Remove it, give it a distance above {EBGP_DISTANCE}, or choose another service address.",
                connection.host,
            )
