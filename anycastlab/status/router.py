"""The router's part of the status, read over its API."""

from __future__ import annotations

from collections.abc import Callable

from anycastlab.errors import AnycastlabError
from anycastlab.outside_text import name
from anycastlab.routeros.control import router_session
from anycastlab.routeros.observe import Route, observe
from anycastlab.routeros.reading import read
from anycastlab.site import Site
from anycastlab.status.model import RouterStatus


def read_router(site: Site) -> RouterStatus:
    """Version, active next hops of the service prefixes, and whether the last resort is on."""
    address = str(site.router.router_id)
    try:
        with router_session(site.router) as connection:
            reading = read(connection)
            shares_load = reading.shares_load(site)
            seen = observe(connection, site)
    except AnycastlabError as error:
        return RouterStatus(address, problem=str(error))

    def gateways(prefix: object, fits: Callable[[Route], bool]) -> tuple[str, ...]:
        return tuple(sorted({route.gateway for route in seen.routes if route.prefix == str(prefix) and fits(route)}))

    hops, hops6 = (gateways(each, lambda route: route.active) for each in (site.service.prefix, site.service.prefix6))
    ready, ready6 = (
        () if shares_load else gateways(each, lambda route: not (route.active or route.filtered))
        for each in (site.service.prefix, site.service.prefix6)
    )
    return RouterStatus(
        address,
        name(reading.version.split(maxsplit=1)[0]),
        hops,
        seen.redirect_active,
        next_hops6=hops6,
        standing_by=ready,
        standing_by6=ready6,
        netwatch=seen.netwatch,
        redirect_wrong=seen.redirect_wrong,
    )
