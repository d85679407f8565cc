"""What RouterOS has and knows by itself: built-in rows, default values, what an `add` must bring, what must be unique.

From the MikroTik documentation, and for what is shown and refused from a survey that others made of a 7.23 CHR. Only
what the version's command tree knows is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_FIREWALL = {"action": "accept", "bytes": "0", "packets": "0", "invalid": "false", "dynamic": "false"}

_SCRIPT_POLICY = "ftp,reboot,read,write,policy,test,password,sniff,sensitive,romon"

DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "/ip/firewall/filter": _FIREWALL,
    "/ip/firewall/nat": _FIREWALL,
    "/ip/firewall/raw": _FIREWALL,
    "/ip/firewall/mangle": _FIREWALL,
    "/routing/rule": {"action": "lookup", "disabled": "false", "inactive": "false"},
    "/ip/hotspot": {"disabled": "false", "invalid": "false", "profile": "default"},
    "/ip/vrf": {"disabled": "false", "builtin": "false"},
    "/interface/bridge/settings": {
        "use-ip-firewall": "false", "use-ip-firewall-for-vlan": "false", "use-ip-firewall-for-pppoe": "false",
        "allow-fast-path": "true",
    },
    "/ipv6/firewall/filter": _FIREWALL,
    "/ipv6/firewall/nat": _FIREWALL,
    "/ip/firewall/address-list": {"disabled": "false", "dynamic": "false"},
    "/ipv6/firewall/address-list": {"disabled": "false", "dynamic": "false"},
    "/ipv6/route": {
        "dst-address": "::/0", "distance": "1", "scope": "30", "target-scope": "10", "routing-table": "main",
        "dynamic": "false", "static": "true",
    },
    "/ipv6/settings": {
        "disable-ipv6": "false", "forward": "true", "accept-redirects": "yes-if-forwarding-disabled",
        "accept-router-advertisements": "yes-if-forwarding-disabled", "max-neighbor-entries": "16384",
        "multipath-hash-policy": "l3",
    },
    "/routing/bgp/connection": {"disabled": "false"},
    "/routing/bgp/template": {"disabled": "false"},
    "/routing/bgp/instance": {"disabled": "false"},
    "/routing/filter/rule": {"disabled": "false"},
    "/routing/bfd/configuration": {"disabled": "false"},
    "/routing/table": {"disabled": "false"},
    "/routing/id": {"disabled": "false"},
    "/ip/route": {
        "dst-address": "0.0.0.0/0", "distance": "1", "scope": "30", "target-scope": "10", "routing-table": "main",
        "dynamic": "false", "static": "true",
    },
    "/ip/address": {"disabled": "false", "dynamic": "false", "invalid": "false"},
    "/ip/dns/static": {"type": "A", "ttl": "1d", "disabled": "false", "dynamic": "false"},
    "/ip/dhcp-server/network": {
        "gateway": "", "dns-server": "", "ntp-server": "", "wins-server": "", "caps-manager": "", "dhcp-option": "",
        "dynamic": "false",
    },
    "/ip/dhcp-server": {"lease-time": "30m", "use-radius": "no", "disabled": "false", "dynamic": "false"},
    "/ip/service": {
        "address": "", "disabled": "false", "dynamic": "false", "invalid": "false", "max-sessions": "20", "vrf": "main",
    },
    "/tool/netwatch": {"type": "simple", "interval": "10s", "status": "unknown"},
    "/system/script": {
        "source": "", "policy": _SCRIPT_POLICY, "dont-require-permissions": "false", "run-count": "0",
        "invalid": "false",
    },
    "/system/scheduler": {
        "interval": "0s", "on-event": "", "run-count": "0", "disabled": "false", "policy": _SCRIPT_POLICY,
    },
    "/user": {
        "address": "", "disabled": "false", "expired": "false", "inactivity-policy": "none",
        "inactivity-timeout": "10m",
    },
    "/user/group": {"skin": "default"},
    "/interface": {"type": "ether", "mtu": "1500", "running": "true", "disabled": "false", "dynamic": "false"},
    "/interface/ethernet": {"mtu": "1500", "running": "true", "disabled": "false"},
    "/interface/list": {"include": "", "exclude": "", "dynamic": "false", "builtin": "false"},
    "/interface/list/member": {"disabled": "false", "dynamic": "false"},
    "/ip/dns": {
        "servers": "", "dynamic-servers": "", "use-doh-server": "", "verify-doh-cert": "false",
        "doh-max-server-connections": "5", "doh-max-concurrent-queries": "50", "doh-timeout": "5s",
        "allow-remote-requests": "false", "max-udp-packet-size": "4096", "query-server-timeout": "2s",
        "query-total-timeout": "10s", "max-concurrent-queries": "100", "max-concurrent-tcp-sessions": "20",
        "cache-size": "2048", "cache-max-ttl": "1w", "address-list-extra-time": "0s", "vrf": "main",
        "mdns-repeat-ifaces": "", "cache-used": "24",
    },
    "/ip/settings": {
        "ip-forward": "true", "send-redirects": "true", "accept-source-route": "false", "accept-redirects": "false",
        "secure-redirects": "true", "rp-filter": "no", "tcp-syncookies": "false", "tcp-timestamps": "random-offset",
        "max-neighbor-entries": "8192", "arp-timeout": "30s", "icmp-rate-limit": "10", "icmp-rate-mask": "0x1818",
        "allow-fast-path": "true", "ipv4-multipath-hash-policy": "l3",
        "icmp-errors-use-inbound-interface-address": "false", "ipv4-fragment-time": "30s",
    },
    "/ip/firewall/connection/tracking": {
        "enabled": "auto", "loose-tcp-tracking": "true", "liberal-tcp-tracking": "false", "tcp-syn-sent-timeout": "5s",
        "tcp-syn-received-timeout": "5s", "tcp-established-timeout": "1d", "tcp-fin-wait-timeout": "10s",
        "tcp-close-wait-timeout": "10s", "tcp-last-ack-timeout": "10s", "tcp-time-wait-timeout": "10s",
        "tcp-close-timeout": "10s", "tcp-max-retrans-timeout": "5m", "tcp-unacked-timeout": "5m", "udp-timeout": "30s",
        "udp-stream-timeout": "3m", "icmp-timeout": "10s", "generic-timeout": "10m",
    },
    "/routing/settings": {"single-process": "false"},
    "/system/clock": {"time-zone-autodetect": "true", "time-zone-name": "UTC"},
    "/system/package/update": {"channel": "stable"},
    "/system/license": {"level": "free"},
}  # fmt: skip

READ_ONLY: Mapping[str, frozenset[str]] = {
    "/ip/dns": frozenset({"dynamic-servers", "cache-used"}),
}
"""Shown in a singleton though no version takes it as an argument."""

BY_TYPE: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("/ip/dns/static", "MX"): {"mx-preference": "0"},
    ("/ip/dns/static", "SRV"): {"srv-priority": "0", "srv-weight": "0"},
}
"""Defaults of a row whose `type` is this."""

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "/routing/bgp/connection": ("instance", "local.role", "name"),
    "/routing/bgp/instance": ("name",),
    "/routing/bgp/template": ("name",),
    "/routing/filter/rule": ("chain", "rule"),
    "/routing/table": ("name",),
    "/ip/firewall/filter": ("chain",),
    "/ip/firewall/nat": ("chain",),
    "/ip/firewall/raw": ("chain",),
    "/ip/firewall/mangle": ("chain",),
    "/ip/vrf": ("name",),
    "/ip/hotspot": ("interface",),
    "/ipv6/firewall/filter": ("chain",),
    "/ipv6/firewall/nat": ("chain",),
    "/ipv6/firewall/address-list": ("address", "list"),
    "/ip/firewall/address-list": ("address", "list"),
    "/ip/address": ("address", "interface"),
    "/ip/dhcp-server": ("interface", "name"),
    "/ip/dhcp-server/network": ("address",),
    "/ip/dhcp-server/option": ("code", "name"),
    "/tool/netwatch": ("host",),
    "/system/scheduler": ("name",),
    "/system/script": ("name",),
    "/user": ("group", "name"),
    "/user/group": ("name",),
    "/interface/list": ("name",),
    "/interface/list/member": ("interface", "list"),
}
"""Arguments that `add` insists on, as far as the version has them."""


@dataclass(frozen=True)
class Unique:
    """No two enabled rows may agree on all `properties`; `text` is what RouterOS says after "failure: "."""

    properties: tuple[str, ...]
    text: str


UNIQUE: Mapping[str, tuple[Unique, ...]] = {
    "/routing/bgp/instance": (Unique(("name",), "already have instance with such name"),),
    "/routing/bgp/template": (Unique(("name",), "already have template with such name"),),
    "/routing/table": (Unique(("name",), "already have table with such name"),),
    "/ip/firewall/address-list": (Unique(("list", "address"), "already have such entry"),),
    "/ipv6/firewall/address-list": (Unique(("list", "address"), "already have such entry"),),
    "/ip/address": (Unique(("address", "interface"), "already have such address"),),
    "/ip/dhcp-server": (Unique(("name",), "server with such name already exists"),),
    "/ip/dhcp-server/network": (Unique(("address",), "such network already exists"),),
    "/ip/dhcp-server/option": (Unique(("name",), "option with such name already exists"),),
    "/ip/dns/static": (
        Unique(
            ("name", "regexp", "type", "address", "cname", "mx-exchange", "mx-preference", "srv-target", "srv-port",
             "srv-priority", "srv-weight", "text", "ns", "forward-to"),
            "entry already exists",
        ),
    ),
    "/system/scheduler": (Unique(("name",), "already have such name"),),
    "/system/script": (Unique(("name",), "already have such name"),),
    "/user": (Unique(("name",), "user with the same name already exists"),),
    "/user/group": (Unique(("name",), "group with the same name already exists"),),
    "/interface/list": (Unique(("name",), "list with such name already exists"),),
    "/interface/list/member": (Unique(("interface", "list"), "already have such entry"),),
}  # fmt: skip

SENSITIVE = frozenset({"tcp-md5-key", "password", "private-key", "passphrase", "response"})
"""Shown only to users with the policy `sensitive`, masked in every log."""

NEVER_SHOWN = frozenset({"password"})
"""An account's password does not come back, whoever asks."""

