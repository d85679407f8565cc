"""What the router at hand can do: its version, its menus, and what follows from them. Pure.

The number is parsed, but menus that were read count more: a router without `/routing/bgp/instance` has none, whatever
it calls itself. Version cliffs come from the published command trees (`command_trees.schema`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from anycastlab.command_trees.schema import NEWEST_MINOR, OLDEST, Schema
from anycastlab.command_trees.version import Version
from anycastlab.routeros.errors import RouterError

__all__ = ["Capabilities", "Version", "capabilities"]

INSTANCE = "/routing/bgp/instance"
SAFE_MODE = "/safe-mode"


@dataclass(frozen=True)
class Capabilities:
    """What rows may use. `schema` is the command tree they are checked against before the first write."""

    version: Version
    schema: Schema
    instance: bool
    """`/routing/bgp/instance` exists and every connection must name one (7.20)."""
    multipath: bool
    """BGP ECMP (7.22); without it the router uses one node and keeps the others ready."""
    afi: str
    """Name of the address-family property of a connection: `afi` (7.19) or `address-families`."""
    ignore_initial: bool
    """netwatch can be told whether its first result runs a script (7.17)."""
    safe_mode: bool
    """`/safe-mode` is there for the API (7.18)."""
    beyond: bool = False
    """Newer than every published tree: checked against the newest one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences a person should read with the plan."""
        notes = []
        if not self.multipath:
            notes.append(
                f"RouterOS {self.version.number} has no BGP multipath (7.22 has): one node serves, the others stand by."
            )
        if not self.safe_mode:
            notes.append(
                f"RouterOS {self.version.number} has no safe mode for the API (7.18 has): a failed change is undone by "
                "this program, and by a scheduled script on the router where its device-mode allows one."
            )
        if self.beyond:
            notes.append(
                f"RouterOS {self.version.number} is newer than 7.{NEWEST_MINOR}, the newest version known here."
            )
        return tuple(notes)


def capabilities(version_text: str, missing_menus: Collection[str] = (), host: str = "") -> Capabilities:
    """From `/system/resource`'s version text and the menus that were found not to exist.

    Raises RouterError below 7.16 and for text that is no version.
    """
    try:
        version = Version.parse(version_text)
    except ValueError as error:
        raise RouterError(
            f"Router {host} calls its version {version_text!r}, which is not understood.",
            "RouterOS 7.16 to 7.24 is supported.",
            host,
        ) from error
    if (version.major, version.minor) < (OLDEST.major, OLDEST.minor):
        raise RouterError(
            f"Router {host} runs RouterOS {version.number}; the oldest supported version is {OLDEST.number}.",
            "Before it, netwatch cannot ask a DNS server; upgrade: /system/package/update install.",
            host,
        )
    beyond = (version.major, version.minor) > (OLDEST.major, NEWEST_MINOR)
    schema = Schema.load(Version(OLDEST.major, NEWEST_MINOR, 99) if beyond else version)

    def has(menu: str, verb: str, argument: str | None = None) -> bool:
        return menu not in missing_menus and schema.has(menu, verb, argument)

    return Capabilities(
        version=version,
        schema=schema,
        instance=has(INSTANCE, "add"),
        multipath=has(INSTANCE, "add", "multipath"),
        afi="afi" if has("/routing/bgp/connection", "add", "afi") else "address-families",
        ignore_initial=has("/tool/netwatch", "add", "ignore-initial-up"),
        safe_mode=has(SAFE_MODE, "take"),
        beyond=beyond,
    )
