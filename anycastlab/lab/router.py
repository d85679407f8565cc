"""The lab's router as a home has it before anycastlab comes: the stand-in's configuration. Pure."""

from __future__ import annotations

from typing import Final

from anycastlab.lab import specs
from anycastlab.node.managed import ManagedFile
from anycastlab.site import topology
from anycastlab.virtual_router.config import Config, Group, Interface, User

PROGRAM: Final = "/usr/local/lib/anycastlab/router.pyz"
CONFIG: Final = "/etc/anycastlab/router.json"
UNIT: Final = "anycastlab-router.service"

# What the deploy's user may do: the API, reading, writing, netwatch's tests, and comparing keys (sensitive); `policy`
# lets it see its own rights before it begins.
_POLICIES: Final = ("read", "write", "policy", "test", "sensitive", "api")

# A home router waits five minutes after its start before netwatch looks; a lab is not there long enough for that.
_NETWATCH_STARTUP_DELAY_S: Final = 5.0

LOCAL_NAMES: Final = {
    "router.lan": str(topology.ROUTER_LAN),
    "nas.lan": "10.1.1.20",
    "printer.lan": "10.1.1.21",
}

# The filter a RouterOS home device leaves the factory with, as far as it concerns the router itself.
_FACTORY_FILTER: Final = (
    {"chain": "input", "action": "accept", "connection-state": "established,related,untracked"},
    {"chain": "input", "action": "drop", "connection-state": "invalid"},
    {"chain": "input", "action": "accept", "protocol": "icmp"},
    {"chain": "input", "action": "accept", "in-interface-list": "LAN", "protocol": "tcp", "dst-port": "8728,8729"},
    {"chain": "input", "action": "accept", "src-address": "127.0.0.1"},
    {"chain": "input", "action": "drop"},
    {"chain": "forward", "action": "accept", "connection-state": "established,related,untracked"},
    {"chain": "forward", "action": "drop", "connection-state": "invalid"},
)
# The same for IPv6: neighbours find each other by ICMPv6, and nobody else gets in unasked.
_FACTORY_FILTER6: Final = (
    {"chain": "input", "action": "accept", "connection-state": "established,related,untracked"},
    {"chain": "input", "action": "drop", "connection-state": "invalid"},
    {"chain": "input", "action": "accept", "protocol": "icmpv6"},
    {"chain": "input", "action": "accept", "dst-address": "::1/128"},
    {"chain": "input", "action": "drop"},
    {"chain": "forward", "action": "accept", "connection-state": "established,related,untracked"},
    {"chain": "forward", "action": "drop", "connection-state": "invalid"},
)


def config(version: str, user: str, password: str, ipv6: bool = False) -> Config:
    """The stand-in that answers like RouterOS `version`, with one account for the deploy.

    `ipv6`: its interfaces have the lab's IPv6 addresses, too (`anycastlab.lab.ipv6` puts them there).
    """
    wan, lan, dns = topology.WAN.prefixlen, topology.LAN.prefixlen, topology.DNS.prefixlen
    lan6 = (f"{topology.ROUTER_LAN6}/{topology.LAN6.prefixlen}",) if ipv6 else ()
    dns6 = (f"{topology.ROUTER_DNS6}/{topology.DNS6.prefixlen}",) if ipv6 else ()
    return Config(
        version=f"{version} (stable)",
        users=(User(user, password, "anycastlab"),),
        groups=(Group("anycastlab", _POLICIES),),
        interfaces=(
            Interface("ether1", specs.WAN, (f"{topology.ROUTER_WAN}/{wan}",), ("WAN",)),
            Interface("ether2", specs.LAN, (f"{topology.ROUTER_LAN}/{lan}", *lan6), ("LAN",)),
            Interface("ether3", specs.DNS, (f"{topology.ROUTER_DNS}/{dns}", *dns6), ("LAN",)),
        ),
        tls_port=None,  # the proxy device on 127.0.0.1 is the only way in
        dns_servers=(str(topology.UPSTREAM_WAN),),
        static_names=LOCAL_NAMES,
        rows={
            "/ip/firewall/filter": _FACTORY_FILTER,
            "/ipv6/firewall/filter": _FACTORY_FILTER6,
            "/ip/firewall/nat": ({"chain": "srcnat", "action": "masquerade", "out-interface-list": "WAN"},),
        },
        netwatch_startup_delay_s=_NETWATCH_STARTUP_DELAY_S,
    )


def unit() -> str:
    """Its systemd unit. It starts the routing daemon and fills nftables; a crash is healed at once, rows stay."""
    return f"""[Unit]
Description=RouterOS stand-in of the lab
After=network.target

[Service]
Type=notify
ExecStart=/usr/bin/python3 {PROGRAM} --config {CONFIG}
Restart=always
RestartSec=1
# The routing daemon and the packet filter are the data plane: they go on while the API restarts.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def files(program: bytes, settings: Config) -> tuple[ManagedFile, ...]:
    """What lies on the router's machine: the stand-in's archive, its configuration (holds a password) and its unit."""
    return (
        ManagedFile(PROGRAM, program, mode=0o755),
        ManagedFile(CONFIG, settings.to_json().encode(), mode=0o600, secret=True),
        ManagedFile(f"/etc/systemd/system/{UNIT}", unit().encode()),
    )
