"""A node's own view of a BGP session that is not there: what its bgpd last heard.

The router shows nothing of a session that never came up, such as one refused for its AS number; the node was told why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anycastlab.site import Node
from anycastlab.stored import parse_json

RunOnNode = Callable[[Node, Sequence[str]], str]
"""Runs a command on a node and returns what it printed; empty when that was not possible."""


def explainer(run: RunOnNode) -> Callable[[Node], str | None]:
    """For a node: the last error of its session with the router in FRR's words, or None."""

    def explain(node: Node) -> str | None:
        return last_error(run(node, ["vtysh", "-c", f"show bgp neighbors {node.gateway} json"]), str(node.gateway))

    return explain


def last_error(document: str, neighbor: str) -> str | None:
    """From `show bgp neighbors … json`: the reason of the last NOTIFICATION.

    The last *reset* is no cause: after a change of the password, for one, it says that BFD went down.
    """
    try:
        peer = parse_json(document)[neighbor]
    except (ValueError, KeyError, TypeError):
        return None
    said = peer.get("lastNotificationReason")
    return str(said).strip() if said else None
