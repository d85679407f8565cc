"""The nodes: those that serve nobody yet all at once, those that serve somebody one at a time."""

from functools import cache

from pyinfra import host, inventory, logger
from pyinfra.api import deploy

from anycastlab.incus.facts import IncusInstance
from anycastlab.incus.spec import Lab
from anycastlab.lab import ipv6, router, specs
from anycastlab.lab.base_image import base_image
from anycastlab.node.facts import HasAddressFact, ServingFact, SessionFact
from anycastlab.node.frr_config import session_digest
from anycastlab.node.operations import configure, rehearse, withdraw
from anycastlab.node.render import Machine, frr_conf
from anycastlab.node.resolver_choice import resolver_of
from anycastlab.routeros.version import capabilities
from anycastlab.shell_fact import run_on
from anycastlab.site import Node, Site
from anycastlab.site.load import router_version
from anycastlab.status.check import answers_others
from anycastlab.tell import CHECK
from tasks.lab import machine

# Name of the node that `last_node` sets up; filled while preparing, when `fresh_nodes` leaves it out.
moving_last: set[str] = set()


def fresh_nodes(site: Site) -> None:
    """Every node that no client is asking now: new, stopped, withdrawn. Nobody notices, so all at the same time."""
    for node in site.nodes:
        if node.host != host.name or _returns_alone(site, node):
            continue
        moves = _moves(node)
        if moves and node.name == _last_to_move(site):
            moving_last.add(node.name)
        else:
            _set_up(site=site, node=node, serving=moves)


def last_node(site: Site) -> None:
    """The node that served at its former address while the others moved; by now the router knows their new ones."""
    for node in site.nodes:
        if node.host == host.name and node.name in moving_last:
            _set_up(site=site, node=node, serving=False)


def serving_node(site: Site, node: Node) -> None:
    """One node that clients are asking. It is withdrawn before anything stops; the run ends if it does not return."""
    if node.host == host.name and _returns_alone(site, node):
        _set_up(site=site, node=node, serving=True)
        answers_others(name=f"{CHECK} | answers other machines", site=site, node=node)


def _returns_alone(site: Site, node: Node) -> bool:
    """Whether the node serves now and will again after its change, before the router's turn.

    Not when the router is made anew or will read its BGP rows in another way, or when AS numbers or key change on both
    ends: then no node is waited for.
    """
    if not host.get_fact(ServingFact) or specs.ROUTER in str(host.data.get("rebuild") or "").split(","):
        return False
    if site.lab is not None and _router_forgets(router_version(host.data.router_version)):
        return False
    wanted = frr_conf(site, node, Machine(node.name)).decode()
    if host.get_fact(SessionFact) == session_digest(wanted):
        return True
    _tell_of_the_gap(node, _moves(node))
    return False


def _moves(node: Node) -> bool:
    """Whether the node serves now, and at another address than it will have: no router knows it there yet."""
    return host.get_fact(ServingFact) and not host.get_fact(HasAddressFact, address=str(node.address))


@cache
def _last_to_move(site: Site) -> str | None:
    """Of nodes that serve and will have other addresses (a change of layout) one goes on serving until the others have
    moved and the router knows them; None where it would be alone, or none moves."""
    if len(site.nodes) < 2 or specs.ROUTER in str(host.data.get("rebuild") or "").split(","):
        return None
    movers = [node.name for node in site.nodes if _is_elsewhere(node)]
    return movers[-1] if movers else None


def _is_elsewhere(node: Node) -> bool:
    """`_moves`, asked for a node that is not this host."""
    machine = inventory.get_host(node.host)
    if not machine.connected:  # `--limit` left it out: it stays as it is
        return False
    return machine.get_fact(ServingFact) and not machine.get_fact(HasAddressFact, address=str(node.address))


@cache
def _router_forgets(wanted: str) -> bool:
    """Whether the lab's router is about to cross 7.20, where the AS moves from connections to an instance.

    It keeps of its rows what the new version knows, so no session comes up before its own turn.
    """
    look = f"import json; print(json.load(open({router.CONFIG!r}))['version'])"
    ok, said = run_on(inventory.get_host(f"@incus/{specs.ROUTER}"), ["python3", "-c", look])
    running = said.strip() if ok else ""
    return bool(running) and capabilities(running).instance != capabilities(wanted).instance


@cache
def _tell_of_the_gap(node: Node, moves: bool) -> None:
    what = f"it moves to {node.address}" if moves else "AS number, key or router of its BGP session changes"
    logger.warning(f"{node.name}: {what}; it serves again when the router has changed too")


@deploy("Node")
def _set_up(site: Site, node: Node, serving: bool) -> None:
    node = _as_obtainable(site, node, host.data.adguardhome_source)
    if node.platform == "incus" and site.lab is not None:
        rebuild = _is_named(str(host.data.get("rebuild") or ""), node.name)
        if rebuild:
            # Nothing goes before its replacement is sure: what the new one gets is checked, its image is there.
            source = host.data.adguardhome_source
            present = host.get_fact(IncusInstance, instance=node.name, project=Lab(site.lab).project)
            runs = present is not None and present["status"] == "Running"
            rehearse(name="Replacement", site=site, node=node, adguardhome_source=source, runs=runs)
            base_image(name="Base image", image=host.data.image, release=host.data.image_release)
        moves = _moves(node)
        if serving and (rebuild or moves):
            withdraw(name="Withdraw", node=node, service=site.service)
            serving = not moves
        spec = specs.node_spec(Lab(site.lab), node, host.data.node_cpus, host.data.node_memory_mib)
        machine(spec, rebuild=rebuild)
        ipv6.addresses(name="IPv6", legs=ipv6.node_legs(node) if site.service.address6 else ())
    configure(
        name="Configure",
        site=site,
        node=node,
        adguardhome_source=host.data.adguardhome_source,
        must_serve=serving,
        waits=serving,
        new_probe_key=bool(host.data.get("new_probe_key")),
    )


@cache
def _as_obtainable(site: Site, node: Node, source: str) -> Node:
    node, line = resolver_of(site, node, source)
    if line:
        logger.warning(line)
    return node


def _is_named(rebuild: str, name: str) -> bool:
    return rebuild == "all" or name in rebuild.split(",")
