"""Addresses of a home that cannot all be right. Pure; each finding is a sentence without its full stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from anycastlab.site.parts import Bfd, Node, Router, Service

# Milliseconds. Below it, daemons on an ordinary machine are late by more than the neighbour waits, and a session that
# is well goes up and down: 2 x 50 held in every measurement, 2 x 10 never came up.
BFD_DETECTION_LEAST_MS = 100


def contradictions(nodes: Sequence[Node], router: Router, service: Service, bfd: Bfd) -> Iterator[str]:
    """What is wrong between nodes, router and service; empty when all can be."""
    yield from _nodes(nodes)
    yield from _neighbourhood(nodes)
    yield from _router(nodes, router, service)
    if bfd.interval_ms * bfd.multiplier < BFD_DETECTION_LEAST_MS:
        yield (
            f"BFD of {bfd.multiplier} x {bfd.interval_ms} ms calls a neighbour dead after "
            f"{bfd.interval_ms * bfd.multiplier} ms of silence; below {BFD_DETECTION_LEAST_MS} ms sessions that are "
            "well go down: raise bfd_interval_ms or bfd_multiplier"
        )


def _nodes(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        for what, address in (("address", node.address), ("gateway", node.gateway)):
            if address in (node.network.network_address, node.network.broadcast_address):
                kind = "network" if address == node.network.network_address else "broadcast"
                yield f"{node.name}: {what} {address} is the {kind} address of its subnet {node.network}"
            if address.is_multicast or address.is_loopback or address.is_unspecified or address.is_reserved:
                yield f"{node.name}: {what} {address} is no ordinary address of one machine"
        if (node.address6 is None) != (node.gateway6 is None):
            there, missing = ("address6", "gateway6") if node.address6 else ("gateway6", "address6")
            yield f"{node.name} has {there} and no {missing}; a node has both, or neither"
        if node.router_id.is_unspecified:
            yield f"{node.name}: 0.0.0.0 is no router-id (RFC 6286)"


def _neighbourhood(nodes: Sequence[Node]) -> Iterator[str]:
    for one, other in combinations(nodes, 2):
        for node, second in ((one, other), (other, one)):
            if node.address == second.gateway:
                yield f"{node.name} has the address {node.address}, which is the gateway of {second.name}"
        if one.network != other.network and one.network.overlaps(other.network):
            yield (
                f"{one.name} is in {one.network} and {other.name} in {other.network}; "
                "machines of one subnet need one prefix_length"
            )


def _router(nodes: Sequence[Node], router: Router, service: Service) -> Iterator[str]:
    if router.router_id == service.address:
        yield f"router_id of the router is the service address {service.address}"
    if router.router_id.is_unspecified:
        yield "router_id of the router is 0.0.0.0, which is no router-id (RFC 6286)"
    for node in nodes:
        if not any(node.address in network for network in router.lan_networks):
            networks = ", ".join(map(str, router.lan_networks))
            yield (
                f"lan_networks ({networks}) leaves out the subnet of {node.name} ({node.address}); "
                "it lists every connected subnet whose machines may ask"
            )
