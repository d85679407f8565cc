"""Where things are on a node, and the numbers two parts must agree on.

Read by the renderer, the probe's configuration, `status` and the scenarios; nothing here is a person's choice.
"""

from __future__ import annotations

from typing import Final

from anycastlab.site.parts import ResolverKind, Service

LINK: Final = "anycast0"  # carries the service address; its state is the announcement

LIB: Final = "/usr/local/lib/anycastlab"
STATE: Final = "/var/lib/anycastlab"
APPLIED: Final = f"{STATE}/applied.json"  # what each unit was last started with
DEPLOYED: Final = f"{STATE}/deployed.json"  # the settings that the last deploy had, see `site.deployed`
ORIGINALS: Final = f"{STATE}/originals"  # on a machine that outlives us: the files that ours replaced, and a record
ORIGINALS_INDEX: Final = f"{STATE}/originals.json"
DRAINED: Final = f"{STATE}/drained"  # the probe keeps the link down while this exists
DRAINED_BY_DEPLOY: Final = "deploy"  # content of the flag when a deploy set it, so that only a deploy lifts it again

SYSCTL_CONFIG: Final = "/etc/sysctl.d/60-anycastlab.conf"

LINK_SCRIPT: Final = f"{LIB}/anycast0"
PROBE_PROGRAM: Final = f"{LIB}/probe.pyz"
PROBE_CONFIG: Final = "/etc/anycastlab/probe.json"
PROBE_KEY: Final = "/etc/anycastlab/probe.key"

ADGUARD_PROGRAM: Final = f"{LIB}/AdGuardHome"
ADGUARD_USER: Final = "adguardhome"
ADGUARD_STATE: Final = "/var/lib/adguardhome"
ADGUARD_CONFIG: Final = f"{ADGUARD_STATE}/AdGuardHome.yaml"
ADGUARD_API_PORT: Final = 3000  # plain HTTP: sends everybody on to HTTPS
ADGUARD_HTTPS_PORT: Final = 3443  # its web page and API; not 443, which a board may need for something of its own
WEB_RULES: Final = "/etc/anycastlab/web.nft"  # who may reach these two ports
WEB_TABLE: Final = "anycastlab"  # nftables table of ours, family ip
PROBE_PORT: Final = 9153  # UDP, where the probes talk
BGP_PORT: Final = 179  # RFC 4271
BFD_PORT: Final = 3784  # RFC 5881
UNBOUND_CONFIG: Final = "/etc/unbound/unbound.conf"
TLS_CERTIFICATE: Final = "/etc/anycastlab/tls.crt"  # DNS over TLS, where it is asked for
TLS_KEY: Final = "/etc/anycastlab/tls.key"
# Debian's AppArmor profile of unbound lets it read below /etc/unbound and nowhere near ours.
UNBOUND_TLS_CERTIFICATE: Final = "/etc/unbound/anycastlab-tls.crt"
UNBOUND_TLS_KEY: Final = "/etc/unbound/anycastlab-tls.key"

# Switches off the stub of systemd-resolved; read after what a person has there, so that it is the last word.
RESOLVED_CONFIG: Final = "/etc/systemd/resolved.conf.d/zz-anycastlab.conf"

# Folders of ours that others than root look into: the probe, the resolver, systemd-networkd.
FOLDERS: Final = (LIB, STATE, "/etc/anycastlab", "/etc/systemd/networkd.conf.d")
FOLDER_MODE: Final = 0o755

FRR_CONFIG: Final = "/etc/frr/frr.conf"
FRR_DAEMONS: Final = "/etc/frr/daemons"
FRR_RELOAD: Final = f"{LIB}/frr-reload"
FRR_DROP_IN: Final = "/etc/systemd/system/frr.service.d/anycastlab.conf"

LINK_UNIT: Final = "anycast0.service"
PROBE_UNIT: Final = "anycastlab-probe.service"
ESCALATE_UNIT: Final = "anycastlab-escalate.path"
FRR_UNIT: Final = "frr.service"
RESOLVED_UNIT: Final = "systemd-resolved.service"
WEB_UNIT: Final = "anycastlab-web.service"  # holds the rules of AdGuard Home's web page
NETWORKD_UNIT: Final = "systemd-networkd.service"
RESOLVER_UNITS: Final[dict[ResolverKind, str]] = {
    "adguardhome": "adguardhome.service",
    "unbound": "unbound.service",
}
# Debian's unbound brings it: it makes the machine its own resolver, by openresolv or resolvconf.
OWN_RESOLVER_UNIT: Final = "unbound-resolvconf.service"
UNITS: Final = (
    LINK_UNIT, WEB_UNIT, *RESOLVER_UNITS.values(), OWN_RESOLVER_UNIT, FRR_UNIT, ESCALATE_UNIT, PROBE_UNIT,
    NETWORKD_UNIT,
)  # fmt: skip

# Replies from the service address leave by the router even where the client is a neighbour (layout `flat`). The link
# unit makes rule and route and keeps them; FRR would lose a race with the kernel when the interface flaps (measured).
ROUTING_TABLE: Final = 953
RULE_PRIORITY: Final = 953

PACKAGES: Final = ("frr", "frr-pythontools", "iproute2", "python3", "python3-dnspython")
RESOLVER_PACKAGES: Final[dict[ResolverKind, tuple[str, ...]]] = {"adguardhome": ("nftables",), "unbound": ("unbound",)}


def asked_for(drained_by: str) -> bool:
    """Whether the drain flag with this text is a person's wish. An empty one says nobody's: it is written whole."""
    return drained_by.strip() not in ("", DRAINED_BY_DEPLOY)


def resolver_unit(kind: ResolverKind) -> str:
    """The systemd unit of a resolver."""
    return RESOLVER_UNITS[kind]


def wanted_units(kind: ResolverKind) -> tuple[str, ...]:
    """Units that are enabled and run on a node with `kind`."""
    web = (WEB_UNIT,) if kind == "adguardhome" else ()
    return (LINK_UNIT, *web, FRR_UNIT, resolver_unit(kind), ESCALATE_UNIT, PROBE_UNIT)


def other_resolver_units(kind: ResolverKind) -> tuple[str, ...]:
    """Units of the resolvers a node with `kind` must not run: they would share port 53 in silence."""
    return tuple(
        unit
        for other, resolver in RESOLVER_UNITS.items()
        if other != kind
        for unit in ((resolver, WEB_UNIT) if other == "adguardhome" else (resolver,))
    )


def packages(kind: ResolverKind) -> tuple[str, ...]:
    """Debian packages a node needs; an image of ours has them all."""
    return (*PACKAGES, *RESOLVER_PACKAGES[kind])


def link_prefixes(service: Service) -> tuple[str, ...]:
    """Addresses on the link, as `ip address` prints them."""
    return tuple(str(prefix) for prefix in (service.prefix, service.prefix6) if prefix)


def rules(service: Service) -> tuple[str, ...]:
    """Policy rules of the service addresses, as `ip rule` prints them after the priority."""
    addresses = (service.address, service.address6)
    return tuple(f"from {address} lookup {ROUTING_TABLE}" for address in addresses if address)