SERVICES = {
    "telnet": 23, "ftp": 21, "www": 80, "ssh": 22, "api": 8728, "winbox": 8291, "api-ssl": 8729, "www-ssl": 443,
}  # fmt: skip
"""Services and their usual ports. The stand-in runs the API only, so the others are shown as switched off."""

_COMMON = "local,telnet,ssh,reboot,read,test,winbox,password,web,sniff,sensitive,api,romon,rest-api"
GROUPS = {
    "read": f"{_COMMON},!ftp,!write,!policy",
    "write": f"{_COMMON},write,!ftp,!policy",
    "full": f"{_COMMON},ftp,write,policy",
}
"""Built-in user groups and their policies (MikroTik documentation, User)."""


def builtin_rows(identity: str, open_ports: Mapping[str, int]) -> dict[str, list[dict[str, str]]]:
    """Rows of a router that nobody has configured, apart from accounts and interfaces.

    `open_ports` are the services that run, with their ports.
    """
    return {
        "/system/identity": [{"name": identity}],
        "/ip/vrf": [{"name": "main", "interfaces": "all", "builtin": "true"}],
        "/routing/bgp/template": [{"name": "default", "as": "65530", "routing-table": "main", "default": "true"}],
        "/routing/table": [{"name": "main", "fib": "", "dynamic": "true"}],
        "/routing/id": [
            {"name": "main", "dynamic": "true", "select-dynamic-id": "only-vrf", "select-from-vrf": "main"}
        ],
        "/user/group": [{"name": name, "policy": policy, "builtin": "true"} for name, policy in GROUPS.items()],
        "/ip/service": [
            {
                "name": name,
                "port": str(open_ports.get(name, port)),
                "proto": "tcp",
                "disabled": "false" if name in open_ports else "true",
                "builtin": "true",
                **({"certificate": "none", "tls-version": "any"} if name.endswith("-ssl") else {}),
            }
            for name, port in SERVICES.items()
        ],
        "/interface/list": [
            {"name": name, "comment": comment, "builtin": "true"}
            for name, comment in (
                ("all", "contains all interfaces"),
                ("none", "contains no interfaces"),
                ("dynamic", "contains dynamic interfaces"),
                ("static", "contains static interfaces"),
            )
        ],
        "/interface": [{"name": "lo", "type": "loopback", "mtu": "65536", "builtin": "true"}],
    }
