"""From a `Site` and one of its nodes to every file on that machine. Pure: no machine is asked, nothing is written.

What depends on the machine itself (its host name, whether its kernel forwards) comes in as `Machine`.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import collapse_addresses
from typing import Any, Final

from anycastlab import bundle
from anycastlab.node import adguard_yaml, frr_config, layout, lockfile, reverse, timing
from anycastlab.node.credentials import USER
from anycastlab.node.errors import NodeError
from anycastlab.node.managed import ManagedFile
from anycastlab.node.template import filled
from anycastlab.probe import config as probe_config
from anycastlab.probe import units as probe_units
from anycastlab.site import Node, Site, deployed, upstreams

BLOCKED_TTL_S: Final = 10  # AdGuard Home's default for blocked names
# unbound's share of `cache_bytes`: messages one part, record sets two (unbound.conf(5) advises double).
_MESSAGE_SHARE: Final = 3
_UNBOUND_PORTS_PER_QUERY: Final = 2


@dataclass(frozen=True)
class Machine:
    """What the files must agree with on the machine; the defaults are those of a fresh container."""

    hostname: str
    ipv4_forwarding: bool = False
    ipv6_forwarding: bool = False
    stub: bool = False  # systemd-resolved answers on port 53, or did before us


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key for DNS over TLS, PEM."""

    certificate: str
    key: str


def files(
    site: Site, node: Node, machine: Machine, certificate: Certificate | None = None, probe_key: str | None = None
) -> tuple[ManagedFile, ...]:
    """Every managed file of `node` but AdGuard Home's own (see `adguard`), in an order that is safe to write in.

    Without `probe_key` the node gets none, and its probe talks to no peer.

    Raises NodeError or ResolverError with one sentence for data that cannot be rendered.
    """
    resolver_unit = layout.resolver_unit(node.resolver)
    context = _context(site, node)
    frr = frr_conf(site, node, machine)
    made = [
        ManagedFile(
            "/etc/systemd/network/05-anycast0.network",
            filled("machine/anycast0.network.j2", context),
            effects=("networkd-reload",),
        ),
        ManagedFile(
            "/etc/systemd/networkd.conf.d/anycastlab.conf",
            filled("machine/networkd.conf.j2", context),
            restarts=(layout.NETWORKD_UNIT,),
        ),
        *(
            [
                ManagedFile(
                    layout.RESOLVED_CONFIG, filled("machine/resolved.conf.j2", context), effects=("resolved-restart",)
                )
            ]
            if machine.stub
            else []
        ),
        ManagedFile(layout.SYSCTL_CONFIG, filled("machine/sysctl.conf.j2", context), effects=("sysctl",)),
        ManagedFile(
            layout.LINK_SCRIPT,
            filled("machine/anycast0.sh.j2", context),
            mode=0o755,
            check=("sh", "-n", "{path}"),
            restarts=(layout.LINK_UNIT,),
        ),
        ManagedFile(
            f"/etc/systemd/system/{layout.LINK_UNIT}",
            filled("machine/anycast0.service.j2", context),
            restarts=(layout.LINK_UNIT,),
        ),
        ManagedFile(
            layout.FRR_DAEMONS,
            filled("designs/anycast/frr-daemons.j2", context),
            owner="frr",
            group="frr",
            mode=0o640,
            restarts=(layout.FRR_UNIT,),
        ),
        ManagedFile(
            layout.FRR_CONFIG,
            frr,
            owner="frr",
            group="frr",
            mode=0o640,
            secret=bool(site.bgp.password),
            check=("vtysh", "-C", "-f", "{path}"),
            effects=("frr-reload",),
        ),
        ManagedFile(
            layout.FRR_RELOAD,
            filled("designs/anycast/frr-reload.sh.j2", context),
            mode=0o755,
            check=("sh", "-n", "{path}"),
        ),
        ManagedFile(
            layout.FRR_DROP_IN, filled("designs/anycast/frr.service.conf.j2", context), restarts=(layout.FRR_UNIT,)
        ),
        *_resolver_files(site, node, context, resolver_unit, certificate),
        *_probe_files(site, node, resolver_unit, probe_key),
        ManagedFile(layout.DEPLOYED, deployed.to_json(site, node).encode()),
    ]
    return tuple(made)


