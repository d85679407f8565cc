"""Why a session is not there, as far as the router can tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anycastlab.routeros.observe import Observation
from anycastlab.routeros.plan import Actual
from anycastlab.routeros.reading import Reading
from anycastlab.routeros.row import BLOCKING, describe, is_static, tag_of
from anycastlab.routeros.rows_firewall import INPUT, INPUT6
from anycastlab.routeros.values import is_true, same
from anycastlab.site.model import Site
from anycastlab.site.parts import Node

Cause = tuple[str, str]

#: NOTIFICATION codes that name a cause (RFC 4271 6; 4486 for Cease).
NOTIFICATIONS: Final[dict[tuple[int, int], str]] = {
    (2, 2): "wrong AS: the two sides disagree about an AS number (bad peer AS)",
    (2, 3): "the BGP identifiers do not fit (two routers with one router-id)",
    (2, 6): "the hold time is not accepted",
    (4, 0): "the hold timer ran out",
    (6, 2): "the other side shut the session down",
    (6, 3): "the other side does not know this neighbour any more",
    (6, 5): "the other side refuses the connection",
    (6, 10): "BFD took the session down",
}

BFD_DOWN: Final = (6, 10)

#: The router's own remarks that name a cause, matched loosely.
ABOUT: Final = (
    ("peer as", NOTIFICATIONS[2, 2]),
    ("bgp identifier", NOTIFICATIONS[2, 3]),
    ("hold time", NOTIFICATIONS[2, 6]),
    ("hold timer", NOTIFICATIONS[4, 0]),
    ("bfd down", NOTIFICATIONS[6, 10]),
)


def bgp_cause(site: Site, node: Node, observation: Observation, reading: Reading, ipv6: bool = False) -> Cause:
    address = str(node.address6 if ipv6 else node.address)
    tag = f"anycastlab:connection:{node.name}" + (":v6" if ipv6 else "")
    connection = _own(reading.menus.get("/routing/bgp/connection", ()), tag)
    if connection is None:
        return "its connection is not on the router", "Run the deploy."
    for flag in ("inactive", "invalid", "disabled"):
        if is_true(connection.get(flag)):
            return f"its connection is {flag} ({describe(connection)})", "Run the deploy, or look at the row."
    if not same("remote.as", connection.get("remote.as"), str(site.bgp.node_asn)):
        return f"wrong AS: the connection expects {connection.get('remote.as')}, nodes are {site.bgp.node_asn}", ""
    session = observation.bgp.get(address)
    if session is not None and session.remote_as and session.remote_as != str(site.bgp.node_asn):
        return f"wrong AS: the node says {session.remote_as}, expected is {site.bgp.node_asn}", "Deploy the node again."
    # After a change of the password BFD goes down too, because the session does: then it is no cause.
    telling = NOTIFICATIONS.keys() - ({BFD_DOWN} if site.bgp.password else set())
    if session is not None and session.notification in telling:
        return NOTIFICATIONS[session.notification], f"Compare group_data with FRR on {node.name}."
    about = session.about if session is not None else ""
    for word, meaning in ABOUT:
        if word in about.lower() and not (word == "bfd down" and site.bgp.password):
            return meaning, f"Compare group_data with FRR on {node.name}." if word != "bfd down" else "See its BFD."
    if blocked := _blocked(reading, f"anycastlab:accept:bgp:{node.name}", "tcp/179", ipv6):
        return blocked
    last = f" (the router's last word: {about})" if about else ""
    if site.bgp.password:
        return (
            f"nothing comes of the TCP connection{last}; with a password the usual cause is another one on the node",
            f"Check that FRR runs on {node.name}, then deploy it again so that both have the same bgp_password.",
        )
    neighbour = node.gateway6 if ipv6 else node.gateway
    return (
        f"the session went away{last}" if session is not None else "no session ever came up",
        f"Does FRR run on {node.name}, with neighbour {neighbour}, its own AS {site.bgp.node_asn} and the router's "
        f"{site.bgp.router_asn}?",
    )


def bfd_cause(site: Site, node: Node, observation: Observation, reading: Reading, ipv6: bool = False) -> Cause:
    del site
    address = str(node.address6 if ipv6 else node.address)
    row = _own(reading.menus.get("/routing/bfd/configuration", ()), f"anycastlab:bfd:{node.name}")
    if row is None or is_true(row.get("disabled")):
        return "BFD with this node is not configured on the router", "Run the deploy."
    if blocked := _blocked(reading, f"anycastlab:accept:bfd:{node.name}", "udp/3784", ipv6):
        return blocked
    bfd = observation.bfd.get(address)
    if bfd is not None and bfd.about:
        return f"the router says: {bfd.about}", "A row of yours in /routing/bfd/configuration may forbid it."
    session = observation.bgp.get(address)
    if session is None or not session.established:
        return "there is no BGP session to protect", ""
    return "no BFD packets arrive from the node", f"Does bfdd run on {node.name}, and does it know the neighbour?"


def _blocked(reading: Reading, tag: str, what: str, ipv6: bool) -> Cause | None:
    """Is our accept rule missing, off, or behind a rule that drops?"""
    rows: list[Actual] = [
        row for row in reading.menus.get(INPUT6 if ipv6 else INPUT, ()) if row.get("chain") == "input"
    ]
    dropping = [row for row in rows if row.get("action") in BLOCKING and not is_true(row.get("disabled"))]
    foreign = [row for row in dropping if not tag_of(row) and is_static(row)]
    rule = _own(rows, tag)
    if rule is None or is_true(rule.get("disabled")) or is_true(rule.get("invalid")):
        if not foreign:
            return None
        return (
            f"{what} is blocked by the firewall ({describe(foreign[0])})",
            "Our accept rule is missing: run the deploy.",
        )
    before = rows[: rows.index(rule)]
    for row in foreign:
        if any(row is other for other in before):
            return (
                f"{what} is blocked by the firewall ({describe(row)})",
                "Our accept rule is behind it: run the deploy.",
            )
    return None


def _own(rows: Sequence[Actual], tag: str) -> Actual | None:
    return next((row for row in rows if tag_of(row) == tag), None)
