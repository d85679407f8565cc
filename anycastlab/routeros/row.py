"""What a desired row is, how it is known to be ours, and where it has to stand. Pure.

Ownership is a tag, the first word of a row's comment: `anycastlab:<what>:<which>`, and one of those that are made here.
Whatever else a person writes behind it stays. All other rows are foreign, `anycastlab: web pages, mine` too: they are
read to find the right place, and never touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from anycastlab.outside_text import one_line
from anycastlab.routeros.values import is_true

TAG_PREFIX: Final = "anycastlab:"

#: Every tag that is made here, and nothing else: a node by its name, a network with its length.
_TAG: Final = re.compile(
    r"^anycastlab:(?:instance|netwatch|blackhole|probe-zone|no-redirects|rollback"
    r"|(?:wan-guard|redirect):(?:udp|tcp)"
    r"|filter:(?:in6?|out)"
    r"|accept:(?:(?:bgp|bfd):[a-z0-9][a-z0-9-]*|dns-(?:udp|tcp):[0-9a-f.:]+/\d+)"
    r"|bfd:[a-z0-9][a-z0-9-]*"
    r"|connection:[a-z0-9][a-z0-9-]*(?::v6)?"
    r"|dhcp:[0-9.]+/\d+)\Z"
)

#: Every menu written to, in the order of writing: what protects comes before what it protects, and clients get the
#: address (DHCP) only when all else is there. Removal goes the other way round.
MENUS: Final = (
    "/ip/firewall/filter",
    "/ipv6/firewall/filter",
    "/ip/settings",
    "/ipv6/settings",
    "/ip/dns",
    "/ip/dns/static",
    "/ip/firewall/nat",
    "/routing/filter/rule",
    "/routing/bfd/configuration",
    "/routing/bgp/instance",
    "/routing/bgp/connection",
    "/ip/route",
    "/ipv6/route",
    "/tool/netwatch",
    "/ip/dhcp-server/network",
)

#: One row, no id, no comment, not ours: single properties are set, and given back by removal.
SETTINGS: Final = frozenset({"/ip/settings", "/ipv6/settings", "/ip/dns"})

#: First match wins, so the order is part of the meaning.
ORDERED: Final = frozenset(
    {
        "/ip/firewall/filter",
        "/ipv6/firewall/filter",
        "/ip/firewall/nat",
        "/routing/filter/rule",
        "/routing/bfd/configuration",
    }
)

#: Here any further matcher narrows or voids a rule, so a property we did not ask for is drift, too.
STRICT: Final = frozenset({"/ip/firewall/filter", "/ipv6/firewall/filter", "/ip/firewall/nat"})

#: Properties of strict menus that change nothing about which packets match: a person may set them as they like.
FREE: Final = frozenset({"comment", "log", "log-prefix", "copy-from", "place-before"})

SECRETS: Final = frozenset({"tcp-md5-key", "password"})

#: Actions that end a packet's way through a chain before it reaches a rule behind.
BLOCKING: Final = frozenset({"drop", "reject", "tarpit", "jump"})


class Place(IntEnum):
    """Where in its chain an own row has to stand, seen from the foreign rows."""

    FIRST = 0
    BEFORE_BLOCKING = 1
    LAST = 2


@dataclass(frozen=True)
class Row:
    """One desired row. A property that is None must not be set. `tag` is empty for settings menus.

    `initial` holds runtime state: sent when the row is made, no drift afterwards. `reason` is for the person reading
    the plan.
    """

    menu: str
    tag: str
    properties: Mapping[str, str | None]
    place: Place = Place.LAST
    initial: Mapping[str, str] | None = None
    reason: str = ""
    exact: bool = False
    """Whatever else the actual row holds is drift, too: for rows out of a backup."""

    @property
    def chain(self) -> str:
        return self.properties.get("chain") or ""

    @property
    def key(self) -> tuple[str, str]:
        return self.menu, self.tag

    def creation(self) -> dict[str, str]:
        """Everything an `add` sends."""
        sent = {name: value for name, value in self.properties.items() if value is not None}
        return {**sent, **(self.initial or {}), "comment": self.properties.get("comment") or self.tag}


def tag_of(row: Mapping[str, str]) -> str:
    """The tag of an actual row, or '' when it is foreign."""
    first = row.get("comment", "").split(" ", 1)[0]
    return first if _TAG.match(first) else ""


def place_of(menu: str, tag: str) -> Place:
    """Where an own row belongs, told by its tag alone: for rows out of a backup."""
    if tag.startswith(f"{TAG_PREFIX}accept:"):
        return Place.BEFORE_BLOCKING
    return Place.LAST if menu == "/routing/filter/rule" or menu not in ORDERED else Place.FIRST


def is_static(row: Mapping[str, str]) -> bool:
    """Rows the router made itself can neither be changed nor serve as an anchor for `move`."""
    return not (is_true(row.get("dynamic")) or is_true(row.get("builtin")))


def describe(row: Mapping[str, str]) -> str:
    """A few words by which a person finds an actual row on the router."""
    parts = [row.get(".id", "")]
    parts += [
        f"{key}={one_line(row[key])}"
        for key in ("name", "chain", "action", "address", "remote.address", "host", "dst-address", "rule")
        if row.get(key)
    ]
    if comment := row.get("comment"):
        parts.append(f"comment={one_line(comment)!r}")
    return " ".join(part for part in parts if part)
