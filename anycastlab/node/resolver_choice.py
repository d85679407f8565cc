"""Which resolver a node of the embedded lab runs where AdGuard Home may be out of reach.

A lab should come up on any machine: with `adguardhome_source = "auto"`, a lab that can neither fetch nor build AdGuard
Home runs unbound instead and says so in one line. A real home never changes its resolver by itself: there it is an
error. Looking ahead must be quick and leave nothing behind, for a dry run asks too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anycastlab.node import architecture, lockfile, resolver_binary
from anycastlab.node.errors import ResolverError
from anycastlab.node.resolver_binary import Tools, Unreachable
from anycastlab.site import Node, Site

FALLBACK: Final = "unbound"


def resolver_of(
    site: Site, node: Node, source: str, world: Tools | None = None, folder: Path | None = None
) -> tuple[Node, str]:
    """The node as it can be had, and the line that says why if that is another resolver than asked for."""
    if node.resolver != "adguardhome" or site.lab is None or source != "auto":
        return node, ""
    reason = obstacle(node, world or resolver_binary.tools(), folder)
    if not reason:
        return node, ""
    line = f"AdGuard Home {lockfile.packaged().version} cannot be had here ({reason}); {node.name} runs unbound."
    return node.model_copy(update={"resolver": FALLBACK}), line


def obstacle(node: Node, world: Tools, folder: Path | None = None) -> str:
    """Why AdGuard Home will not be obtained for this node; empty if it is there, or very likely to come."""
    lock = lockfile.packaged()
    machine = architecture.canonical(node.architecture or world.own_machine)
    if resolver_binary.cached(machine, lock, folder):
        return ""
    try:
        architecture.go_architecture(machine)
    except ResolverError as error:
        return error.problem.rstrip(".")
    reasons = []
    for way in (resolver_binary.can_build, resolver_binary.can_fetch):
        try:
            way(world, lock)
        except Unreachable as reason:
            reasons.append(str(reason))
        else:
            return ""
    return "; ".join(reasons)
