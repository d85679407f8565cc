"""What a value becomes on its way in: checked, and turned into the text a router prints.

    yes → true     00:01:30 → 1m30s     10.1.9.53/32 → 10.1.9.53 in a firewall rule, and the other way round in a route

Pure. A refused value raises `CommandRefused` with RouterOS's own text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import date, time
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network

from anycastlab.command_trees.schema import Kind
from anycastlab.virtual_router import errors
from anycastlab.virtual_router.times import parse_ms, print_ms

Names = Callable[[str], Collection[str]]
"""Names of the rows of a menu: what a reference may point to."""

_TRUE = {"yes", "true"}
_FALSE = {"no", "false"}
_INTEGER = re.compile(r"-?\d+")
_HEX = re.compile(r"0[xX][0-9a-fA-F]+")
_MAC = re.compile(r"([0-9A-Fa-f]{2})[:.-]?" + r"([0-9A-Fa-f]{2})[:.-]?" * 4 + r"([0-9A-Fa-f]{2})")
_SIZE = re.compile(r"(\d+)(?:KiB|K|k)?")
_MAX_PORT = 65535


def canonical(name: str, text: str, kind: Kind, names: Names) -> str:
    """The printed form of `text` for argument `name`. Raises CommandRefused."""
    if kind.negatable and text.startswith("!"):
        return "!" + _canonical(name, text[1:], kind, names)
    return _canonical(name, text, kind, names)


def _canonical(name: str, text: str, kind: Kind, names: Names) -> str:
    if kind.name not in ("enum", "set", "bool") and text in kind.words:
        return text
    try:
        convert = _CONVERTERS[kind.name]
    except KeyError:
        return text
    try:
        return convert(name, text, kind, names)
    except ValueError as error:
        raise errors.invalid_value(name) from error


def _text(name: str, text: str, kind: Kind, _names: Names) -> str:
    if kind.words and kind.words[0].isdigit() and len(text) > int(kind.words[0]):
        raise errors.too_long(name, int(kind.words[0]))
    return text


def _bool(name: str, text: str, _kind: Kind, _names: Names) -> str:
    if text in _TRUE or text == "":  # a bare flag, `=disabled=`, sets it
        return "true"
    if text in _FALSE:
        return "false"
    raise errors.no_match(name)


def _flag(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    """Set by being there, whatever it says but no."""
    return "false" if text in _FALSE else "true"


def _enum(name: str, text: str, kind: Kind, _names: Names) -> str:
    if text in kind.words:
        return text
    # A client that thinks in booleans writes yes or true where the enum has just one of them.
    for same in (_TRUE, _FALSE):
        if text in same and (found := same & set(kind.words)):
            return found.pop()
    raise errors.no_match(name)


def _set(name: str, text: str, kind: Kind, _names: Names) -> str:
    """Comma-separated members, printed in the order given, each once. A member may be negated (`policy`)."""
    members = list(dict.fromkeys(part for part in text.split(",") if part))
    for member in members:
        bare = member[1:] if kind.negatable else member
        if member not in kind.words and bare not in kind.words:
            raise errors.no_match(name)
    return ",".join(members)


def _int(name: str, text: str, kind: Kind, _names: Names) -> str:
    if _HEX.fullmatch(text):
        value = int(text, 16)
    elif _INTEGER.fullmatch(text):
        value = int(text)
    else:
        raise errors.invalid_value(name)
    if kind.high and not int(kind.low) <= value <= int(kind.high):
        raise errors.out_of_range(name, kind.low, kind.high)
    return str(value)


def _number(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    float(text)
    return text


def _size(name: str, text: str, kind: Kind, names: Names) -> str:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise errors.invalid_value(name)
    return _int(name, match[1], kind, names)


def _time(name: str, text: str, kind: Kind, _names: Names) -> str:
    value = parse_ms(text)
    if kind.high and not parse_ms(kind.low) <= value <= parse_ms(kind.high):
        raise errors.out_of_range(name, kind.low, kind.high)
    return print_ms(value)


def _date(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    return date.fromisoformat(text).isoformat()


def _clock(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    return time.fromisoformat(text).isoformat("seconds")


def _ip(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    return str(IPv4Address(text))


def _address(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    return str(ip_address(text))


def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text, strict=False)


def _prefix(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    """Always with a length: a host gains /32."""
    return str(_network(text))


def _prefix6(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    return str(IPv6Network(text, strict=False))


def _peer(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    """With a length only where one was given: `10.1.2.11` and `10.1.2.11/32` both stay."""
    return str(_network(text)) if "/" in text else str(ip_address(text))


def _cidr(_name: str, text: str, _kind: Kind, _names: Names) -> str:
    address, _, length = text.partition("/")
    network = _network(f"{ip_address(address)}/{length}" if length else address)
    return f"{ip_address(address)}/{network.prefixlen}"


def _range(name: str, text: str, kind: Kind, _names: Names) -> str:
    """Address, prefix or a-b; a host loses /32. With the word `text` a DNS name will do (address lists)."""
    if "-" in text:
        low, high = (ip_address(part) for part in text.split("-", 1))
        if int(low) > int(high):
            raise errors.invalid_value(name)
        return f"{low}-{high}" if low != high else str(low)
    try:
        network = _network(text)
    except ValueError:
        if "text" in kind.words and re.fullmatch(r"[A-Za-z0-9_.-]*[A-Za-z][A-Za-z0-9_.-]*", text):
            return text
        raise
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _ports(name: str, text: str, _kind: Kind, _names: Names) -> str:
    out = []
    for part in text.split(","):
        bounds = part.split("-", 1)
        if not all(bound.isdigit() for bound in bounds):
            raise errors.invalid_value(name)
        numbers = [int(bound) for bound in bounds]
        if max(numbers) > _MAX_PORT:
            raise errors.out_of_range(name, "0", str(_MAX_PORT))
        if numbers != sorted(numbers):
            raise errors.invalid_value(name)
        out.append("-".join(str(number) for number in numbers))
    return ",".join(out)


def _mac(name: str, text: str, _kind: Kind, _names: Names) -> str:
    match = _MAC.fullmatch(text)
    digits = re.sub(r"[^0-9A-Fa-f]", "", text).upper()
    if match is None:
        raise errors.invalid_value(name)
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def _ref(name: str, text: str, kind: Kind, names: Names) -> str:
    if text not in names(kind.words[0]):
        # A firewall's in-interface and out-interface are refused under the name of what they take.
        raise errors.no_match("interface" if name in ("in-interface", "out-interface") else name)
    return text


def _listed(single: Callable[[str, str, Kind, Names], str]) -> Callable[[str, str, Kind, Names], str]:
    def convert(name: str, text: str, kind: Kind, names: Names) -> str:
        return ",".join(
            part if part in kind.words else single(name, part, kind, names) for part in text.split(",") if part
        )

    return convert


_CONVERTERS: dict[str, Callable[[str, str, Kind, Names], str]] = {
    "text": _text,
    "bool": _bool,
    "flag": _flag,
    "enum": _enum,
    "set": _set,
    "int": _int,
    "number": _number,
    "size": _size,
    "time": _time,
    "date": _date,
    "clock": _clock,
    "ip": _ip,
    "address": _address,
    "addresses": _listed(_address),
    "prefix": _prefix,
    "prefixes": _listed(_prefix),
    "prefix6": _prefix6,
    "peer": _peer,
    "cidr": _cidr,
    "range": _range,
    "ports": _ports,
    "mac": _mac,
    "ref": _ref,
    "refs": _listed(_ref),
}
