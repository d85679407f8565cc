"""The parts of a home, each validated in itself; `model.Site` puts them together. Pure data.

Field names are those of the RFCs (4271 BGP, 5880 BFD) and of RouterOS where those have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from anycastlab.site.settings import reason_of
from anycastlab.site.types import (
    Architecture,
    Asn,
    DnsName,
    Fingerprint,
    HostName,
    LinuxInterface,
    Printable,
    PyinfraRouter,
    Reachable,
    RouterName,
    RouterUser,
    SessionKey,
    Subnet,
    Word,
)

Layout = Literal["routed", "flat"]
ResolverKind = Literal["adguardhome", "unbound"]
Platform = Literal["incus", "ssh"]


class Frozen(BaseModel):
    """Immutable; unknown keys are errors, so a misspelt setting is never silently ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Bfd(Frozen):
    """Bidirectional Forwarding Detection, RFC 5880; both ends get the same numbers."""

    interval_ms: int = Field(default=100, ge=10, le=5000, description="desired transmit and required receive interval")
    multiplier: int = Field(default=3, ge=2, le=100, description="missed packets until the neighbour is down")

    @property
    def detection_s(self) -> float:
        """Detection time in seconds: what a silently dead neighbour costs at most (RFC 5880, 6.8.4)."""
        return self.interval_ms * self.multiplier / 1000


class Bgp(Frozen):
    """One private AS for all nodes and one for the router, so ECMP needs no multipath-relax."""

    node_asn: Asn = 65053
    router_asn: Asn = 65000
    keepalive_s: int = Field(default=3, ge=1, le=21845)
    hold_s: int = Field(default=9, ge=3, le=65535, description="seconds; only the fallback where BFD is blind")
    connect_retry_s: int = Field(default=1, ge=1, le=65535)
    password: SessionKey | None = Field(default=None, description="TCP-MD5 key, RFC 2385; a secret", repr=False)


class Service(Frozen):
    """The anycast address the household asks."""

    address: IPv4Address = IPv4Address("10.1.9.53")
    address6: IPv6Address | None = None
    identity_name: DnsName = Field(default="id.anycast.lan", description="TXT name that tells which node answered")

    @property
    def prefix(self) -> IPv4Network:
        return IPv4Network(f"{self.address}/32")

    @property
    def prefix6(self) -> IPv6Network | None:
        return IPv6Network(f"{self.address6}/128") if self.address6 else None


class Node(Frozen):
    """One machine that runs a resolver and FRR and announces the service address."""

    name: HostName
    host: Printable = Field(description="pyinfra's name of it, such as '@incus/node01'")
    platform: Platform
    address: IPv4Address
    prefix_length: int = Field(ge=8, le=30)
    gateway: IPv4Address = Field(description="the router's address in this node's subnet; its BGP neighbour")
    address6: IPv6Address | None = None
    gateway6: IPv6Address | None = None
    router_id: IPv4Address
    resolver: ResolverKind = "adguardhome"
    architecture: Architecture | None = Field(
        default=None, description="expected machine (x86_64, aarch64 …); None: the host's"
    )
    interface: LinuxInterface = Field(default="eth0", description="interface towards the router")

    @property
    def network(self) -> IPv4Network:
        return IPv4Network(f"{self.address}/{self.prefix_length}", strict=False)


class ForwardZone(Frozen):
    """A zone that other servers know, such as a company's behind a VPN."""

    name: DnsName
    servers: tuple[Word, ...] = Field(min_length=1, description="written like upstreams")


def _zones(given: Any) -> Any:
    """`{"corp.example": ["10.8.0.1"]}`, as a person writes it, in the model's form; one server needs no list."""
    if isinstance(given, Mapping):
        given = [
            {"name": str(zone).removesuffix("."), "servers": [named] if isinstance(named, str) else named}
            for zone, named in given.items()
        ]
    if not isinstance(given, (list, tuple)) or not all(isinstance(zone, (Mapping, ForwardZone)) for zone in given):
        raise ValueError('write it as {"corp.example": ["10.8.0.1"]}, a zone and the servers that know it')
    return tuple(_zone(zone) for zone in given)


def _zone(given: Any) -> ForwardZone:
    try:
        return ForwardZone.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        what = "its name" if first["loc"][:1] == ("name",) else "its servers"
        name = given.get("name")
        raise ValueError(f"{name!r}: {what} cannot be used: {reason_of(first)}") from None


class Resolver(Frozen):
    """What both resolvers are made from; the same behaviour from outside (see `anycastlab.node`)."""

    upstreams: tuple[Word, ...] = Field(min_length=1, description="plain addresses, or tls://, https:// where it can")
    bootstrap: tuple[IPv4Address | IPv6Address, ...] = ()
    local_zones: tuple[DnsName, ...] = Field(default=("lan",), description="zones the router knows, no final dot")
    reverse_zones: tuple[DnsName, ...] = ("10.in-addr.arpa", "168.192.in-addr.arpa", "16.172.in-addr.arpa")
    router_dns: IPv4Address = Field(description="where local and reverse zones are asked")
    forward_zones: Annotated[tuple[ForwardZone, ...], BeforeValidator(_zones)] = Field(
        default=(), description="zones that neither the router nor the upstreams know, each with its own servers"
    )
    blocklist: tuple[DnsName, ...] = Field(default=(), description="names that get no address, subdomains included")
    wan_probe_suffix: DnsName = Field(default="example.com", description="where the probes ask whether the WAN works")
    upstream_timeout_ms: int = Field(default=2000, ge=100, le=10000)
    max_concurrent: int = Field(default=2000, ge=100, le=100000, description="queries in flight; 300 starve .lan")
    cache_bytes: int = Field(default=16 * 1024 * 1024, ge=65536)
    serve_stale: bool = Field(default=True, description="expired answers while the upstream is silent, RFC 8767")
    stale_ttl_s: int = Field(default=30, ge=1, description="TTL on a stale answer, RFC 8767")
    stale_max_age_s: int = Field(default=12 * 3600, ge=60)
    dot: bool = Field(default=False, description="DNS over TLS on 853 with a generated certificate")


class Router(Frozen):
    """The RouterOS device (or the lab's stand-in) as its API is reached."""

    name: HostName = "router"
    host: PyinfraRouter = Field(description="pyinfra's name of it, such as '@routeros/192.0.2.1'")
    api_host: Reachable
    api_port: int = Field(ge=1, le=65535)
    tls: bool = True
    tls_fingerprint: Fingerprint | None = Field(default=None, description="sha256 of a self-signed certificate, hex")
    user: RouterUser = "anycastlab"
    credentials: Printable | None = Field(default=None, description="entry of the credentials file; None: api_host")
    bgp_instance: RouterName | None = Field(
        default=None, description="an existing instance to join; None: one of our own"
    )
    router_id: IPv4Address
    lan_networks: tuple[Subnet, ...] = Field(min_length=1, description="connected subnets whose hosts may ask")
    wan_interface: RouterName = Field(description="interface towards the provider; DNS from there is refused")
    dhcp_network: Subnet | None = Field(default=None, description="DHCP network to hand out the service address")
