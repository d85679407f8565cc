"""When two spellings of a RouterOS value mean the same. Pure.

What is sent and what comes back differ: `yes`/`true`, `90s`/`1m30s`, `10.1.2.11`/`10.1.2.11/32`, lists in another
order, rule text with other spaces. `canonical` maps each spelling to one, so that drift is only what really differs.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Final

_TRUE: Final = frozenset({"true", "yes"})
_FALSE: Final = frozenset({"false", "no"})

_BOOLEANS: Final = frozenset(
    {
        "allow-remote-requests",
        "connect",
        "disabled",
        "dns-none",
        "forbid-bfd",
        "ignore-initial-down",
        "ignore-initial-up",
        "listen",
        "match-subdomain",
        "send-redirects",
        "use-bfd",
    }
)
#: Properties that are set by being there, with any value but a no: `blackhole=""`.
_PRESENT: Final = frozenset({"blackhole"})
#: Defaults of properties we set (MikroTik manual), needed where a router does not print what equals its default.
_DEFAULTS: Final = {
    "connect": "yes",
    "disabled": "no",
    "forbid-bfd": "no",
    "ignore-initial-down": "no",
    "ignore-initial-up": "no",
    "listen": "yes",
}
_TIMES: Final = frozenset(
    {"hold-time", "interval", "keepalive-time", "min-rx", "min-tx", "start-delay", "startup-delay", "timeout"}
)
_ADDRESSES: Final = frozenset(
    {
        "address",
        "addresses",
        "dns-server",
        "dst-address",
        "gateway",
        "local.address",
        "remote.address",
        "router-id",
        "src-address",
        "to-addresses",
    }
)
_LISTS: Final = frozenset({"address-families", "addresses", "afi", "dst-port", "interfaces", "policy", "src-port"})
_SCRIPTS: Final = frozenset({"down-script", "on-event", "test-script", "up-script"})

_UNITS_US: Final = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
_UNIT = re.compile(r"(\d+)(ms|us|[wdhms])")
_TIME = re.compile(r"((?:\d+(?:ms|us|[wdhms]))*)(?:(\d+):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?")
_RULE_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[(){};]|[!=<>]=|&&|\|\||[^\s(){};!=<>&|"]+|\S')


def canonical(prop: str, value: str) -> str:
    """One spelling per meaning of the property's value; unknown properties stay as they are.

    `canonical(p, canonical(p, v)) == canonical(p, v)`.
    """
    if prop in _BOOLEANS:
        return boolean(value)
    if prop in _TIMES:
        return _time(value)
    if prop in _LISTS:
        parts = (part.strip() for part in value.split(","))
        inner = _address if prop in _ADDRESSES else str
        return ",".join(sorted({inner(part) for part in parts if part}))
    if prop in _ADDRESSES:
        return _address(value)
    if prop == "rule":
        return _rule(value)
    if prop in _SCRIPTS:
        return "\n".join(line.rstrip() for line in value.replace("\r\n", "\n").split("\n")).strip("\n")
    return value


def same(prop: str, one: str | None, other: str | None) -> bool:
    """Do both mean the same? An absent value means the default, which routers leave out of what they print."""
    if prop in _PRESENT:
        return is_true(one) == is_true(other)
    default = _DEFAULTS.get(prop, "")
    return canonical(prop, one or default) == canonical(prop, other or default)


def boolean(value: str) -> str:
    low = value.lower()
    return "yes" if low in _TRUE else "no" if low in _FALSE else value


def is_true(value: str | None) -> bool:
    """A flag of a row. RouterOS leaves false ones out in some menus, and shows true ones without a value in others."""
    return value is not None and (not value or value.lower() in _TRUE)


def microseconds(value: str) -> int | None:
    """`1m30s`, `200ms`, `00:01:30`, `1d02:03:04`, `90` (seconds); None for anything else (`none`, `infinity`)."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return int(text) * _UNITS_US["s"]
    match = _TIME.fullmatch(text)
    if not text or match is None or not text.isascii():
        return None
    units, hours, minutes, seconds, fraction = match.groups()
    total = sum(int(number) * _UNITS_US[unit] for number, unit in _UNIT.findall(units))
    if hours is not None:
        total += int(hours) * _UNITS_US["h"] + int(minutes) * _UNITS_US["m"] + int(seconds or 0) * _UNITS_US["s"]
        total += int((fraction or "0").ljust(6, "0"))
    return total


def duration(us: int) -> str:
    """As a router prints it: `1m30s`, `200ms`, `0s`."""
    parts = []
    for unit, size in _UNITS_US.items():
        number, us = divmod(us, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def _time(value: str) -> str:
    us = microseconds(value)
    return value if us is None else duration(us)


def _address(value: str) -> str:
    """Without a host's `/32` or `/128`, networks in their shortest form. `!` stays in front."""
    negated, text = (value[:1], value[1:]) if value.startswith("!") else ("", value)
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        return value
    return negated + (str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network))


def _rule(value: str) -> str:
    """A routing-filter rule with one space between tokens, whatever the router made of ours.

    A `;` that only ends a block or the rule says nothing and is dropped.
    """
    tokens = [
        (_address(token) if "/" in token and not token.startswith('"') else token)
        for token in _RULE_TOKEN.findall(value)
    ]
    kept = [
        token
        for index, token in enumerate(tokens)
        if not (token == ";" and (index + 1 == len(tokens) or tokens[index + 1] in ("}", ";")))
    ]
    return " ".join(kept)
