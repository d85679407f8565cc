"""Which menus the stand-in takes writes for; any other is refused by name rather than kept without effect."""

from __future__ import annotations

from anycastlab.virtual_router import errors

EFFECTIVE = frozenset({
    "/interface/list",
    "/interface/list/member",
    "/ip/dns",
    "/ip/dns/static",
    "/ip/firewall/address-list",
    "/ip/firewall/connection/tracking",
    "/ip/firewall/filter",
    "/ip/firewall/mangle",
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
    "/routing/rule",
    "/routing/table",
    "/system/identity",
    "/system/scheduler",
    "/system/script",
    "/tool/netwatch",
    "/user",
    "/user/group",
})  # fmt: skip
"""Rows here do what they do on a router (single properties may be refused by the data plane)."""

KEPT = frozenset({
    "/interface/bridge/settings",
    "/interface/ethernet/switch",
    "/interface/ethernet/switch/port",
    "/ip/dhcp-server/network",
    "/ip/dhcp-server/option",
    "/ip/dhcp-server/option/sets",
    "/ip/dns/forwarders",
    "/ip/hotspot",
    "/ip/vrf",
})  # fmt: skip
"""Rows here are kept and shown, without an effect: what would use them (a DHCP server, a hotspot, VRFs, a switch chip)
is not there. A client that looks for what may be in its way must be able to find them."""

WRITE_VERBS = frozenset({"add", "set", "unset", "reset", "remove", "enable", "disable", "comment", "move"})


def check(menu: str) -> None:
    """Raises CommandRefused for a menu whose rows would do nothing."""
    if menu not in EFFECTIVE and menu not in KEPT:
        raise errors.not_emulated(f"changes of {menu}")