def frr_conf(site: Site, node: Node, machine: Machine) -> bytes:
    """FRR's whole configuration."""
    return filled("designs/anycast/frr.conf.j2", {**_context(site, node), **_frr(site, node, machine)})


def adguard(site: Site, node: Node, password: str) -> adguard_yaml.Document:
    """The managed leaves of AdGuard Home's file, the administrator's password in plain."""
    asked = [upstreams.parse(upstream).adguard for upstream in site.resolver.upstreams]
    zones = _router_zones(site)
    forwarded = {
        zone.name: f"[/{zone.name}/]{' '.join(upstreams.parse(server).adguard for server in zone.servers)}"
        for zone in site.resolver.forward_zones
    }
    context = {
        **_context(site, node),
        "api_address": f"{node.address}:{layout.ADGUARD_API_PORT}",
        "user": USER,
        "password": password,
        "upstream_dns": [*asked, *(f"[/{zone}/]{site.resolver.router_dns}" for zone in zones), *forwarded.values()],
        # Where addresses of private networks are looked up; what it does not name goes to the router.
        "local_ptr_upstreams": [
            str(site.resolver.router_dns),
            *(line for zone, line in forwarded.items() if reverse.is_private(zone)),
        ],
        "bootstrap": [str(address) for address in site.resolver.bootstrap],
        "user_rules": [
            f"|{site.service.identity_name}^$dnsrewrite=NOERROR;TXT;{node.name}",
            # RouterOS's netwatch can ask for addresses only, and needs a name that no upstream is involved in.
            f"|{site.service.identity_name}^$dnsrewrite=NOERROR;A;{node.address}",
            # Discovery of encrypted resolvers (RFC 9462): the upstreams' own would lead clients past the home's.
            "||resolver.arpa^",
            *(f"||{name}^" for name in site.resolver.blocklist),
        ],
        # Several questions a second, day and night: they would wear out a card and drown a person's statistics.
        "ignored": [
            f"|{site.service.identity_name}^",
            *(f"||{zone}^" for zone in (site.probe_zone, site.wan_probe_zone)),
        ],
        "blocked_ttl_s": BLOCKED_TTL_S,
        "schema": lockfile.packaged().schema,
    }
    return adguard_yaml.parse(filled("resolvers/adguardhome/AdGuardHome.yaml.j2", context).decode())


def probe(site: Site, node: Node) -> probe_config.ProbeConfig:
    """The health probe's configuration on `node`."""
    service = [str(site.service.address), *([str(site.service.address6)] if site.service.address6 else [])]
    try:
        return probe_config.ProbeConfig(
            node=node.name,
            address=str(node.address),
            service_addresses=tuple(service),
            router_dns=str(site.resolver.router_dns),
            peers=tuple(
                probe_config.Peer(peer.name, str(peer.address)) for peer in site.nodes if peer.name != node.name
            ),
            frr=probe_config.Frr(asn=site.bgp.node_asn, neighbors=_neighbors(site, node)),
            link=layout.LINK,
            interface=node.interface,
            key_path=layout.PROBE_KEY,
            identity_name=site.service.identity_name,
            local_suffix=site.probe_zone,
            wan_suffix=site.wan_probe_zone,
            resolver_cgroup=f"{probe_units.SYSTEM_SLICE}/{layout.resolver_unit(node.resolver)}",
            drain_path=layout.DRAINED,
        )
    except probe_config.ConfigError as error:
        raise NodeError(f"The probe of {node.name} cannot be configured: {error}.") from None


def needs_certificate(site: Site, node: Node) -> bool:
    """Whether anything on the node speaks TLS: DNS over TLS where it is asked for, and AdGuard Home's web page."""
    return site.resolver.dot or node.resolver == "adguardhome"


def _web(site: Site) -> dict[str, Any]:
    """Who may reach AdGuard Home's web page; overlapping networks are one, for nftables takes no others."""
    return {"networks": list(collapse_addresses(site.router.lan_networks))}


