"""Which menus the stand-in takes writes for; any other is refused by name rather than kept without effect."""

from __future__ import annotations

from anycastlab.virtual_router import errors

EFFECTIVE = frozenset({
    "/interface/list",
    "/interface/list/member",
    "/ip/dns",
    "/ip/dns/static",
    "/ip/firewall/address-list",
    "/ip/firewall/filter",
    "/ip/firewall/nat",
    "/ip/firewall/raw",
    "/ip/route",
    "/ip/settings",
    "/ipv6/firewall/address-list",
    "/ipv6/firewall/filter",
    "/ipv6/firewall/nat",
    "/ipv6/route",
    "/ipv6/settings",
    "/routing/bfd/configuration",
    "/routing/bgp/connection",
    "/routing/bgp/instance",
    "/routing/bgp/template",
    "/routing/filter/rule",
    "/routing/id",
    "/system/identity",
    "/system/scheduler",
    "/system/script",
    "/tool/netwatch",
    "/user",
    "/user/group",
})  # fmt: skip
"""Rows here do what they do on a router (single properties may be refused by the data plane)."""

KEPT = frozenset({"/ip/dhcp-server/network", "/ip/dhcp-server/option", "/ip/dhcp-server/option/sets"})
"""Rows here are kept and shown, but there is no DHCP server to use them."""

WRITE_VERBS = frozenset({"add", "set", "unset", "reset", "remove", "enable", "disable", "comment", "move"})


def check(menu: str) -> None:
    """Raises CommandRefused for a menu whose rows would do nothing."""
    if menu not in EFFECTIVE and menu not in KEPT:
        raise errors.not_emulated(f"changes of {menu}")
