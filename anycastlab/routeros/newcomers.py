"""New nodes beside known ones: what the router must learn before a node that serves is touched. Pure.

A change of the set of nodes changes the nodes that serve, too (each knows its peers), and each withdraws for it. Where
one node has served alone, the others must be next hops by then, or nobody answers. So the rows of the new nodes, and
nothing else of the plan, are added first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anycastlab.routeros import backup
from anycastlab.routeros.plan import Remove, Step, make_plan
from anycastlab.routeros.planning import Planned
from anycastlab.routeros.required_nodes import CONNECTION_TAG
from anycastlab.routeros.row import MENUS, Row, tag_of
from anycastlab.site.model import Site
from anycastlab.site.parts import Node

_CONNECTIONS = "/routing/bgp/connection"
#: What a new node's route has to pass. While a plan changes it, the present router would not take the route.
_ON_THE_WAY = frozenset({"/routing/filter/rule", "/routing/bgp/instance"})


def newcomers(site: Site, planned: Planned) -> tuple[Node, ...]:
    """Nodes without a connection on a router that has one for others; none where they could not be taken in yet."""
    tags = {tag_of(row) for row in planned.reading.menus.get(_CONNECTIONS, ())}
    known = [node for node in site.nodes if f"{CONNECTION_TAG}{node.name}" in tags]
    if not known or any(_menu(step) in _ON_THE_WAY for step in planned.plan.steps):
        return ()
    return tuple(node for node in site.nodes if node not in known)


def plan_newcomers(site: Site, planned: Planned) -> Planned:
    """Of a deploy's plan only what makes the router know the new nodes; everything else stays as it is."""
    found = newcomers(site, planned)
    if not found:
        return replace(planned, plan=replace(planned.plan, steps=()))
    reading = planned.reading
    as_it_is = backup.desired_from(backup.take(reading, backup.now()))
    present = {row.key for row in as_it_is}
    new = [row for row in planned.desired if row.key not in present and _is_of(row, found)]
    # As they will stand in the end, so that nothing is to be moved then; a row that goes stays behind its neighbour.
    order = {row.key: number for number, row in enumerate(planned.desired)}
    behind = -1
    for row in as_it_is:
        behind = order.setdefault(row.key, behind)
    desired = sorted([*as_it_is, *new], key=lambda row: (MENUS.index(row.menu), row.place, order[row.key]))
    return replace(planned, plan=make_plan(desired, reading.menus, (), reading.host), desired=tuple(desired))


def _menu(step: Step) -> str:
    return step.menu if isinstance(step, Remove) else step.row.menu


def _is_of(row: Row, nodes: Iterable[Node]) -> bool:
    words = row.tag.removesuffix(":v6").split(":")
    return words[-1] in {node.name for node in nodes} and words[1] in ("connection", "bfd", "accept")
