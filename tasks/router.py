"""The router, through its API: desired rows against actual ones, all of it or nothing."""

from collections.abc import Sequence

from pyinfra import host, inventory
from pyinfra.api import deploy

from anycastlab.routeros.operations import configure, learn_newcomers, look_first
from anycastlab.routeros.verify import Asker
from anycastlab.shell_fact import run_on
from anycastlab.site import Node, Site
from anycastlab.status.asking import service_asker
from anycastlab.status.check import on_client
from anycastlab.status.session_view import explainer
from tasks.node import moving_last


def router(site: Site) -> None:
    """Make the router as the site needs it."""
    if "router" in host.groups:
        _router(site=site)


def newcomers(site: Site) -> None:
    """The router learns new nodes, and they serve, before one that serves already is touched."""
    if "router" in host.groups:
        _newcomers(site=site)


@deploy("Router")
def _newcomers(site: Site) -> None:
    learn_newcomers(name="Learn new nodes", site=site, ask=_ask(site), explain=explainer(_on_node))


@deploy("Router")
def _router(site: Site) -> None:
    configure(name="Configure", site=site, ask=_ask(site), explain=explainer(_on_node), later=moving_last)


def _ask(site: Site) -> Asker | None:
    return service_asker(site, on_client) if site.lab is not None else None


def router_first(site: Site) -> None:
    """Before the first node changes: can the router become as planned?"""
    if "router" in host.groups:
        look_first(name="Router | look first", site=site)


def _on_node(node: Node, argv: Sequence[str]) -> str:
    ok, said = run_on(inventory.get_host(node.host), argv)
    return said if ok else ""
