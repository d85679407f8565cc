"""Desired rows of the last resort: when no node answers, the router's own resolver does. Pure.

Two dst-nat redirects of the service address, kept disabled, and a netwatch that asks a question through the service
address every second. Netwatch's own packets start on the router and never meet dst-nat, so the redirect cannot
make it believe the nodes are back.

Scripts are inline: netwatch runs them with read, write, test, reboot only, and silently does not run a called
`/system/script` that has more (MikroTik manual, "Netwatch"). NAT is decided on a connection's first packet, so each
toggle removes the service address's tracked connections; they may vanish meanwhile, hence one by one with
`on-error={}`. RouterOS shows such a connection's target as `10.1.9.53` with `dst-port=53` apart, or as `10.1.9.53:53`,
depending on its version: the pattern fits both.

The redirect is a state, held by a script that runs after each test: whatever switches it meanwhile (a person, the end
of an administrator's safe mode, which takes back what netwatch did), the next test puts it right. netwatch, unlike the
scheduler, is there in every device-mode.

Between the last node's death and the redirect the service address has no route of its own: a blackhole of the highest
distance keeps its questions from the default route, and so from the provider. dst-nat comes before routing, so the
redirect does not meet it; netwatch's own question fails at once instead of after its time-out.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Final

from anycastlab.routeros import record
from anycastlab.routeros.row import Place, Row
from anycastlab.routeros.version import Capabilities
from anycastlab.site.model import Site

NAT: Final = "/ip/firewall/nat"
NETWATCH: Final = "/tool/netwatch"
ROUTE: Final = "/ip/route"
ROUTE6: Final = "/ipv6/route"
REDIRECT_TAG: Final = "anycastlab:redirect"
NETWATCH_TAG: Final = record.TAG

#: Our own redirects and nobody else's, as a pattern in a script (`\$` is the script language's `$`).
_REDIRECTS: Final = f"^{REDIRECT_TAG}:(udp|tcp)( |\\$)"

#: Distance of the blackhole: behind every way to the service address that could work. 255 would never be used.
BLACKHOLE_DISTANCE: Final = 254

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


def fallback_rows(site: Site, caps: Capabilities, ipv6_route: bool = True) -> list[Row]:
    """`ipv6_route`: the router has static IPv6 routes."""
    rows = [
        *(_redirect(site, protocol) for protocol in ("udp", "tcp")),
        _netwatch(site, caps),
        _blackhole(ROUTE, str(site.service.prefix)),
    ]
    if site.service.prefix6 and ipv6_route:
        rows.append(_blackhole(ROUTE6, str(site.service.prefix6)))
    return rows


def _blackhole(menu: str, prefix: str) -> Row:
    properties: dict[str, str | None] = {
        "dst-address": prefix,
        "blackhole": "yes",
        "distance": str(BLACKHOLE_DISTANCE),
        "disabled": "no",
    }
    reason = "while no node announces it, its questions do not leave by the default route"
    return Row(menu, "anycastlab:blackhole", properties, reason=reason)


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
        record.PROPERTY: record.line(site) + script("disable", site.service.address),
        "down-script": script("enable", site.service.address),
        "test-script": holding(site.service.address),
        "disabled": "no",
    }
    if caps.ignore_initial:
        # Also the first result counts: the redirect may be in the wrong state since the last restart.
        properties["ignore-initial-up"] = "no"
        properties["ignore-initial-down"] = "no"
    return Row(NETWATCH, NETWATCH_TAG, properties)


def script(verb: str, service: IPv4Address) -> str:
    """The toggle script for `enable` or `disable` of the redirects; does nothing where they are so already."""
    event = "no node answers, the router does" if verb == "enable" else "the nodes answer again"
    wrong = "yes" if verb == "enable" else "no"
    return (
        f':if ([:len [{NAT}/find where comment~"{_REDIRECTS}" disabled={wrong}]] > 0) do={{\n'
        f':log warning "anycastlab: {event}"\n'
        f'{NAT}/{verb} [find where comment~"{_REDIRECTS}"]\n'
        f':foreach c in=[/ip/firewall/connection/find where dst-address~"^{service}(:|\\$)"] do={{'
        ":do {/ip/firewall/connection/remove $c} on-error={}}}"
    )


def holding(service: IPv4Address) -> str:
    """The script after each test: the redirects as netwatch's own status wants them."""

    def when(status: str, verb: str) -> str:
        found = f'[:len [{NETWATCH}/find where comment~"^{NETWATCH_TAG}( |\\$)" status="{status}"]]'
        return f":if ({found} > 0) do={{\n{script(verb, service)}}}"

    return "\n".join((when("down", "enable"), when("up", "disable")))
