"""Desired rows of the last resort: when no node answers, the router's own resolver does. Pure.

Two dst-nat redirects of the service address, kept disabled, and a netwatch that asks a question through the service
address every second. Netwatch's own packets start on the router and never meet dst-nat, so the redirect cannot
make it believe the nodes are back.

Scripts are inline: netwatch runs them with read, write, test, reboot only, and silently does not run a called
`/system/script` that has more (MikroTik manual, "Netwatch"). NAT is decided on a connection's first packet, so each
toggle removes the service address's tracked connections; they may vanish meanwhile, hence one by one with
`on-error={}`.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Final

from anycastlab.routeros.row import Place, Row
from anycastlab.routeros.version import Capabilities
from anycastlab.site.model import Site

NAT: Final = "/ip/firewall/nat"
NETWATCH: Final = "/tool/netwatch"
REDIRECT_TAG: Final = "anycastlab:redirect"

#: How often netwatch asks, seconds: the least that RouterOS takes.
INTERVAL_S: Final = 1
#: How long it waits for the answer, milliseconds. Together the longest time from the last node's death to the redirect;
#: 1.4 s is before the first retry of any stub resolver but Apple's, and leaves 0.1 s of 1.5 for the script. A node
#: answers this question by itself in a millisecond or two, and one that needs 150 ms is taken out by its probe; a
#: false alarm costs nobody an answer, for the router's resolver gives it meanwhile.
TIMEOUT_MS: Final = 400

#: Seconds netwatch waits after the router's start. Its default of 5 minutes would keep a stale redirect that long; BGP
#: and BFD are up well within half a minute.
STARTUP_DELAY_S: Final = 30


def fallback_rows(site: Site, caps: Capabilities) -> list[Row]:
    return [*(_redirect(site, protocol) for protocol in ("udp", "tcp")), _netwatch(site, caps)]


def _redirect(site: Site, protocol: str) -> Row:
    properties: dict[str, str | None] = {
        "chain": "dstnat",
        "action": "redirect",
        "protocol": protocol,
        "dst-address": str(site.service.address),
        "dst-port": "53",
        "to-ports": "53",
    }
    reason = "disabled; netwatch enables it while no node answers"
    return Row(NAT, f"{REDIRECT_TAG}:{protocol}", properties, Place.FIRST, {"disabled": "yes"}, reason)


def _netwatch(site: Site, caps: Capabilities) -> Row:
    properties: dict[str, str | None] = {
        "name": "anycastlab",
        "type": "dns",
        "host": site.service.identity_name,
        "record-type": "A",
        "dns-server": str(site.service.address),
        "interval": f"{INTERVAL_S}s",
        "timeout": f"{TIMEOUT_MS}ms",
        "startup-delay": f"{STARTUP_DELAY_S}s",
        "up-script": script("disable", site.service.address),
        "down-script": script("enable", site.service.address),
        "disabled": "no",
    }
    if caps.ignore_initial:
        # Also the first result counts: the redirect may be in the wrong state since the last restart.
        properties["ignore-initial-up"] = "no"
        properties["ignore-initial-down"] = "no"
    return Row(NETWATCH, "anycastlab:netwatch", properties)


def script(verb: str, service: IPv4Address) -> str:
    """The toggle script for `enable` or `disable` of the redirects."""
    event = "no node answers, the router does" if verb == "enable" else "the nodes answer again"
    return (
        f':log warning "anycastlab: {event}"\n'
        f'/ip/firewall/nat/{verb} [find comment~"^{REDIRECT_TAG}:"]\n'
        f':foreach c in=[/ip/firewall/connection/find where dst-address~"^{service}:"] do={{'
        ":do {/ip/firewall/connection/remove $c} on-error={}}"
    )
