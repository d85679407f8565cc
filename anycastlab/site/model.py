"""The whole of one home, validated once: every number that nodes, router, probe and checks are made from.

Pure data. `load.py` builds it from a pyinfra inventory; everything else receives a `Site` and trusts it.
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
from typing import Self

from pydantic import Field, model_validator

from anycastlab.site import addressing, circles
from anycastlab.site.parts import Bfd, Bgp, Frozen, Layout, Node, Resolver, Router, Service

_RESERVED_ASNS = frozenset({23456, 65535})  # RFC 6793, RFC 7300


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
        for sentence in addressing.contradictions(self.nodes, self.router, self.service, self.bfd):
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
