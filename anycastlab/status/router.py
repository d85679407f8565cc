"""The router's part of the status, read over its API."""

from __future__ import annotations

from anycastlab.errors import AnycastlabError
from anycastlab.routeros.control import router_session
from anycastlab.routeros.observe import observe
from anycastlab.site import Site
from anycastlab.status.model import RouterStatus


def read_router(site: Site) -> RouterStatus:
    """Version, active next hops of the service prefix, and whether the last resort is on."""
    address = str(site.router.router_id)
    try:
        with router_session(site.router) as connection:
            version = connection.print("/system/resource", ["version"])[0]["version"]
            seen = observe(connection, site)
    except AnycastlabError as error:
        return RouterStatus(address, problem=str(error))
    hops = sorted(r.gateway for r in seen.routes if r.active and r.prefix == str(site.service.prefix))
    return RouterStatus(address, version.split()[0], tuple(hops), seen.redirect_active)
