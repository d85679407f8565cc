"""The router, through its API: desired rows against actual ones, all of it or nothing."""

import shlex
from collections.abc import Sequence

from pyinfra import host, inventory
from pyinfra.api import StringCommand, deploy

from anycastlab.routeros.operations import configure
from anycastlab.site import Node, Site
from anycastlab.status.asking import service_asker
from anycastlab.status.check import on_client
from anycastlab.status.session_view import explainer


def router(site: Site) -> None:
    """Make the router as the site needs it."""
    if "router" in host.groups:
        _router(site=site)


@deploy("Router")
def _router(site: Site) -> None:
    ask = service_asker(site, on_client) if site.lab is not None else None
    configure(name="Configure", site=site, ask=ask, explain=explainer(_on_node))


def _on_node(node: Node, argv: Sequence[str]) -> str:
    ok, output = inventory.get_host(node.host).run_shell_command(StringCommand(shlex.join(argv)))
    return output.stdout if ok else ""
