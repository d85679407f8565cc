"""`Status` as a person reads it: two tables and, if anything is wrong, a sentence for each thing.

A table that is too wide for the terminal leaves out what matters least, and becomes a block for each node where even
that is too wide; cells are never broken into lines.
"""

from __future__ import annotations

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from anycastlab import narrow
from anycastlab.probe_control import age
from anycastlab.status.model import NodeStatus, Status

_GOOD, _BAD, _UNKNOWN = "green", "bold red", "dim"
# What is left out, one after the other, until the table fits: it seldom differs between nodes, and never changes.
_DISPENSABLE = ("machine", "version")
_ANY_WIDTH = 100_000  # characters: what a table would like to have


def console() -> Console:
    """Where tables are printed: as wide as the terminal, or without end when it is none."""
    return Console(highlight=False, width=narrow.columns())


def render(status: Status) -> Group:
    """A rich renderable; plain text when the console is no terminal."""
    complaints = [Text(f"! {sentence}", _BAD) for sentence in status.complaints()]
    if status.problem:
        return Group(*complaints)
    router, service = status.router, status.service
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column()
    facts.add_row("router", f"{router.address}  RouterOS {router.version or 'unknown'}")
    facts.add_row("next hops", _hops(router.next_hops, router.standing_by))
    redirect = {
        True: Text("on: the router answers itself", _BAD),
        False: Text("off", _GOOD),
        None: Text("unknown", _UNKNOWN),
    }
    if status.service6 is not None:
        facts.add_row("over IPv6", _hops(router.next_hops6, router.standing_by6))
    facts.add_row("last resort", redirect[router.redirect_active])
    for each in (service, status.service6):
        if each is not None:
            answer = Text(f"answered by {each.answered_by}", _GOOD) if each.answers else Text("no answer", _BAD)
            facts.add_row(f"service {each.address}", answer)
    notes = [Text(sentence, "yellow") for sentence in status.notes]
    return Group(_Nodes(status.nodes), Text(), facts, *notes, *complaints)


def _hops(active: tuple[str, ...], standing_by: tuple[str, ...]) -> str | Text:
    if not active:
        return Text("none", _BAD)
    stands = "stands" if len(standing_by) == 1 else "stand"
    return ", ".join(active) + (f" ({', '.join(standing_by)} {stands} by)" if standing_by else "")


class _Nodes:
    """The table of nodes, with as many columns as there is room for."""

    def __init__(self, nodes: tuple[NodeStatus, ...]) -> None:
        self._nodes = nodes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for left_out in range(len(_DISPENSABLE) + 1):
            table = _table(self._nodes, frozenset(_DISPENSABLE[:left_out]))
            if Measurement.get(console, options.update(max_width=_ANY_WIDTH), table).maximum <= options.max_width:
                yield table
                return
        rows = [[str(cell) for cell in _row(node, version=True)] for node in self._nodes]
        yield from map(Text, narrow.blocks(_HEADINGS, rows, options.max_width))


def _table(nodes: tuple[NodeStatus, ...], left_out: frozenset[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    rows = [_row(node, "version" not in left_out) for node in nodes]
    for heading in _HEADINGS:
        if heading not in left_out:
            table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*(cell for heading, cell in zip(_HEADINGS, row, strict=True) if heading not in left_out))
    return table


_HEADINGS = ("node", "address", "machine", "resolver", "BGP", "BFD", "announced", "answers", "WAN")


def _row(node: NodeStatus, version: bool) -> tuple[str | Text, ...]:
    def state(value: str | None, good: str) -> Text:
        # Both kinds of session are "up" when they are as they should be, else what their standard calls their state.
        return Text("up", _GOOD) if value == good else Text(value or "-", _BAD if value else _UNKNOWN)

    def flag(value: bool) -> Text:
        return Text("yes", _GOOD) if value else Text("no", _BAD)

    drained = Text("drained", "yellow" if node.drain_wanted else _BAD)
    announced = drained if node.drained and not node.announced else flag(node.announced)
    resolver = f"{node.resolver} {node.version.removeprefix('v')}" if version and node.version else node.resolver or "-"
    return (
        node.name,
        node.address,
        node.architecture or "-",
        resolver,
        state(node.bgp, "Established"),
        state(node.bfd, "up"),
        announced,
        flag(node.answers),
        _wan(node),
    )


def _wan(node: NodeStatus) -> Text:
    """Whether internet names resolve there, and how long ago its probe tried."""
    if node.wan is None or node.wan_age_s is None:
        return Text("-", _UNKNOWN)
    return Text(f"{'ok' if node.wan else 'BAD'} {age(node.wan_age_s)}", _GOOD if node.wan else _BAD)
