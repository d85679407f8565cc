"""The household's view: the service address answers, asked from where the household is."""

from pyinfra import host
from pyinfra.api import deploy

from anycastlab.site import Site
from anycastlab.status.check import service_answers


def check(site: Site) -> None:
    """In the lab a client asks; in a real home this machine does, once for the router's turn."""
    asks = "clients" if site.lab is not None else "router"
    if asks in host.groups:
        _check(site=site)


@deploy("Check")
def _check(site: Site) -> None:
    service_answers(name=f"{site.service.address} answers", site=site)
