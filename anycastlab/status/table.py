"""`Status` as a person reads it: two tables and, if anything is wrong, a sentence for each thing."""

from __future__ import annotations

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from anycastlab.status.model import NodeStatus, Status

_GOOD, _BAD, _UNKNOWN = "green", "bold red", "dim"


def render(status: Status) -> Group:
    """A rich renderable; plain text when the console is no terminal."""
    nodes = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("node", "address", "machine", "resolver", "BGP", "BFD", "announced", "answers"):
        nodes.add_column(heading, overflow="fold")
    for node in status.nodes:
        nodes.add_row(*_row(node))
    router, service = status.router, status.service
    facts = Table.grid(padding=(0, 2))
    facts.add_row("router", f"{router.address}  RouterOS {router.version or 'unknown'}")
    facts.add_row("next hops", ", ".join(router.next_hops) or Text("none", _BAD))
    redirect = {
        True: Text("on: the router answers itself", _BAD),
        False: Text("off", _GOOD),
        None: Text("unknown", _UNKNOWN),
    }
    facts.add_row("last resort", redirect[router.redirect_active])
    answer = Text(f"answered by {service.answered_by}", _GOOD) if service.answers else Text("no answer", _BAD)
    facts.add_row(f"service {service.address}", answer)
    complaints = [Text(f"! {sentence}", _BAD) for sentence in status.complaints()]
    return Group(nodes, facts, *complaints)


def _row(node: NodeStatus) -> tuple[str | Text, ...]:
    def state(value: str | None, good: str) -> Text:
        return Text(value or "-", _GOOD if value == good else _BAD if value else _UNKNOWN)

    def flag(value: bool) -> Text:
        return Text("yes", _GOOD) if value else Text("no", _BAD)

    announced = Text("drained", "yellow") if node.drained and not node.announced else flag(node.announced)
    resolver = f"{node.resolver} {node.version or ''}".rstrip()
    return (
        node.name,
        node.address,
        node.architecture or "-",
        resolver,
        state(node.bgp, "Established"),
        state(node.bfd, "up"),
        announced,
        flag(node.answers),
    )
