"""The end of a run: every node is announced and answers others, and what a household asks is answered."""

from pyinfra import host
from pyinfra.api import deploy

from anycastlab.site import Site
from anycastlab.status.check import household_is_answered
from anycastlab.status.serving import announced
from anycastlab.tell import CHECK


def check(site: Site) -> None:
    """In the lab a client asks; in a real home this machine does, once for the router's turn."""
    for node in site.nodes:
        if node.host == host.name:
            announced(name=f"{CHECK} | announced", site=site, node=node)
    asks = "clients" if site.lab is not None else "router"
    if asks in host.groups:
        _check(site=site)


@deploy(CHECK)
def _check(site: Site) -> None:
    household_is_answered(name=f"{site.service.address} answers the household", site=site)