def _resolver_files(
    site: Site, node: Node, context: dict[str, Any], unit: str, certificate: Certificate | None
) -> list[ManagedFile]:
    owner = layout.ADGUARD_USER if node.resolver == "adguardhome" else "unbound"
    made = []
    if node.resolver == "adguardhome":
        made.append(
            ManagedFile(
                "/etc/sysusers.d/anycastlab-adguardhome.conf",
                filled("resolvers/adguardhome/sysusers.conf.j2", context),
                effects=("sysusers",),
            )
        )
        made.append(
            ManagedFile(
                f"/etc/systemd/system/{unit}",
                filled("resolvers/adguardhome/adguardhome.service.j2", context),
                restarts=(unit,),
            )
        )
        web = layout.WEB_UNIT
        made.append(
            ManagedFile(
                layout.WEB_RULES,
                filled("resolvers/adguardhome/web.nft.j2", {**context, **_web(site)}),
                check=("/usr/sbin/nft", "-c", "-f", "{path}"),
                restarts=(web,),
            )
        )
        made.append(
            ManagedFile(
                f"/etc/systemd/system/{web}",
                filled("resolvers/adguardhome/web.service.j2", context),
                restarts=(web,),
            )
        )
    else:
        made.append(
            ManagedFile(
                f"/etc/systemd/system/{unit}.d/10-resolver.conf",
                filled("resolvers/unbound/unbound.service.conf.j2", context),
                restarts=(unit,),
            )
        )
    if site.resolver.dot and certificate is None:
        raise NodeError(
            f"{node.name} is to serve DNS over TLS but has no certificate.", "Deploy makes one; this is a bug."
        )
    if needs_certificate(site, node) and certificate is not None:
        made += _tls_files(node, certificate, owner, unit)
    if node.resolver == "unbound":
        made.append(
            ManagedFile(
                layout.UNBOUND_CONFIG,
                filled("resolvers/unbound/unbound.conf.j2", {**context, **_unbound(site)}),
                check=("unbound-checkconf", "{path}"),
                restarts=(unit,),
            )
        )
    return made


def _tls_files(node: Node, certificate: Certificate, owner: str, unit: str) -> list[ManagedFile]:
    """The certificate where people find it on every node, the key where the resolver may read it."""
    public, key = certificate.certificate.encode(), certificate.key.encode()
    where = layout.UNBOUND_TLS_KEY if node.resolver == "unbound" else layout.TLS_KEY
    made = [
        ManagedFile(layout.TLS_CERTIFICATE, public, group=owner, restarts=(unit,)),
        ManagedFile(where, key, group=owner, mode=0o640, secret=True, restarts=(unit,)),
    ]
    if node.resolver == "unbound":
        made.append(ManagedFile(layout.UNBOUND_TLS_CERTIFICATE, public, group=owner, restarts=(unit,)))
    return made


def _probe_files(site: Site, node: Node, resolver_unit: str, probe_key: str | None) -> list[ManagedFile]:
    config = probe(site, node)
    made = []
    for path, text in probe_units.units(config, resolver_unit).items():
        if path.startswith("/etc/sysusers.d/"):
            made.append(ManagedFile(path, text.encode(), effects=("sysusers",)))
        elif path.endswith(f"/{layout.PROBE_UNIT}"):
            made.append(ManagedFile(path, text.encode(), restarts=(layout.PROBE_UNIT,)))
        else:
            # The resolver's drop-in is read at its next stop; the escalation units are started by their path unit.
            made.append(ManagedFile(path, text.encode()))
    made.append(
        ManagedFile(layout.PROBE_PROGRAM, bundle.bundle("anycastlab.probe"), mode=0o755, restarts=(layout.PROBE_UNIT,))
    )
    if probe_key is not None:
        # Reread by the running probe: a new key costs nobody an answer.
        user = probe_units.USER
        made.append(ManagedFile(layout.PROBE_KEY, probe_key.encode(), owner=user, group=user, mode=0o400, secret=True))
    made.append(ManagedFile(layout.PROBE_CONFIG, probe_config.to_json(config).encode(), restarts=(layout.PROBE_UNIT,)))
    return made


