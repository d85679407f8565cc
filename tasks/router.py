"""The router, through its API: desired rows against actual ones, all of it or nothing."""

from pyinfra import host
from pyinfra.api import deploy

from anycastlab.routeros.operations import configure
from anycastlab.site import Site


def router(site: Site) -> None:
    """Make the router as the site needs it."""
    if "router" in host.groups:
        _router(site=site)


@deploy("Router")
def _router(site: Site) -> None:
    configure(name="Configure", site=site)
