"""The router's part of the status, read over its API."""

from __future__ import annotations

from anycastlab.errors import AnycastlabError
from anycastlab.paths import state_dir
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.credentials import credentials
from anycastlab.routeros.observe import observe
from anycastlab.site import Site
from anycastlab.status.model import RouterStatus


def read_router(site: Site) -> RouterStatus:
    """Version, active next hops of the service prefix, and whether the last resort is on."""
    router = site.router
    address = str(router.router_id)
    try:
        user, password = credentials(router.credentials or router.api_host, router.user, state_dir())
        connection = Connection(
            Target(router.api_host, router.api_port, user, password, router.tls, router.tls_fingerprint)
        )
        try:
            version = connection.print("/system/resource", ["version"])[0]["version"]
            seen = observe(connection, site)
        finally:
            connection.close()
    except AnycastlabError as error:
        return RouterStatus(address, problem=str(error))
    hops = sorted(r.gateway for r in seen.routes if r.active and r.prefix == str(site.service.prefix))
    return RouterStatus(address, version.split()[0], tuple(hops), seen.redirect_active)
