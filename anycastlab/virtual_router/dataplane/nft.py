"""Firewall and NAT rows to an nftables ruleset. Pure; `kernel.py` loads it in one transaction.

Emulated: /ip/firewall/filter, /ip/firewall/nat, /ip/firewall/raw and IPv6 twins with the matchers below, routing
marks of /ip/firewall/mangle, own chains by jump and return, address and interface lists. A rule with anything else
is refused when it is written (`refuse`), and left out and noted as invalid if it comes from elsewhere. Connection
tracking is on, as it is on a router that has any rule, unless it is switched off.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anycastlab.virtual_router.dataplane import policy_routing
from anycastlab.virtual_router.dataplane.api import Row, Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.nft_matchers import Lists, Matchers, RuleNotEmulated, address_text, single_port
from anycastlab.virtual_router.dataplane.peers import Notes
from anycastlab.virtual_router.dataplane.rows import enabled, singleton, truth

TABLE = "anycastlab"


# Without an expression that needs it, the kernel tracks nothing, and a NAT rule that is switched on later would catch
# connections that a real router had long decided about.
_TRACKING = (
    "  chain tracking {",
    "    type filter hook prerouting priority mangle; policy accept;",
    "    ct state new counter",
    "  }",
    "  chain tracking_own {",
    "    type filter hook output priority mangle; policy accept;",
    "    ct state new counter",
    "  }",
)


# Connection tracking switched off: no packet has a connection, and NAT, which is a connection's, never happens.
_UNTRACKED = (
    "  chain tracking {",
    "    type filter hook prerouting priority raw - 10; policy accept;",
    "    notrack",
    "  }",
    "  chain tracking_own {",
    "    type filter hook output priority raw - 10; policy accept;",
    "    notrack",
    "  }",
)


@dataclass(frozen=True)
class _Section:
    """One firewall menu: its base chains (RouterOS name → nftables type, hook, priority)."""

    menu: str
    family: str
    hooks: dict[str, tuple[str, str, str]]
    actions: frozenset[str]


_COMMON = {"accept", "drop", "jump", "return", "log", "passthrough"}
_FILTER = {
    "input": ("filter", "input", "filter"),
    "forward": ("filter", "forward", "filter"),
    "output": ("filter", "output", "filter"),
}
_NAT = {"dstnat": ("nat", "prerouting", "dstnat"), "srcnat": ("nat", "postrouting", "srcnat")}
_MANGLE = {"prerouting": ("filter", "prerouting", "mangle"), "output": ("route", "output", "mangle")}
_RAW = {"prerouting": ("filter", "prerouting", "raw"), "output": ("filter", "output", "raw")}
_NAT_ACTIONS = frozenset(_COMMON - {"drop"} | {"dst-nat", "src-nat", "redirect", "masquerade"})

SECTIONS = tuple(
    _Section(f"/{word}/firewall/{kind}", family, hooks, actions)
    for word, family in (("ip", "ip"), ("ipv6", "ip6"))
    for kind, hooks, actions in (
        ("raw", _RAW, frozenset(_COMMON | {"notrack"})),
        ("filter", _FILTER, frozenset(_COMMON | {"reject", "fasttrack-connection"})),
        ("nat", _NAT, _NAT_ACTIONS),
    )
)
SECTIONS += (_Section("/ip/firewall/mangle", "ip", _MANGLE, frozenset(_COMMON - {"drop"} | {"mark-routing"})),)
TRACKING = "/ip/firewall/connection/tracking"
MENUS = {section.menu: section for section in SECTIONS}

# Properties that change nothing about which packets match or what happens to them.
_INERT = {
    ".id",
    "chain",
    "action",
    "comment",
    "disabled",
    "dynamic",
    "invalid",
    "log",
    "log-prefix",
    "bytes",
    "packets",
}
_ARGUMENTS = {
    "new-routing-mark",
    "passthrough",
    "to-addresses",
    "to-address",
    "to-ports",
    "jump-target",
    "reject-with",
    "hw-offload",
}
_REJECTS = {
    "icmp-network-unreachable": "icmp type net-unreachable",
    "icmp-host-unreachable": "icmp type host-unreachable",
    "icmp-port-unreachable": "icmp type port-unreachable",
    "icmp-protocol-unreachable": "icmp type prot-unreachable",
    "icmp-admin-prohibited": "icmp type admin-prohibited",
    "icmp-no-route": "icmpv6 type no-route",
    "icmp-address-unreachable": "icmpv6 type addr-unreachable",
    "tcp-reset": "tcp reset",
}
_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]")


def _target(row: Row, section: _Section, owns: Callable[[str], str]) -> str:
    action = row.get("action") or "accept"
    if action not in section.actions:
        raise RuleNotEmulated(f"action={action}")
    match action:
        case "accept" | "fasttrack-connection":
            return "accept"
        case "drop" | "notrack" | "return":
            return action
        case "passthrough" | "log":
            return ""
        case "jump":
            return f"jump {owns(row.get('jump-target', ''))}"
        case "reject":
            default = "icmp-network-unreachable" if section.family == "ip" else "icmp-no-route"
            how = row.get("reject-with") or default
            if how not in _REJECTS:
                raise RuleNotEmulated(f"reject-with={how}")
            return f"reject with {_REJECTS[how]}"
        case "masquerade":
            return "masquerade"
        case "mark-routing":
            mark = f"meta mark set {policy_routing.table_number(row.get('new-routing-mark', ''))}"
            return mark if truth(row, "passthrough", default=True) else f"{mark} accept"
        case "redirect":
            ports = row.get("to-ports", "")
            return f"redirect to :{single_port(ports)}" if ports else "redirect"
        case _:
            return _nat_target(row, section, "dnat" if action == "dst-nat" else "snat")


def _nat_target(row: Row, section: _Section, word: str) -> str:
    name = "to-addresses" if section.family == "ip" else "to-address"
    address, ports = row.get(name, ""), row.get("to-ports", "")
    if not address and not ports:
        raise RuleNotEmulated(f"{name} is not set")
    target = address_text(address, section.family) if address else ""
    if "/" in target:
        raise RuleNotEmulated(f"{name}={address}")
    if ports:
        bracketed = f"[{target}]" if ":" in target else target
        return f"{word} to {bracketed}:{single_port(ports)}"
    return f"{word} to {target}"


def rule(row: Row, section: _Section, lists: Lists, owns: Callable[[str], str]) -> str | None:
    """One nft rule; None for a rule that no packet can match. Raises RuleNotEmulated."""
    matchers = Matchers(row, section.family, lists).table()
    parts: list[str] = []
    never = False
    for name, value in row.items():
        if name in _INERT or name in _ARGUMENTS or value == "" or name.startswith("."):
            continue
        matcher = matchers.get(name)
        if matcher is None:
            raise RuleNotEmulated(f"{name}={value}")
        expression = matcher(value)
        if expression is None:
            never = True
        elif expression:
            parts.append(expression)
    # nft wants the protocol before the ports that belong to it.
    parts.sort(key=lambda part: not part.startswith("meta l4proto"))
    target = _target(row, section, owns)
    if row.get("action") == "redirect" and row.get("to-ports") and row.get("protocol") not in ("tcp", "udp"):
        raise RuleNotEmulated("to-ports without protocol tcp or udp")
    return None if never else " ".join([*parts, "counter", *([target] if target else [])])


def chain_name(section: _Section, chain: str) -> str:
    """nftables name of a RouterOS chain; base chains and own ones share a table, so the menu is part of it."""
    kind = section.menu.rsplit("/", 1)[1]
    clean = _IDENTIFIER.sub("_", chain)
    distinct = "" if clean == chain else f"_{zlib.crc32(chain.encode()):08x}"
    return f"{kind}_{clean}{distinct}"


def refuse(menu: str, row: Row) -> str | None:
    """What of this rule is not emulated; lists and interfaces are looked up later."""
    section = MENUS[menu]
    anything = _AnyName()
    try:
        rule(row, section, Lists(known=anything), lambda name: name)
    except RuleNotEmulated as reason:
        return str(reason)
    chain = row.get("chain", "")
    if chain in ("prerouting", "postrouting", "input", "output") and chain not in section.hooks:
        return f"chain={chain}"
    return None


class _AnyName(Interfaces):
    """Every interface exists: whether it does is the row store's question, not a matter of emulation."""

    def device(self, name: str) -> str | None:
        return name or None


