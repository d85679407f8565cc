"""The instances of the embedded lab: interfaces, limits, what is in them before their first boot. Pure."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Final

from anycastlab.incus.spec import InstanceSpec, Lab, Nic
from anycastlab.site import Node, topology

ROUTER, UPSTREAM = "router", "upstream"
_API_PORT: Final = 8728  # in the router; Incus' proxy device leads there from 127.0.0.1

# Memory in MiB. Measured resident sizes (router 90, upstream 60, client 30) with room for systemd and a burst.
_ROUTER_MIB, _UPSTREAM_MIB, _CLIENT_MIB = 512, 384, 384

# Names the kernel gives the router's interfaces; the stand-in shows them as ether1 to ether3.
WAN, LAN, DNS = "wan", "lan", "dns"


def node_spec(lab: Lab, node: Node, cpus: int, memory_mib: int) -> InstanceSpec:
    """A node: one interface, in the subnet that the layout gives it."""
    bridge = LAN if node.network == topology.LAN else DNS
    nic = Nic(node.interface, lab.bridge(bridge), node.address, node.prefix_length, node.gateway)
    return InstanceSpec(node.name, (nic,), cpus=cpus, memory_mib=memory_mib)


def router_spec(lab: Lab) -> InstanceSpec:
    """The machine of the stand-in: a leg in each network, its API reachable from this host alone."""
    return InstanceSpec(
        ROUTER,
        (
            _nic(lab, WAN, topology.ROUTER_WAN, topology.WAN, gateway=topology.UPSTREAM_WAN),
            _nic(lab, LAN, topology.ROUTER_LAN, topology.LAN),
            _nic(lab, DNS, topology.ROUTER_DNS, topology.DNS),
        ),
        cpus=1,
        memory_mib=_ROUTER_MIB,
        proxies=(("api", f"tcp:127.0.0.1:{lab.api_port}", f"tcp:127.0.0.1:{_API_PORT}"),),
    )


def upstream_spec(lab: Lab) -> InstanceSpec:
    """The internet: one address on the WAN side, and no route to anywhere else."""
    nic = Nic("eth0", lab.bridge(WAN), topology.UPSTREAM_WAN, topology.WAN.prefixlen)
    return InstanceSpec(UPSTREAM, (nic,), memory_mib=_UPSTREAM_MIB)


def client_spec(lab: Lab, name: str, number: int, service: IPv4Address) -> InstanceSpec:
    """A device of the household: it asks the service address and knows the router as its way out."""
    address = topology.LAN[topology.FIRST_CLIENT - 1 + number]
    nic = Nic("eth0", lab.bridge(LAN), address, topology.LAN.prefixlen, topology.ROUTER_LAN)
    resolv_conf = f"nameserver {service}\n".encode()
    return InstanceSpec(name, (nic,), memory_mib=_CLIENT_MIB, files=(("/etc/resolv.conf", resolv_conf, 0o644),))


def _nic(lab: Lab, role: str, address: IPv4Address, network: IPv4Network, gateway: IPv4Address | None = None) -> Nic:
    return Nic(role, lab.bridge(role), address, network.prefixlen, gateway)
