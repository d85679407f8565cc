"""`--limit`: the machines that a person means, by the names that every table shows, and no run where it names none."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from fnmatch import fnmatch
from typing import Any

from anycastlab.errors import AnycastlabError


class LimitError(AnycastlabError):
    """`--limit` names no machine of the inventory."""


def install() -> None:
    """pyinfra's own command, too, looks machines up by our rules, for as long as this process lasts."""
    from pyinfra_cli import cli as its

    vars(its)["_get_inventory_pattern_matches"] = chosen


def chosen(inventory: Any, patterns: Iterable[str], option: str) -> list[Any]:
    """The hosts that `patterns` name: groups, pyinfra's names and short ones, the last two with wildcards.

    Raises LimitError for a pattern that names none.
    """
    found: dict[str, Any] = {}
    for pattern in patterns:
        hosts = list(inventory.get_group(pattern, []))
        hosts += [host for host in inventory if fnmatch(host.name, pattern) or fnmatch(label(host), pattern)]
        if not hosts:
            raise LimitError(
                f"{option} {shlex.quote(pattern)}: the inventory has no machine and no group of this name; "
                "nothing was changed.",
                f"Its machines are {', '.join(sorted({label(host) for host in inventory}))}.",
            )
        found |= {host.name: host for host in hosts}
    return list(found.values())


def label(host: Any) -> str:
    """What a machine is called in all that is shown: `node01` of `@incus/remote:node01`; the router is `router`."""
    if host.name.startswith("@routeros/"):
        return "router"
    return str(host.data.get("node_name") or host.name).rpartition("/")[2].rpartition(":")[2]