def _context(site: Site, node: Node) -> dict[str, Any]:
    return {
        "node": node,
        "service": site.service,
        "bgp": site.bgp,
        "bfd": site.bfd,
        "resolver": site.resolver,
        "prefixes": layout.link_prefixes(site.service),
        "ways": list(zip(layout.link_prefixes(site.service), _neighbors(site, node), strict=True)),
        "family": lambda prefix: "-6" if ":" in prefix else "-4",
        "link": layout.LINK,
        "link_unit": layout.LINK_UNIT,
        "script": layout.LINK_SCRIPT,
        "interface": node.interface,
        "routing_table": layout.ROUTING_TABLE,
        "rule_priority": layout.RULE_PRIORITY,
        "program": layout.ADGUARD_PROGRAM,
        "config": layout.ADGUARD_CONFIG,
        "state": layout.ADGUARD_STATE,
        "state_name": layout.ADGUARD_STATE.removeprefix("/var/lib/"),
        "user": layout.ADGUARD_USER,
        "restart_s": timing.RESOLVER_RESTART_S,
        "tls_certificate": layout.UNBOUND_TLS_CERTIFICATE if node.resolver == "unbound" else layout.TLS_CERTIFICATE,
        "tls_key": layout.UNBOUND_TLS_KEY if node.resolver == "unbound" else layout.TLS_KEY,
        "frr_config": layout.FRR_CONFIG,
        "frr_daemons": layout.FRR_DAEMONS,
        "frr_reload": layout.FRR_RELOAD,
        "machines_own": frr_config.MACHINES_OWN,
        "api_port": layout.ADGUARD_API_PORT,
        "https_port": layout.ADGUARD_HTTPS_PORT,
        "web_rules": layout.WEB_RULES,
        "web_table": layout.WEB_TABLE,
        "web_unit": layout.WEB_UNIT,
        "resolver_unit": layout.resolver_unit(node.resolver),
    }


def _frr(site: Site, node: Node, machine: Machine) -> dict[str, Any]:
    return {
        "hostname": machine.hostname,
        "ipv4_forwarding": machine.ipv4_forwarding,
        "ipv6_forwarding": machine.ipv6_forwarding,
        "neighbors": _neighbors(site, node),
    }


def ways(site: Site, node: Node) -> tuple[str, ...]:
    """Gateway and interface of the routes by which replies from the service address leave."""
    return tuple(f"{gateway} {node.interface}" for gateway in _neighbors(site, node))


def _neighbors(site: Site, node: Node) -> tuple[str, ...]:
    """The router, once per family of the service address: a session that would announce nothing only raises alarms."""
    return (str(node.gateway), *((str(node.gateway6),) if site.service.address6 else ()))


def _unbound(site: Site) -> dict[str, Any]:
    servers, tls = upstreams.for_unbound("upstreams", site.resolver.upstreams)
    forwarded = [
        {"name": zone.name, "servers": asked, "tls": secure}
        for zone in site.resolver.forward_zones
        for asked, secure in [upstreams.for_unbound(f"servers of {zone.name}", zone.servers)]
    ]
    return {
        "upstreams": servers,
        "tls_upstream": tls,
        "forward_zones": forwarded,
        "any_tls": tls or any(zone["tls"] for zone in forwarded),
        "router_zones": _router_zones(site),
        "blocklist": site.resolver.blocklist,
        "blocked_ttl_s": BLOCKED_TTL_S,
        "outgoing_range": _UNBOUND_PORTS_PER_QUERY * site.resolver.max_concurrent,
        "msg_cache_bytes": site.resolver.cache_bytes // _MESSAGE_SHARE,
        "rrset_cache_bytes": site.resolver.cache_bytes * 2 // _MESSAGE_SHARE,
    }


def _router_zones(site: Site) -> tuple[str, ...]:
    return (*site.resolver.local_zones, *site.resolver.reverse_zones)
