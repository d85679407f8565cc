"""From a pyinfra inventory and its data to a validated `Site`; bad data becomes one sentence, before any operation.

The settings a person edits are flat pyinfra variables (`group_data/`), so `--data resolver=unbound` and per-host values
work as everywhere in pyinfra. Here they are gathered, checked as a whole, and given their structure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Protocol

from pydantic import ValidationError

from anycastlab.command_trees.schema import Schema
from anycastlab.site import topology, upstreams
from anycastlab.site.model import Site
from anycastlab.site.settings import NOTHING_CHANGED, SiteError, as_json, complaint, require_types

API_TLS_PORT = 8729  # RouterOS service api-ssl
API_PLAIN_PORT = 8728  # RouterOS service api

# flat pyinfra variable -> where it lives in the model
SITE_SETTINGS: dict[str, tuple[str, ...]] = {
    "layout": ("layout",),
    "service_address": ("service", "address"),
    "service_address6": ("service", "address6"),
    "identity_name": ("service", "identity_name"),
    "node_asn": ("bgp", "node_asn"),
    "router_asn": ("bgp", "router_asn"),
    "bgp_keepalive_s": ("bgp", "keepalive_s"),
    "bgp_hold_s": ("bgp", "hold_s"),
    "bgp_connect_retry_s": ("bgp", "connect_retry_s"),
    "bgp_password": ("bgp", "password"),
    "bfd_interval_ms": ("bfd", "interval_ms"),
    "bfd_multiplier": ("bfd", "multiplier"),
    "upstreams": ("resolver", "upstreams"),
    "bootstrap": ("resolver", "bootstrap"),
    "local_zones": ("resolver", "local_zones"),
    "reverse_zones": ("resolver", "reverse_zones"),
    "router_dns": ("resolver", "router_dns"),
    "forward_zones": ("resolver", "forward_zones"),
    "blocklist": ("resolver", "blocklist"),
    "wan_probe_suffix": ("resolver", "wan_probe_suffix"),
    "upstream_timeout_ms": ("resolver", "upstream_timeout_ms"),
    "max_concurrent": ("resolver", "max_concurrent"),
    "cache_bytes": ("resolver", "cache_bytes"),
    "serve_stale": ("resolver", "serve_stale"),
    "stale_ttl_s": ("resolver", "stale_ttl_s"),
    "stale_max_age_s": ("resolver", "stale_max_age_s"),
    "dot": ("resolver", "dot"),
}
ROUTER_SETTINGS: dict[str, str] = {
    "router_api_host": "api_host",
    "router_api_port": "api_port",
    "router_tls": "tls",
    "router_tls_fingerprint": "tls_fingerprint",
    "router_user": "user",
    "router_credentials": "credentials",
    "router_bgp_instance": "bgp_instance",
    "router_id": "router_id",
    "lan_networks": "lan_networks",
    "wan_interface": "wan_interface",
    "dhcp_network": "dhcp_network",
}
NODE_SETTINGS: dict[str, str] = {
    "node_name": "name",
    "address": "address",
    "prefix_length": "prefix_length",
    "gateway": "gateway",
    "address6": "address6",
    "gateway6": "gateway6",
    "router_id": "router_id",
    "resolver": "resolver",
    "architecture": "architecture",
    "interface": "interface",
}
KNOWN_KEYS = frozenset(SITE_SETTINGS) | frozenset(ROUTER_SETTINGS) | frozenset(NODE_SETTINGS)


class HostLike(Protocol):
    """What is used of `pyinfra.api.Host`."""

    name: str

    @property
    def data(self) -> Any: ...


@dataclass(frozen=True)
class Machines:
    """The inventory's hosts by their part: the only view of an inventory that the rest of the code has."""

    nodes: tuple[tuple[str, Mapping[str, Any]], ...]
    router: tuple[tuple[str, Mapping[str, Any]], ...]
    extra: tuple[tuple[str, Mapping[str, Any]], ...] = field(default=())


