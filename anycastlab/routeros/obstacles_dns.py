"""The router's own resolver: servers that lead back to the nodes, and static rows over the names we need. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from anycastlab.routeros.obstacles import Obstacle, Scene, at
from anycastlab.routeros.packet import Actual
from anycastlab.routeros.row import is_static, tag_of
from anycastlab.routeros.values import is_true

DNS: Final = "/ip/dns"
STATIC: Final = "/ip/dns/static"
FORWARDERS: Final = "/ip/dns/forwarders"
_LOOP: Final = "with no node left the router would ask itself in a circle, so the last resort cannot answer"


def servers(scene: Scene) -> Iterator[Obstacle]:
    """`/ip/dns servers`, what a provider handed over, and DoH (which replaces them)."""
    for row in scene.rows(DNS):
        if doh := row.get("use-doh-server"):
            if whose := _doh(scene, doh):
                yield Obstacle(
                    f"{DNS} use-doh-server={doh}",
                    f"it leads to {whose}: {_LOOP}.",
                    f'{DNS}/set use-doh-server="" servers=<your provider\'s>',
                )
            continue
        listed = [*_items(row.get("servers")), *_items(row.get("dynamic-servers"))]
        ours = {server: whose for server in listed if (whose := scene.who(_bare(server)))}
        if ours:
            kind = "servers" if any(server in ours for server in _items(row.get("servers"))) else "dynamic-servers"
            shown = " and ".join(f"{server} is {whose}" for server, whose in ours.items())
            only = len(ours) == len(set(listed))
            yield Obstacle(
                f"{DNS} {kind}={row.get(kind)}",
                f"{shown}: {_LOOP}." if only else f"{shown}: the last resort asks there first, and answers late.",
                f"{DNS}/set servers=<your provider's, or a public resolver's>"
                + (" and use-peer-dns=no in /ip/dhcp-client" if kind == "dynamic-servers" else ""),
                "breaks" if only else "may",
            )


def static_rows(scene: Scene) -> Iterator[Obstacle]:
    for row in scene.enabled(STATIC):
        if tag_of(row) or not is_static(row):
            continue
        obstacle = _forwarded(scene, row) or _over_names(scene, row)
        if obstacle is not None:
            yield obstacle


def _forwarded(scene: Scene, row: Actual) -> Obstacle | None:
    """A FWD row that leads to the nodes."""
    targets = [t for name in _items(row.get("forward-to")) for t in _resolved(scene, name)]
    ours = {target: whose for target in targets if (whose := scene.who(_bare(target)))}
    if not ours:
        return None
    shown = " and ".join(f"{target} is {whose}" for target, whose in ours.items())
    back = next((zone for zone in _asked_zones(scene) if _covers(row, f"x.{zone}") or _covers(row, zone)), "")
    where = f"{at(STATIC, row)} forward-to={row.get('forward-to')}"
    if back:
        means = f"{shown}, and nodes ask the router for {back}: questions for it go round in a circle."
        return Obstacle(where, means, "Forward it to a server that is none of the nodes.")
    means = f"{shown}: with no node left, these names fail although the router answers the others."
    return Obstacle(where, means, "Forward them to a server that is none of the nodes.", "may")


def _over_names(scene: Scene, row: Actual) -> Obstacle | None:
    """A row that answers for the names by which probes and people see whether all is well."""
    site = scene.site
    where = f"{at(STATIC, row)} {_kind(row)}".rstrip()
    covered = _covers(row, f"a1b2c3.{site.probe_zone}")
    if covered is False and _covers(row, site.service.identity_name):
        means = f"it answers {site.service.identity_name}, by which nodes are told apart, where the router answers."
        return Obstacle(where, means, "Narrow it, or choose another identity_name.", "may")
    if covered is False or (row.get("type") == "NXDOMAIN" and not row.get("forward-to")):
        return None
    pattern = "regexp" if row.get("regexp") else "name"
    means = (
        f"its {pattern} covers {site.probe_zone}, the names by which the probes see whether the router answers; "
        f"patterns are tried before our row, so {_instead(row)}."
    )
    sure = covered is True and bool(row.get("regexp"))
    return Obstacle(where, means, f"Make it not match names below {site.probe_zone}.", "breaks" if sure else "may")


def _kind(row: Actual) -> str:
    parts = [f"{key}={row[key]}" for key in ("regexp", "type", "match-subdomain") if row.get(key)]
    return " ".join(parts)


def _instead(row: Actual) -> str:
    if row.get("type") == "FWD" or row.get("forward-to"):
        return "they are asked elsewhere, and all nodes look sick when that does not answer"
    return "they get an answer where there must be none, and the nodes look sick"


def _covers(row: Actual, name: str) -> bool | None:
    """None: the pattern cannot be read here."""
    if pattern := row.get("regexp"):
        try:
            return re.search(pattern, name) is not None
        except re.error:
            return None
    own = row.get("name", "").rstrip(".").lower()
    if not own:
        return False
    return name == own or (is_true(row.get("match-subdomain")) and name.endswith(f".{own}"))


def _asked_zones(scene: Scene) -> Sequence[str]:
    resolver = scene.site.resolver
    return (*resolver.local_zones, *resolver.reverse_zones)


def _resolved(scene: Scene, name: str) -> Iterator[str]:
    """Addresses of a `forward-to`: one itself, or the servers of a forwarder of that name."""
    rows = [row for row in scene.enabled(FORWARDERS) if row.get("name") == name]
    if not rows:
        yield name
    for row in rows:
        yield from _items(row.get("dns-servers"))


def _doh(scene: Scene, url: str) -> str:
    """Whose a DoH server is, by its address or a static name of the router."""
    host = urlsplit(url).hostname or ""
    names = [row.get("address", "") for row in scene.enabled(STATIC) if row.get("name", "").lower() == host.lower()]
    return next((whose for address in (host, *names) if (whose := scene.who(address))), "")


def _bare(server: str) -> str:
    """`10.1.9.53` of `10.1.9.53`, `10.1.9.53:53` or `10.1.9.53@main`."""
    plain = server.partition("@")[0]
    for text in (plain, plain.rpartition(":")[0].strip("[]")):
        try:
            return str(ip_address(text))
        except ValueError:
            continue
    return plain


def _items(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
