"""The whole of one home, validated once: every number that nodes, router, probe and checks are made from.

Pure data. `load.py` builds it from a pyinfra inventory; everything else receives a `Site` and trusts it.
Field names are those of the RFCs (4271 BGP, 5880 BFD) and of RouterOS where those have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from anycastlab.site import addressing, circles
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

_RESERVED_ASNS = frozenset({23456, 65535})  # RFC 6793, RFC 7300


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


class Site(Frozen):
    """Everything. `Site` that exists is a `Site` without contradictions."""

    lab: str | None = Field(default=None, description="name of the embedded lab; None for a real home")
    layout: Layout = "routed"
    service: Service = Service()
    bgp: Bgp = Bgp()
    bfd: Bfd = Bfd()
    resolver: Resolver
    nodes: tuple[Node, ...] = Field(min_length=1, max_length=64)
    router: Router

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._unique("name", [node.name for node in self.nodes])
        self._unique("address", [str(node.address) for node in self.nodes])
        self._unique("router-id", [str(n.router_id) for n in self.nodes] + [str(self.router.router_id)])
        if self.bgp.node_asn == self.bgp.router_asn:
            raise ValueError(f"node_asn and router_asn are both {self.bgp.node_asn}; eBGP needs two")
        if self.bgp.hold_s < 3 * self.bgp.keepalive_s:
            raise ValueError(f"bgp_hold_s is {self.bgp.hold_s}, less than three keepalives of {self.bgp.keepalive_s} s")
        if reserved := _RESERVED_ASNS & {self.bgp.node_asn, self.bgp.router_asn}:
            raise ValueError(f"AS number {min(reserved)} is reserved; choose another, such as one of 64512 to 65534")
        self._ordinary_service()
        for zone in self.resolver.local_zones:
            if f".{self.resolver.wan_probe_suffix}".endswith(f".{zone}"):
                raise ValueError(
                    f"wan_probe_suffix {self.resolver.wan_probe_suffix} lies in the local zone {zone}, "
                    "which the router answers; choose a name of the internet"
                )
        for network in {*(n.network for n in self.nodes), *self.router.lan_networks}:
            if self.service.address in network:
                raise ValueError(
                    f"service_address {self.service.address} lies inside the connected subnet {network}; "
                    "clients there would ARP for it; choose one outside every subnet"
                )
        for node in self.nodes:
            if node.router_id == self.service.address or node.address == self.service.address:
                raise ValueError(f"{node.name} uses the service address {self.service.address} as its own")
            if node.gateway not in node.network:
                raise ValueError(f"{node.name}: gateway {node.gateway} lies outside its subnet {node.network}")
            if node.address == node.gateway:
                raise ValueError(f"{node.name}: address and gateway are both {node.address}")
        if self.service.address6:
            self._twin(self.service.address6)
        self._resolvable()
        for sentence in addressing.contradictions(self):
            raise ValueError(sentence)
        return self

    def _resolvable(self) -> None:
        """The resolvers do not ask themselves, and do not block what probes, router and household need."""
        resolver = self.resolver
        if not resolver.local_zones:
            raise ValueError(
                "local_zones is empty; the probes ask the router for names in the first of them, "
                "so name at least one, such as lan"
            )
        services = [address for address in (self.service.address, self.service.address6) if address]
        nodes = {address: node.name for node in self.nodes for address in (node.address, node.address6) if address}
        asked = {
            "upstreams": resolver.upstreams,
            "bootstrap": [str(address) for address in resolver.bootstrap],
            "router_dns": [str(resolver.router_dns)],
            "forward_zones": [server for zone in resolver.forward_zones for server in zone.servers],
        }
        forwarded = [zone.name for zone in resolver.forward_zones]
        self._unique("forward zone", forwarded)
        needed = {
            self.service.identity_name: "by which the nodes say who they are",
            self.probe_zone: "the names by which the probes test the way to the router",
            self.wan_probe_zone: "the names by which the probes test the WAN",
        }
        routers = {
            **dict.fromkeys(resolver.local_zones, "a local zone"),
            **dict.fromkeys(resolver.reverse_zones, "a reverse zone"),
        }
        for sentence in (
            *circles.leading_back(asked, services, nodes),
            *circles.blocked(resolver.blocklist, {**needed, **routers, **dict.fromkeys(forwarded, "a forward zone")}),
            *circles.led_away(forwarded, needed, routers),
        ):
            raise ValueError(sentence)

    def _twin(self, service: IPv6Address) -> None:
        """What the IPv6 service address needs. Interfaces have /64 there (RFC 4291, 2.5.1)."""
        if not all(n.address6 and n.gateway6 for n in self.nodes):
            raise ValueError("service_address6 is set, so every node needs address6 and gateway6")
        self._unique("address6", [str(node.address6) for node in self.nodes])
        for node in self.nodes:
            network = IPv6Network(f"{node.address6}/64", strict=False)
            if service in network:
                raise ValueError(
                    f"service_address6 {service} lies inside the connected subnet {network} of {node.name}; "
                    "neighbours would look for it there; choose one outside every subnet"
                )
            if node.gateway6 not in network or node.gateway6 == node.address6:
                raise ValueError(
                    f"{node.name}: gateway6 {node.gateway6} must be the router's address in {network}, the node's own"
                )

    def _ordinary_service(self) -> None:
        for address in (self.service.address, self.service.address6):
            if address and (
                address.is_multicast
                or address.is_loopback
                or address.is_unspecified
                or address.is_link_local
                or (address.version == 4 and address.is_reserved)
            ):
                raise ValueError(f"service address {address} is no ordinary address of one machine")

    @staticmethod
    def _unique(what: str, values: list[str]) -> None:
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"{what} {value} is used {values.count(value)} times; each must be unique")

    @property
    def probe_zone(self) -> str:
        """Zone of the random names that the probes ask: the router says that none of them exists."""
        return f"probe.anycast.{self.resolver.local_zones[0]}"

    @property
    def wan_probe_zone(self) -> str:
        """Zone of the random names by which the probes see whether the provider's side answers."""
        return f"probe.anycast.{self.resolver.wan_probe_suffix}"

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)
