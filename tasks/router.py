"""The router, through its API: desired rows against actual ones, all of it or nothing."""

import shlex
from collections.abc import Sequence

from pyinfra import host, inventory
from pyinfra.api import StringCommand, deploy

from anycastlab.routeros.operations import configure
from anycastlab.site import Site
from anycastlab.status.asking import LAB_CLIENT, service_asker


def router(site: Site) -> None:
    """Make the router as the site needs it."""
    if "router" in host.groups:
        _router(site=site)


@deploy("Router")
def _router(site: Site) -> None:
    configure(name="Configure", site=site, ask=service_asker(site, _on_client) if site.lab is not None else None)


def _on_client(argv: Sequence[str]) -> tuple[bool, str]:
    """Run a command on the lab's client while the router's own operation is under way."""
    client = inventory.get_host(f"@incus/{LAB_CLIENT}")
    ok, output = client.run_shell_command(StringCommand(shlex.join(argv)))
    return ok, output.stdout if ok else output.stderr