def machines_of(inventory: Any) -> Machines:
    """The hosts of a pyinfra inventory by their part."""

    def members(group: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        hosts: Sequence[HostLike] = inventory.get_group(group, [])
        return tuple((host.name, host.data.dict()) for host in hosts)

    known = {name for group in ("nodes", "router") for name, _ in members(group)}
    extra = tuple((host.name, host.data.dict()) for host in inventory if host.name not in known)
    return Machines(members("nodes"), members("router"), extra)


def require_known_settings(inventory: Any) -> None:
    """Every setting of every host exists and has its type; raises SiteError. For before connectors are made of them."""
    for host in inventory:
        require_types(host.name, host.data.dict(), KNOWN_KEYS)


def build(machines: Machines, secrets: Mapping[str, str] | None = None) -> Site:
    """The `Site` of these machines; `secrets` are settings that no inventory should hold. Pure.

    Raises SiteError with one sentence for the first thing that is wrong.
    """
    if not machines.nodes:
        raise SiteError(
            "The inventory has no host in the group 'nodes'.", "Add at least one node to the inventory file."
        )
    if len(machines.router) != 1:
        raise SiteError(
            f"The inventory has {len(machines.router)} hosts in the group 'router'; exactly one is needed.",
            "Name it like '@routeros/192.0.2.1'.",
        )
    for name, data in (*machines.nodes, *machines.router, *machines.extra):
        require_types(name, data, KNOWN_KEYS)
    router_name, router_data = machines.router[0]
    router_data = {**router_data, **(secrets or {})}
    shared: dict[str, Any] = {}
    for key, path in SITE_SETTINGS.items():
        if router_data.get(key) is not None:
            _put(shared, path, _plain(router_name, key, router_data[key]))
    lab = router_data.get("lab")
    shared["lab"] = lab
    layout = router_data.get("layout", "routed")
    if lab is not None:
        # Nodes ask the router at its address in their own subnet, which in the lab is the layout's.
        shared.setdefault("resolver", {}).setdefault("router_dns", str(_lab_subnet(layout)[1]))
    router = {
        field: _plain(router_name, key, router_data[key])
        for key, field in ROUTER_SETTINGS.items()
        if router_data.get(key) is not None
    }
    router["host"] = router_name
    router.setdefault("api_host", router_name.rpartition("/")[2])
    router.setdefault("api_port", API_TLS_PORT if router_data.get("router_tls", True) else API_PLAIN_PORT)
    shared["router"] = router
    twin = router_data.get("service_address6") is not None
    members = [_node(name, data, lab, layout, twin) for name, data in machines.nodes]
    shared["nodes"] = sorted(members, key=lambda node: str(node["name"]))
    _refuse_unknown_version(router_data.get("router_version"))
    hosts = [name for name, _ in (*machines.nodes, *machines.extra)]
    _refuse_unknown_rebuild(router_data.get("rebuild"), hosts, members)
    try:
        # As JSON, and strictly: True is no number then, and 10 no address.
        site = Site.model_validate_json(json.dumps(shared), strict=True)
    except ValidationError as error:
        raise SiteError(_sentence(error, shared), NOTHING_CHANGED) from None
    _refuse_servers(site)
    return site


def _refuse_servers(site: Site) -> None:
    """Servers that the nodes' resolvers cannot ask."""
    asked = [("upstreams", site.resolver.upstreams)]
    asked += [(f"servers of {zone.name}", zone.servers) for zone in site.resolver.forward_zones]
    try:
        upstreams.require_usable(asked, {node.resolver for node in site.nodes}, bool(site.resolver.bootstrap))
    except upstreams.UpstreamError as error:
        raise SiteError(error.problem, f"{error.hint} Nothing was changed.") from None


def router_version(value: str | float) -> str:
    """What `--data router_version=7.20` means: pyinfra reads a number, 7.2, but minors have two digits since 7.10."""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _refuse_unknown_version(version: str | float | None) -> None:
    """The RouterOS version that the lab's stand-in shall answer like."""
    if version is None:
        return
    try:
        Schema.load(router_version(version))
    except ValueError as error:
        raise SiteError(f"The setting 'router_version' is {version!r}: {error}.", "Nothing was changed.") from None


def _refuse_unknown_rebuild(rebuild: object, hosts: Iterable[str], nodes: Sequence[Mapping[str, Any]]) -> None:
    """A misspelt name would rebuild nothing, and look like success."""
    known = {host.rpartition("/")[2].rpartition(":")[2] for host in hosts} | {str(node["name"]) for node in nodes}
    for name in str(rebuild or "all").split(","):
        if name not in known | {"all"}:
            raise SiteError(
                f"rebuild names {name!r}, which the inventory does not have.", f"It has {', '.join(sorted(known))}."
            )


def _node(host: str, data: Mapping[str, Any], lab: str | None, layout: str, twin: bool) -> dict[str, Any]:
    node: dict[str, Any] = {
        field: _plain(host, key, data[key]) for key, field in NODE_SETTINGS.items() if data.get(key) is not None
    }
    # A shared `router_id` is the router's; a node's own stands in its host data only.
    node.pop("router_id", None)
    if data.get("node_router_id") is not None:
        node["router_id"] = _plain(host, "node_router_id", data["node_router_id"])
    node["host"] = host
    node.setdefault("name", host.rpartition("/")[2].rpartition(":")[2])
    node["platform"] = "incus" if host.startswith("@incus/") else "ssh"
    if lab is not None and data.get("number") is not None:
        network, gateway = _lab_subnet(layout)
        node.setdefault("address", str(network[topology.FIRST_NODE - 1 + data["number"]]))
        node.setdefault("gateway", str(gateway))
        node.setdefault("prefix_length", network.prefixlen)
        if twin:
            network6, gateway6 = _lab_subnet6(layout)
            node.setdefault("address6", str(topology.twin_address(network6, topology.FIRST_NODE - 1 + data["number"])))
            node.setdefault("gateway6", str(gateway6))
    if "address" in node:
        node.setdefault("router_id", node["address"])
    return node


def _lab_subnet(layout: str) -> tuple[IPv4Network, IPv4Address]:
    """The nodes' subnet in the embedded lab, and the router's address there."""
    return (topology.LAN, topology.ROUTER_LAN) if layout == "flat" else (topology.DNS, topology.ROUTER_DNS)


def _lab_subnet6(layout: str) -> tuple[IPv6Network, IPv6Address]:
    return (topology.LAN6, topology.ROUTER_LAN6) if layout == "flat" else (topology.DNS6, topology.ROUTER_DNS6)


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        target = target.setdefault(part, {})
    target[path[-1]] = value


def _plain(host: str, key: str, value: Any) -> Any:
    """A setting as JSON has it: an address object is its text, a tuple a list."""
    return json.loads(as_json(host, key, value))


_KEY_OF_PATH: dict[tuple[str, ...], str] = {path: key for key, path in SITE_SETTINGS.items()}
_KEY_OF_ROUTER = {field: key for key, field in ROUTER_SETTINGS.items()}
_KEY_OF_NODE = {field: key for key, field in NODE_SETTINGS.items()}


def _sentence(error: ValidationError, given: Mapping[str, Any]) -> str:
    """One sentence for the first complaint, naming the variable a person wrote rather than the model's field."""
    first = error.errors()[0]
    path = tuple(first["loc"])
    where = ""
    if not path:
        reason = first["msg"].removeprefix("Value error, ")
        return f"The settings contradict each other: {reason}."
    if path[0] == "nodes" and len(path) > 1 and isinstance(path[1], int):
        node = given["nodes"][path[1]]
        # The name itself may be what is wrong.
        good = re.fullmatch(r"[\w.-]{1,63}", str(node["name"]))
        where = f" of {node['name'] if good else node['host']}"
        key = _KEY_OF_NODE.get(str(path[2]), str(path[2])) if len(path) > 2 else "nodes"
    elif path[0] == "router" and len(path) > 1:
        key, where = _KEY_OF_ROUTER.get(str(path[1]), str(path[1])), " of the router"
    else:
        key = _KEY_OF_PATH.get(tuple(str(p) for p in path[:2]), ".".join(str(p) for p in path))
    return complaint(key, where, first)
