"""The way back: router, nodes, lab."""

from pyinfra import host
from pyinfra.api import deploy

from anycastlab.incus.operations import remove_lab
from anycastlab.incus.spec import Lab
from anycastlab.lab.credentials import forgotten
from anycastlab.node.keep import outlives
from anycastlab.node.removal import removed
from anycastlab.routeros.operations import remove
from anycastlab.site import Site


def router_removed(site: Site) -> None:
    """Our rows leave the router. The lab's stand-in goes as a whole, with its machine."""
    if "router" in host.groups and site.lab is None:
        remove(name="Router: remove what is ours", site=site)


def node_removed(site: Site) -> None:
    """Our services and files leave the boards. Instances of the lab go as a whole."""
    for node in site.nodes:
        if node.host == host.name and outlives(site, node):
            removed(name=f"{node.name}: remove what is ours", site=site, node=node)


def lab_removed(site: Site) -> None:
    """The lab's machines, bridges and project are gone, and what this machine kept about its router."""
    if site.lab is not None and "upstream" in host.groups:
        _lab_removed(site=site)


@deploy("Lab")
def _lab_removed(site: Site) -> None:
    assert site.lab is not None
    remove_lab(name="Remove", lab=Lab(site.lab), images=bool(host.data.get("images", False)))
    forgotten(name="Forget its router", lab=Lab(site.lab))
