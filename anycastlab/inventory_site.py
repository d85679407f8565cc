"""The `Site` of a pyinfra inventory, with the secrets that no inventory should hold: from files and the environment."""

from __future__ import annotations

from typing import Any

from anycastlab.paths import state_dir
from anycastlab.routeros.credentials import session_key
from anycastlab.site.load import Machines, build, machines_of
from anycastlab.site.model import Site


def from_inventory(inventory: Any) -> Site:
    """Build and validate the `Site` of a pyinfra inventory with the groups `nodes` and `router`.

    Raises SiteError with one sentence for the first thing that is wrong.
    """
    return with_secrets(machines_of(inventory))


def with_secrets(machines: Machines) -> Site:
    """`build`, with the secret settings that no inventory should hold."""
    return build(machines, _secrets(machines))


def _secrets(machines: Machines) -> dict[str, str]:
    """Secret settings that come from the environment or the credentials file; they win over the inventory's."""
    if len(machines.router) != 1:
        return {}
    name, data = machines.router[0]
    entry = data.get("router_credentials") or data.get("router_api_host") or name.rpartition("/")[2]
    found = session_key(str(entry), state_dir())
    return {} if found is None else {"bgp_password": found}
