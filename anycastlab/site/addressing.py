"""Addresses of a home that cannot all be right. Pure; each finding is a sentence without its full stop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anycastlab.site.model import Site

# Milliseconds. Below it, daemons on an ordinary machine are late by more than the neighbour waits, and a session that
# is well goes up and down: 2 x 50 held in every measurement, 2 x 10 never came up.
BFD_DETECTION_LEAST_MS = 100


def contradictions(site: Site) -> Iterator[str]:
    """What is wrong between nodes, router and service; empty when all can be."""
    yield from _nodes(site)
    yield from _neighbourhood(site)
    yield from _router(site)
    bfd = site.bfd
    if bfd.interval_ms * bfd.multiplier < BFD_DETECTION_LEAST_MS:
        yield (
            f"BFD of {bfd.multiplier} x {bfd.interval_ms} ms calls a neighbour dead after "
            f"{bfd.interval_ms * bfd.multiplier} ms of silence; below {BFD_DETECTION_LEAST_MS} ms sessions that are "
            "well go down: raise bfd_interval_ms or bfd_multiplier"
        )


def _nodes(site: Site) -> Iterator[str]:
    for node in site.nodes:
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


def _neighbourhood(site: Site) -> Iterator[str]:
    for one, other in combinations(site.nodes, 2):
        for node, second in ((one, other), (other, one)):
            if node.address == second.gateway:
                yield f"{node.name} has the address {node.address}, which is the gateway of {second.name}"
        if one.network != other.network and one.network.overlaps(other.network):
            yield (
                f"{one.name} is in {one.network} and {other.name} in {other.network}; "
                "machines of one subnet need one prefix_length"
            )


def _router(site: Site) -> Iterator[str]:
    if site.router.router_id == site.service.address:
        yield f"router_id of the router is the service address {site.service.address}"
    if site.router.router_id.is_unspecified:
        yield "router_id of the router is 0.0.0.0, which is no router-id (RFC 6286)"
    for node in site.nodes:
        if not any(node.address in network for network in site.router.lan_networks):
            networks = ", ".join(map(str, site.router.lan_networks))
            yield (
                f"lan_networks ({networks}) leaves out the subnet of {node.name} ({node.address}); "
                "it lists every connected subnet whose machines may ask"
            )