def _section_lines(section: _Section, snapshot: Snapshot, lists: Lists, notes: Notes) -> Iterator[str]:
    rules: dict[str, list[str]] = {chain: [] for chain in section.hooks}
    rows = list(enabled(snapshot, section.menu))
    for row in rows:
        rules.setdefault(row.get("chain", ""), [])

    def owns(name: str) -> str:
        if name in section.hooks:
            raise RuleNotEmulated(f"jump-target={name}")
        rules.setdefault(name, [])
        return chain_name(section, name)

    used = {row.get("jump-target", "") for row in rows} | section.hooks.keys()
    seen: list[Row] = []
    for row in rows:
        if row.get("chain", "") not in used:
            # A router calls the second of two equal rules invalid where no rule jumps to their chain.
            plain = {name: value for name, value in row.items() if name not in (".id", "comment")}
            if plain in seen:
                notes[section.menu, row.get(".id", "")] = {"invalid": "true"}
            seen.append(plain)
        try:
            text = rule(row, section, lists, owns)
        except RuleNotEmulated as reason:
            notes[section.menu, row.get(".id", "")] = {"invalid": "true", ".why": f"not emulated: {reason}"}
            continue
        if text is not None:
            rules[row.get("chain", "")].append(f'{text} comment "{section.menu} {row.get(".id", "")}"')
    # A chain must exist before a rule jumps to it.
    for chain in rules:
        if chain not in section.hooks:
            yield f"  chain {chain_name(section, chain)} {{"
            yield "  }"
    for chain, (kind, hook, priority) in section.hooks.items():
        yield f"  chain {chain_name(section, chain)} {{"
        yield f"    type {kind} hook {hook} priority {priority}; policy accept;"
        yield from (f"    {line}" for line in rules[chain])
        yield "  }"
    for chain, lines in rules.items():
        if chain not in section.hooks and lines:
            yield f"  chain {chain_name(section, chain)} {{"
            yield from (f"    {line}" for line in lines)
            yield "  }"


def render(snapshot: Snapshot, interfaces: Interfaces) -> tuple[str, Notes]:
    """The whole ruleset as one transaction, and what could not be put in."""
    lists = Lists.of(snapshot, interfaces)
    notes: Notes = {}
    lines: list[str] = []
    off = singleton(snapshot, TRACKING).get("enabled") in ("no", "false")
    for family in ("ip", "ip6"):
        lines += [f"table {family} {TABLE}", f"delete table {family} {TABLE}", f"table {family} {TABLE} {{"]
        lines += _UNTRACKED if off else _TRACKING
        for section in SECTIONS:
            if section.family == family:
                lines += _section_lines(section, snapshot, lists, notes)
        lines.append("}")
    return "\n".join(lines) + "\n", notes
