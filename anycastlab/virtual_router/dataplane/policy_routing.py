"""Routing tables beside the main one, /routing/rule and routing marks, to `ip rule` and `ip route`. Pure. IPv4 only.

A mark is a table's number, so a marked packet takes that table; what it does not know is looked up in main, as on a
router. `lookup-only-in-table` adds a rule behind it that ends the search.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from anycastlab.virtual_router.dataplane.api import Row, Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.rows import enabled, truth

MENUS = ("/routing/table", "/routing/rule", "/ip/route")
MAIN = "main"
_MAIN_NUMBER = 254
_FIRST_NUMBER = 1000
"""Numbers below are the kernel's or somebody else's."""
_NUMBERS = 1 << 30
_PROTOCOL = "186"
"""Marks what is ours among the kernel's rules and routes."""
_MARKS_PRIORITY, _RULES_PRIORITY = 1000, 2000
"""Marked packets do not ask the rules (RouterOS: mangle goes before /routing/rule)."""


def table_number(name: str) -> int:
    """The kernel's number of a table: the same for a name, whenever it is asked."""
    if name in ("", MAIN):
        return _MAIN_NUMBER
    return _FIRST_NUMBER + zlib.crc32(name.encode()) % _NUMBERS


def commands(snapshot: Snapshot, interfaces: Interfaces, before: frozenset[str] = frozenset()) -> list[str]:
    """Lines for `ip -batch` that make the kernel's rules and tables those of the rows.

    `before`: tables that were filled by an earlier call.
    """
    names = tables(snapshot)
    lines = [f"rule flush protocol {_PROTOCOL}"]
    lines += [f"route flush table {table_number(name)}" for name in sorted(names | before)]
    lines += [line for row in enabled(snapshot, "/ip/route") for line in _route(row, interfaces)]
    lines += [
        f"rule add fwmark {table_number(name)} lookup {table_number(name)} priority {_MARKS_PRIORITY} "
        f"protocol {_PROTOCOL}"
        for name in sorted(names)
    ]
    for number, row in enumerate(enabled(snapshot, "/routing/rule")):
        lines += _rule(row, interfaces, _RULES_PRIORITY + 2 * number)
    return lines


def tables(snapshot: Snapshot) -> frozenset[str]:
    """Names of all tables but main."""
    return frozenset(row.get("name", "") for row in enabled(snapshot, "/routing/table")) - {"", MAIN}


def _route(row: Row, interfaces: Interfaces) -> Iterator[str]:
    name = row.get("routing-table", MAIN)
    if name in ("", MAIN):
        return
    target = row.get("dst-address") or "0.0.0.0/0"
    end = f"table {table_number(name)} metric {row.get('distance') or 1} protocol {_PROTOCOL}"
    if row.get("blackhole", "no") not in ("no", "false"):
        yield f"route replace blackhole {target} {end}"
        return
    address, _, via = row.get("gateway", "").partition("%")
    device = interfaces.device(via or address)
    if address[:1].isdigit():
        yield f"route replace {target} via {address} {f'dev {device} ' if device else ''}{end}"
    elif device:
        yield f"route replace {target} dev {device} {end}"


def _rule(row: Row, interfaces: Interfaces, priority: int) -> Iterator[str]:
    parts = [f"from {row.get('src-address') or 'all'}"]
    if row.get("dst-address"):
        parts.append(f"to {row['dst-address']}")
    if row.get("interface"):
        device = interfaces.device(row["interface"])
        if device is None:
            return
        parts.append(f"iif {device}")
    if row.get("routing-mark"):
        parts.append(f"fwmark {table_number(row['routing-mark'])}")
    if truth(row, "inactive"):
        return
    chosen, end = " ".join(parts), f"protocol {_PROTOCOL}"
    match row.get("action") or "lookup":
        case "drop":
            yield f"rule add {chosen} blackhole priority {priority} {end}"
        case "unreachable":
            yield f"rule add {chosen} unreachable priority {priority} {end}"
        case action:
            prefix = f" suppress_prefixlength {int(row['min-prefix'])}" if row.get("min-prefix") else ""
            yield f"rule add {chosen} lookup {table_number(row.get('table', MAIN))}{prefix} priority {priority} {end}"
            if action == "lookup-only-in-table":
                yield f"rule add {chosen} unreachable priority {priority + 1} {end}"
