"""Sites that several tests describe nodes of."""

from __future__ import annotations

from typing import Any

from anycastlab.site import Node, Resolver, Router, Site


def home(layout: str = "routed", nodes: int = 3, **changes: Any) -> Site:
    """Three nodes; node02 runs unbound. `changes` go to `Site`, `resolver_changes` to its resolver data."""
    net, gateway = ("10.1.2", "10.1.2.1") if layout == "routed" else ("10.1.1", "10.1.1.1")
    members = tuple(
        Node(
            name=f"node{number:02d}",
            host=f"@incus/node{number:02d}",
            platform="incus",
            address=f"{net}.{10 + number}",
            prefix_length=24,
            gateway=gateway,
            router_id=f"{net}.{10 + number}",
            resolver="unbound" if number == 2 else "adguardhome",
            **changes.pop(f"node{number:02d}", {}),
        )
        for number in range(1, nodes + 1)
    )
    resolver = {
        "upstreams": ("203.0.113.53",),
        "router_dns": gateway,
        "blocklist": ("ads.lab.example", "tracker.example"),
        **changes.pop("resolver", {}),
    }
    router = Router(
        host="@routeros/router",
        api_host="127.0.0.1",
        router_id="10.1.1.1",
        api_port=18728,
        lan_networks=("10.1.1.0/24", "10.1.2.0/24"),
        wan_interface="ether1",
    )
    return Site(layout=layout, lab="lab", resolver=Resolver(**resolver), nodes=members, router=router, **changes)
