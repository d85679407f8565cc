"""The nodes: those that serve nobody yet all at once, those that serve somebody one at a time."""

from functools import cache

from pyinfra import host, logger
from pyinfra.api import deploy

from anycastlab.lab import specs
from anycastlab.lab.topology import Lab
from anycastlab.node.choose import resolver_of
from anycastlab.node.facts import HasAddressFact, ServingFact
from anycastlab.node.operations import configure, withdraw
from anycastlab.site import Node, Site
from tasks.lab import machine


def fresh_nodes(site: Site) -> None:
    """Every node that no client is asking now: new, stopped, withdrawn. Nobody notices, so all at the same time."""
    for node in site.nodes:
        if node.host == host.name and not _serves_now():
            _set_up(site=site, node=node, serving=False)


def serving_node(site: Site, node: Node) -> None:
    """One node that clients are asking. It is withdrawn before anything stops; the run ends if it does not return."""
    if node.host == host.name and _serves_now():
        _set_up(site=site, node=node, serving=True)


def _serves_now() -> bool:
    """Never when the router is made anew: it knows no node before its own turn, so none could come back."""
    router_anew = specs.ROUTER in str(host.data.get("rebuild") or "").split(",")
    return not router_anew and bool(host.get_fact(ServingFact))


@deploy("Node")
def _set_up(site: Site, node: Node, serving: bool) -> None:
    node = _as_obtainable(site, node, host.data.adguardhome_source)
    if node.platform == "incus" and site.lab is not None:
        rebuild = _is_named(str(host.data.get("rebuild") or ""), node.name)
        if rebuild and serving:
            withdraw(name="Withdraw", node=node, service=site.service)
            # At another address (a change of layout) no router knows the node before the router's own turn.
            serving = host.get_fact(HasAddressFact, address=str(node.address))
        spec = specs.node_spec(Lab(site.lab), node, host.data.node_cpus, host.data.node_memory_mib)
        machine(spec, rebuild=rebuild)
    configure(
        name="Configure",
        site=site,
        node=node,
        adguardhome_source=host.data.adguardhome_source,
        must_serve=serving,
    )


@cache
def _as_obtainable(site: Site, node: Node, source: str) -> Node:
    node, line = resolver_of(site, node, source)
    if line:
        logger.warning(line)
    return node


def _is_named(rebuild: str, name: str) -> bool:
    return rebuild == "all" or name in rebuild.split(",")
