"""Where the resolver's administrator finds its web page, in a sentence."""

from __future__ import annotations

import os

from anycastlab.node import credentials, layout, resolver_binary
from anycastlab.site import Site


def sentence(site: Site) -> str | None:
    """The address, the user and where the password lies; None where no node has a page."""
    nodes = [node for node in site.nodes if node.resolver == "adguardhome"]
    if not nodes:
        return None
    first = nodes[0]
    address = f"https://{first.address}:{layout.ADGUARD_HTTPS_PORT}/"
    own = resolver_binary.cached(first.architecture or resolver_binary.tools().own_machine)
    built = own is not None and own.origin == "module"
    what = "AdGuard Home answers its API (built here, it has no web page)" if built else "AdGuard Home's web page is"
    each = f", and so on for the other {len(nodes) - 1}" if len(nodes) > 1 else ""
    inside = " from inside the lab" if site.lab is not None else ""
    return f"{what} at {address} ({first.name}{each}){inside}: user {credentials.USER}, {_password()}."


def _password() -> str:
    if os.environ.get(credentials.VARIABLE):
        return f"the password that {credentials.VARIABLE} holds"
    return f"password in {credentials.password_file()}"
