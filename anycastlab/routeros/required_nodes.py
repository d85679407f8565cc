"""Which nodes must serve for a change to be kept. Pure.

A router change must not be refused because one board happens to be dead, and must not be kept when it breaks a node
that served: required are the nodes that served before, and those whose connection the plan adds or changes.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from anycastlab.routeros.plan import Add, Change
from anycastlab.routeros.planning import Planned
from anycastlab.site.model import Site

CONNECTION_TAG = "anycastlab:connection:"


def required_nodes(planned: Planned, site: Site, serving_before: AbstractSet[str]) -> frozenset[str]:
    """Names of nodes."""
    touched = {
        step.row.tag.removeprefix(CONNECTION_TAG).removesuffix(":v6")
        for step in planned.plan.steps
        if isinstance(step, Add | Change) and step.row.tag.startswith(CONNECTION_TAG)
    }
    return frozenset(node.name for node in site.nodes) & (touched | serving_before)
