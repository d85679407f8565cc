"""With which settings nodes and router were deployed: written on them, and compared with what the files say now. Pure.

`--data` holds for one run. What looks at a home later must look for what was deployed, and say where the files differ.
The record holds settings by the names a person writes, never a secret.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from anycastlab.outside_text import one_line
from anycastlab.site.load import NODE_SETTINGS, ROUTER_SETTINGS, SITE_SETTINGS, Machines
from anycastlab.site.model import Site
from anycastlab.site.parts import Node
from anycastlab.site.settings import SECRETS
from anycastlab.stored import Damaged, parse_json

MOST_BYTES = 1 << 20  # of a record that is read back; a blocklist of some ten thousand names fits
_SHOWN = 60  # characters of a value that a sentence shows
# What an embedded lab makes of other settings.
_FOLLOWS = {
    "layout": frozenset({"address", "prefix_length", "gateway", "address6", "gateway6", "router_dns"}),
    "service_address6": frozenset({"address6", "gateway6"}),
}
# Of a home's settings, those that the router's rows are made from.
_OF_HOME = (
    *("layout", "service_address", "service_address6", "identity_name", "local_zones", "node_asn", "router_asn"),
    *("bgp_keepalive_s", "bgp_hold_s", "bgp_connect_retry_s", "bfd_interval_ms", "bfd_multiplier"),
)
_OF_ROUTER = ("router_bgp_instance", "router_id", "lan_networks", "wan_interface", "dhcp_network")
_LAB_WITHOUT = {"resolver": ("unbound", "adguardhome")}  # what a lab does where AdGuard Home cannot be had

Settings = Mapping[str, Any]


def settings_of(site: Site, node: Node) -> dict[str, Any]:
    """The settings of a node by the names in the inventory and `group_data/`, as JSON has them."""
    whole, own = site.model_dump(mode="json"), node.model_dump(mode="json")
    found = {key: _at(whole, path) for key, path in SITE_SETTINGS.items() if key not in SECRETS}
    return found | {key: own[field] for key, field in NODE_SETTINGS.items() if key not in ("node_name", "router_id")}


def settings_of_router(site: Site) -> dict[str, Any]:
    """The settings that the router's rows are made from, likewise; which nodes it has, its rows say themselves."""
    whole = site.model_dump(mode="json")
    found = {key: _at(whole, SITE_SETTINGS[key]) for key in _OF_HOME}
    return found | {key: whole["router"][ROUTER_SETTINGS[key]] for key in _OF_ROUTER}


def to_json(site: Site, node: Node) -> str:
    """The record as it lies on the node."""
    return json.dumps(settings_of(site, node), indent=1, sort_keys=True) + "\n"


def to_line(site: Site) -> str:
    """The router's record in one line of ASCII."""
    return json.dumps(settings_of_router(site), sort_keys=True, separators=(",", ":"))


def parse(text: str) -> dict[str, Any]:
    """A record that was read back; empty for what is none: what was deployed by an older version has none."""
    try:
        found = parse_json(text, MOST_BYTES)
    except Damaged:
        return {}
    known = (SITE_SETTINGS.keys() | NODE_SETTINGS.keys() | set(_OF_ROUTER)) - SECRETS
    return {key: value for key, value in found.items() if key in known} if isinstance(found, dict) else {}


def differences(record: Settings, site: Site, node: Node | None = None) -> dict[str, tuple[Any, Any]]:
    """Setting → (as deployed, as `site` has it), without those that only follow from another one.

    `record`: a node's, or without `node` the router's.
    """
    wanted = settings_of(site, node) if node else settings_of_router(site)
    found = {key: (value, wanted[key]) for key, value in record.items() if key in wanted and value != wanted[key]}
    if site.lab is None:
        return found
    follows = frozenset().union(*(keys for cause, keys in _FOLLOWS.items() if cause in found))
    return {key: both for key, both in found.items() if key not in follows}


def said(found: Mapping[str, tuple[Any, Any]], who_says: str = "the files say") -> str:
    """`deployed with layout=flat, the files say routed`, for what `differences` found."""
    return "deployed with " + "; ".join(_said(key, *both, who_says) for key, both in sorted(found.items()))


def notes(records: Mapping[str, Settings], site: Site, router: Settings | None = None) -> list[str]:
    """A sentence for each group of machines that were deployed with other settings than `site` has.

    + records: of the nodes, by name
    + router: the router's, if it has one
    """
    groups: dict[str, list[str]] = {}
    ends: dict[str, str] = {}
    found = {node.name: differences(records.get(node.name, {}), site, node) for node in site.nodes}
    for name, other in (found | {site.router.name: differences(router or {}, site)}).items():
        if other:
            text = said(other)
            groups.setdefault(text, []).append(name)
            ends[text] = (
                "a lab does so where AdGuard Home cannot be had."
                if site.lab is not None and other == _LAB_WITHOUT
                else "`anycastlab up` brings that to what the files say."
            )
    return [f"{_named(names, site)} {text}; {ends[text]}" for text, names in groups.items()]


def as_deployed(
    machines: Machines, records: Mapping[str, Settings], site: Site, router: Settings | None = None
) -> Machines:
    """The inventory with the settings that the nodes were deployed with; of a home's, those that most nodes have.

    Where no node can be asked, the router's record says what it knows.
    """
    shared: dict[str, Any] = {}
    found = {node.name: differences(records.get(node.name, {}), site, node) for node in site.nodes}
    if any(records.values()):
        for key in SITE_SETTINGS:
            was = Counter(json.dumps(of[key][0]) for of in found.values() if key in of)
            if 2 * was.total() >= len(site.nodes):
                shared[key] = json.loads(was.most_common(1)[0][0])
    else:
        shared = {key: was for key, (was, _) in differences(router or {}, site).items() if key in SITE_SETTINGS}
    hosts = {node.host: node.name for node in site.nodes}
    nodes = []
    for host, data in machines.nodes:
        own = {key: was for key, (was, _) in found[hosts[host]].items() if key in NODE_SETTINGS}
        nodes.append((host, {**data, **shared, **own}))
    its = {key: was for key, (was, _) in differences(router or {}, site).items() if key in _OF_ROUTER}
    return replace(
        machines,
        nodes=tuple(nodes),
        router=tuple((host, {**data, **shared, **its}) for host, data in machines.router),
    )


def _named(names: Iterable[str], site: Site) -> str:
    """Who was deployed: `node01 was`, `All nodes and the router were`."""
    listed = [name for name in names if name != site.router.name]
    listed = ["all nodes"] if len(listed) == len(site.nodes) > 1 else listed
    plural = listed == ["all nodes"] or len(listed) > 1
    if site.router.name in names:
        plural |= bool(listed)
        listed = [*listed, "the router"]
    text = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    text = text if text.startswith(tuple(node.name for node in site.nodes)) else text[0].upper() + text[1:]
    return f"{text} {'were' if plural else 'was'}"


def _said(key: str, was: Any, wanted: Any, who_says: str) -> str:
    if all(isinstance(value, str | int | bool | None) for value in (was, wanted)):
        return f"{key}={_shown(was)}, {who_says} {_shown(wanted)}"
    return f"other {key} than {who_says}"


def _shown(value: Any) -> str:
    return one_line("none" if value is None else str(value), _SHOWN)


def _at(whole: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = whole
    for part in path:
        found = found[part]
    return found
