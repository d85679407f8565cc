"""A home's rows, as a snapshot of the store: what the renderers are tested with."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_interface

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router.dataplane.api import Row
from anycastlab.virtual_router.dataplane.interfaces import Interface, Interfaces

Rows = dict[str, Sequence[Row]]

INTERFACES = Interfaces.of(
    (
        Interface("ether1-wan", "wan", (ip_interface("203.0.113.2/24"),)),
        Interface("ether2-lan", "lan", (ip_interface("10.1.1.1/24"),)),
        Interface("ether3-dns", "dns", (ip_interface("10.1.2.1/24"), ip_interface("fd01::1/64"))),
    )
)


def numbered(*rows: dict[str, str]) -> list[Row]:
    return [{".id": f"*{number:X}", "disabled": "false", **row} for number, row in enumerate(rows, 1)]


def home(version: str = "7.22.3", **connection: str) -> Rows:
    """Two nodes, filters both ways, BFD; written as `version` writes it. `connection` goes into each connection."""
    cliff = Version.parse(version)
    own = {
        "local.role": "ebgp",
        "remote.as": "65053",
        "hold-time": "9s",
        "keepalive-time": "3s",
        "use-bfd": "true",
        "input.filter": "anycast-in",
        "output.filter-chain": "anycast-out",
        "afi" if cliff >= Version(7, 19) else "address-families": "ip",
    }
    rows: Rows = {
        "/routing/filter/rule": numbered(
            {"chain": "anycast-in", "rule": "if (dst == 10.1.9.53/32) { accept } else { reject }"},
            {"chain": "anycast-out", "rule": "reject;"},
        ),
        "/routing/bfd/configuration": numbered(
            {"addresses": "10.1.2.11/32,10.1.2.12/32", "min-rx": "100ms", "min-tx": "100ms", "multiplier": "3"}
        ),
        "/ip/route": numbered({"dst-address": "0.0.0.0/0", "gateway": "203.0.113.53", "distance": "1"}),
        "/ip/settings": [{"ip-forward": "true", "ipv4-multipath-hash-policy": "l4"}],
    }
    if cliff >= Version(7, 20):
        instance = {"name": "anycast", "as": "65000", "router-id": "10.1.2.1"}
        if cliff >= Version(7, 22):
            instance["multipath"] = "8"
        rows["/routing/bgp/instance"] = numbered(instance)
        own["instance"] = "anycast"
    else:
        own |= {"as": "65000", "router-id": "10.1.2.1"}
    rows["/routing/bgp/connection"] = numbered(
        *({"name": f"node0{n}", "remote.address": f"10.1.2.1{n}/32", **own, **connection} for n in (1, 2))
    )
    return rows
