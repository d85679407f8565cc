"""Contradictions between what is planned and what a person has on the router. Pure.

Foreign rows are never changed, so where one stands in the way the plan stops and says which, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Interface

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.reading import Reading
from anycastlab.routeros.row import Row, describe, is_static, tag_of
from anycastlab.routeros.rows_bgp import CHAIN_IN, CHAIN_IN6, CHAIN_OUT
from anycastlab.routeros.values import is_true, same
from anycastlab.site.model import Site

#: Menus where a name or address belongs to one row only: menu → (property, what to call it).
UNIQUE = {
    "/routing/bgp/instance": ("name", "BGP instance"),
    "/routing/bgp/connection": ("remote.address", "BGP connection"),
    "/ip/dhcp-server/network": ("address", "DHCP network"),
}


def conflicts(site: Site, desired: Sequence[Row], reading: Reading) -> tuple[str, ...]:
    """Notes for the plan. Raises PlanError on a contradiction."""
    problems = [
        *_service_address(site, reading),
        *_unique(desired, reading),
        *_chains(reading),
        *_instance(site, reading),
    ]
    if problems:
        problem, hint = problems[0]
        raise PlanError(f"Router {reading.host}: {problem}", hint, reading.host)
    return tuple(_instance_notes(site, reading))


Problem = tuple[str, str]


def _service_address(site: Site, reading: Reading) -> Iterator[Problem]:
    for row in reading.addresses:
        if not row.get("address") or is_true(row.get("disabled")):
            continue
        interface = IPv4Interface(row["address"])
        where = f"{row['address']} on {row.get('interface', '?')}"
        if interface.ip == site.service.address:
            yield f"the service address is already an address of the router: {where}.", "Remove it there."
        elif site.service.address in interface.network:
            yield (
                f"the service address {site.service.address} lies in the connected subnet of {where}.",
                "Clients there would ARP for it; choose one outside every subnet.",
            )


def _unique(desired: Sequence[Row], reading: Reading) -> Iterator[Problem]:
    for row in desired:
        if row.menu not in UNIQUE:
            continue
        name, what = UNIQUE[row.menu]
        for other in reading.menus.get(row.menu, ()):
            if not tag_of(other) and is_static(other) and same(name, other.get(name), row.properties[name]):
                yield (
                    f"there is a {what} with {name}={row.properties[name]} that is not ours ({describe(other)}).",
                    f'Remove it, or hand it over by giving it the comment "{row.tag}".',
                )


def _chains(reading: Reading) -> Iterator[Problem]:
    for row in reading.menus.get("/routing/filter/rule", ()):
        if not tag_of(row) and row.get("chain") in {CHAIN_IN, CHAIN_IN6, CHAIN_OUT}:
            yield (
                f"a filter rule that is not ours is in our chain ({describe(row)}).",
                "Remove it: it would decide which prefixes are accepted from the nodes.",
            )


def _instance(site: Site, reading: Reading) -> Iterator[Problem]:
    name = site.router.bgp_instance
    if name is None or "/routing/bgp/instance" not in reading.menus:
        return
    rows = [row for row in reading.menus["/routing/bgp/instance"] if row.get("name") == name]
    if not rows:
        known = ", ".join(row.get("name", "?") for row in reading.menus["/routing/bgp/instance"]) or "none"
        yield f"there is no BGP instance {name!r} (there are: {known}).", "Correct bgp_instance, or leave it out."
    elif not same("as", rows[0].get("as"), str(site.bgp.router_asn)):
        yield (
            f"BGP instance {name!r} has AS {rows[0].get('as')}, but router_asn is {site.bgp.router_asn}.",
            "Set router_asn to the instance's AS; the nodes are told the same number.",
        )


def _instance_notes(site: Site, reading: Reading) -> Iterator[str]:
    name = site.router.bgp_instance
    if name is None:
        return
    if "/routing/bgp/instance" not in reading.menus:
        yield f"this version has no BGP instances; bgp_instance {name!r} means nothing here."
        return
    for row in reading.menus["/routing/bgp/instance"]:
        paths = row.get("multipath", "")
        if row.get("name") == name and reading.capabilities.multipath and _number(paths) < len(site.nodes):
            yield (
                f"BGP instance {name!r} is yours and has multipath={paths or '(not set)'}: fewer than the "
                f"{len(site.nodes)} nodes will share the load. /routing/bgp/instance set {name} multipath=8"
            )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 1
