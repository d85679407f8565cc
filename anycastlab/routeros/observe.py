"""Read-outs of a running router: sessions, BFD, routes, the redirect. Parsing is pure; `observe` is one round trip.

Property names: MikroTik manual, "BGP", "BFD", "/routing/route"; a false flag may be absent, a session that never
connected has no row, and addresses may carry `%interface` or a `/32`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.reading import read_many
from anycastlab.routeros.redirect import netwatch_status, redirect_active, wrong
from anycastlab.routeros.rows_fallback import NAT, NETWATCH
from anycastlab.routeros.values import is_true, microseconds
from anycastlab.routeros.wire import Reply
from anycastlab.site.model import Site


@dataclass(frozen=True)
class BgpSession:
    """`notification` is the reason code of the last NOTIFICATION (RFC 4271 4.5) as (code, subcode).

    `about` is the router's own remark on the session.
    """

    established: bool
    remote_as: str
    notification: tuple[int, int] | None
    about: str = ""


@dataclass(frozen=True)
class BfdSession:
    """The hold time in microseconds; None where the router shows none."""

    up: bool
    state: str
    hold_us: int | None
    about: str = ""


@dataclass(frozen=True)
class Route:
    """One next hop of one prefix."""

    prefix: str
    gateway: str
    active: bool
    filtered: bool


@dataclass(frozen=True)
class Observation:
    """Everything keyed by the neighbour's address."""

    bgp: Mapping[str, BgpSession]
    bfd: Mapping[str, BfdSession]
    routes: Sequence[Route]
    redirect_active: bool
    netwatch: str = "unknown"
    """What the entry of the last resort says, see `netwatch_status`."""
    redirect_wrong: bool = False
    """The redirect is not as netwatch wants it."""


def observe(connection: Connection, site: Site) -> Observation:
    """What the router says about the nodes right now."""
    gateways = [str(a) for node in site.nodes for a in (node.address, node.address6) if a]
    # IPv6 routes may show the neighbour's link-local address as their gateway, so the service's own are asked for, too.
    words = [f"?gateway={gateway}" for gateway in gateways]
    words += [f"?dst-address={site.service.prefix6}"] if site.service.prefix6 else []
    query = [*words, *["?#|"] * (len(words) - 1)]
    sessions, bfd, routes, nat, netwatch = read_many(
        connection,
        [
            ["/routing/bgp/session/print"],
            ["/routing/bfd/session/print"],
            ["/routing/route/print", *query],
            [f"{NAT}/print", "=.proplist=.id,comment,disabled"],
            [f"{NETWATCH}/print", "=.proplist=.id,comment,disabled,status"],
        ],
    )
    return Observation(
        bgp=bgp_sessions(sessions or ()),
        bfd=bfd_sessions(bfd or ()),
        routes=bgp_routes(routes or (), gateways),
        redirect_active=redirect_active(nat or ()),
        netwatch=netwatch_status(netwatch or ()),
        redirect_wrong=bool(wrong(netwatch or (), nat or ())),
    )


def bgp_sessions(rows: Sequence[Reply]) -> dict[str, BgpSession]:
    """By remote address. An established session wins over a dying one to the same neighbour."""
    sessions: dict[str, BgpSession] = {}
    for row in rows:
        address = _address(row.get("remote.address", ""))
        session = BgpSession(
            established=is_true(row.get("established")),
            remote_as=row.get("remote.as", ""),
            notification=_notification(row),
            about=row.get(".about", ""),
        )
        if address and (address not in sessions or session.established):
            sessions[address] = session
    return sessions


def bfd_sessions(rows: Sequence[Reply]) -> dict[str, BfdSession]:
    sessions: dict[str, BfdSession] = {}
    for row in rows:
        address = _address(row.get("remote-address", row.get("remote.address", "")))
        state = row.get("state", "").lower() or ("up" if is_true(row.get("up")) else "down")
        if address and (address not in sessions or state == "up"):
            sessions[address] = BfdSession(
                up=state == "up",
                state=state,
                hold_us=microseconds(row.get("hold-time", "")),
                about=row.get(".about", ""),
            )
    return sessions


def bgp_routes(rows: Sequence[Reply], gateways: Sequence[str]) -> list[Route]:
    """Routes learned from the given neighbours; their own connected subnets have no gateway address."""
    known = set(gateways)
    found = []
    for row in rows:
        gateway = _address(row.get("gateway", ""))
        if gateway.startswith("fe80:"):
            gateway = _neighbour(row)
        if gateway in known and not _is_no(row.get("bgp")):
            found.append(
                Route(
                    prefix=_prefix(row.get("dst-address", "")),
                    gateway=gateway,
                    active=is_true(row.get("active")),
                    filtered=is_true(row.get("filtered")),
                )
            )
    return found


def _neighbour(row: Reply) -> str:
    """Whom a BGP route came from: `belongs-to` is `bgp-IP6-fd00:10:1:2::11`."""
    kind, _, address = row.get("belongs-to", "").rpartition("-")
    return _address(address) if kind.startswith("bgp-IP") else ""


def _is_no(flag: str | None) -> bool:
    """Said to be false; a flag that is not shown may be either."""
    return flag is not None and not is_true(flag)


def _notification(row: Reply) -> tuple[int, int] | None:
    """RouterOS shows the last NOTIFICATION as the whole message in hex: 16 bytes marker, length, type 3, codes."""
    for name, value in row.items():
        if name.endswith("last-notification"):
            try:
                message = bytes.fromhex(value)
            except ValueError:
                continue
            if len(message) >= 21 and message[18] == 3:
                return message[19], message[20]
    return None


def _address(text: str) -> str:
    plain = text.split("%")[0].split("@")[0].split("/")[0]
    try:
        return str(ip_address(plain))
    except ValueError:
        return ""


def _prefix(text: str) -> str:
    try:
        return str(ip_network(text.split("@")[0], strict=False))
    except ValueError:
        return text
