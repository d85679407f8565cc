"""What the router was deployed with, kept by the router itself: a comment at the head of a script of ours. Pure.

Nodes have a file for it. A router has no place for notes that every version, package and right allows, but it keeps the
text of netwatch's script, where a line that begins with `#` is none of the script's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from anycastlab.routeros.row import tag_of
from anycastlab.site import Site, deployed

_HEAD: Final = "# deployed with "
TAG: Final = "anycastlab:netwatch"
PROPERTY: Final = "up-script"


def line(site: Site) -> str:
    """The line that heads the script."""
    return f"{_HEAD}{deployed.to_line(site)}\n"


def recorded(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The settings noted in netwatch's `rows`; empty where there are none: an older version wrote none."""
    for row in rows:
        first = row.get(PROPERTY, "").replace("\r", "").partition("\n")[0]
        if tag_of(row) == TAG and first.startswith(_HEAD):
            return deployed.parse(first.removeprefix(_HEAD))
    return {}
