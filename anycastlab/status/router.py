"""The router's part of the status, read over its API."""

from __future__ import annotations

from anycastlab.errors import AnycastlabError
from anycastlab.outside_text import name
from anycastlab.routeros.control import router_session
from anycastlab.routeros.observe import observe
from anycastlab.site import Site
from anycastlab.status.model import RouterStatus


def read_router(site: Site) -> RouterStatus:
    """Version, active next hops of the service prefixes, and whether the last resort is on."""
    address = str(site.router.router_id)
    try:
        with router_session(site.router) as connection:
            version = connection.print("/system/resource", ["version"])[0]["version"]
            seen = observe(connection, site)
    except AnycastlabError as error:
        return RouterStatus(address, problem=str(error))
    hops, hops6 = (
        tuple(sorted(route.gateway for route in seen.routes if route.active and route.prefix == str(prefix)))
        for prefix in (site.service.prefix, site.service.prefix6)
    )
    return RouterStatus(
        address,
        name(version.split(maxsplit=1)[0]),
        hops,
        seen.redirect_active,
        next_hops6=hops6,
        netwatch=seen.netwatch,
        redirect_wrong=seen.redirect_wrong,
    )
