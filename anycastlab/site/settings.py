"""Settings that are not part of a `Site`: the lab's own, pyinfra's and its connectors'; which are secret or unknown.

Every setting of every host is looked at here before pyinfra connects to anything: a connector that is given a wrong
type, or one setting that nobody reads, must not be found out half-way.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    NetmaskValueError,
    ip_network,
)
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import ConfigDict, Field, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from anycastlab.errors import AnycastlabError
from anycastlab.site.types import Printable, matching

NOTHING_CHANGED = "Correct it in the inventory or group_data; nothing was changed."
# How alike an unknown setting must be to a known one to be taken for a misspelling (difflib ratio, 0 to 1).
_MISSPELLING = 0.75
_HIDDEN = "(hidden)"
_LONGEST = 160  # characters of what was given that a sentence repeats

#: Never on a command line, where every user of the machine reads it, and never written down with other settings.
SECRETS = frozenset(
    {"bgp_password", "router_password", "ssh_password", "ssh_key_password", "_sudo_password", "_su_password"}
)

_Names = Annotated[str, matching(r"[A-Za-z0-9,._-]{1,999}", "all, or names of machines with commas between")]
# What only the embedded lab and the deploy itself understand.
_LAB: dict[str, Any] = {
    "lab": Annotated[str, matching(r"[a-z][a-z0-9]{0,7}", "1 to 8 lower-case letters and digits, a letter first")],
    "number": Annotated[int, Field(ge=1, le=64)],
    "images": bool,
    "new_probe_key": bool,
    "rebuild": _Names,
    "image": Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9:/._+-]*", "local, or REMOTE:NAME as `incus image list`")],
    "image_release": Literal[12, 13],
    # 7.20 is a number to pyinfra.
    "router_version": Annotated[str, matching(r"[0-9a-z.() -]{1,40}", "a RouterOS version, such as 7.22.3")] | float,
    "adguardhome_source": Annotated[
        str, matching(r"auto|release|module|file:[^\x00-\x1f\x7f]+", "auto, release, module or file:/path")
    ],
    "incus_project": Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "the name of an Incus project")],
    "node_cpus": Annotated[int, Field(ge=1, le=64)],
    # Below it AdGuard Home is killed while it updates its filters.
    "node_memory_mib": Annotated[int, Field(ge=192, le=65536)],
    "upstream_delay_ms": Annotated[int, Field(ge=0, le=10000)],
    "node_router_id": str,
}
LAB_KEYS = frozenset(_LAB)
# Where pyinfra's own type says less than its code needs.
_NARROWER: dict[str, Any] = {
    "ssh_port": Annotated[int, Field(ge=1, le=65535)],
    "ssh_hostname": Printable,
    "ssh_user": Printable,
    "ssh_strict_host_key_checking": Literal["yes", "no", "off", "ask", "accept-new"],
    "ssh_file_transfer_protocol": Literal["sftp", "scp"],
    "incus_remote": Printable,
    "incus_instance": Printable,
    "_timeout": Annotated[int, Field(ge=1)],
}


class SiteError(AnycastlabError):
    """The data of a home or lab is incomplete or contradicts itself."""


def require_types(host: str, data: Mapping[str, Any], known: Collection[str]) -> None:
    """Every setting of `host` exists, and those that are not in `known` (checked elsewhere) have the right type.

    Raises SiteError with one sentence.
    """
    types = _types()
    for key, value in data.items():
        if key in known:
            continue
        if key not in types:
            _refuse_unknown(host, key, value, {*known, *types})
            continue
        # `None` in group_data means "not set", as everywhere; pyinfra's connectors are stricter about their own.
        if value is None and key in _LAB:
            continue
        try:
            adapter = types[key]
            if key in _LAB:
                adapter.validate_json(as_json(host, key, value), strict=True)
            else:
                adapter.validate_python(value, strict=True)
        except ValidationError as error:
            raise SiteError(complaint(key, f" of {host}", error.errors()[0]), NOTHING_CHANGED) from None


def as_json(host: str, key: str, value: Any) -> str:
    """A setting as JSON, so that text, numbers and lists stay apart; an address object is its text."""

    def plain(thing: Any) -> str:
        if isinstance(thing, IPv4Address | IPv6Address | IPv4Network | IPv6Network):
            return str(thing)
        raise TypeError

    try:
        return json.dumps(value, default=plain)
    except (TypeError, ValueError, RecursionError):
        raise SiteError(
            f"The setting {key!r} of {host} is of Python's type {type(value).__name__}; "
            "settings are text, numbers, True, False, None and lists of these.",
            NOTHING_CHANGED,
        ) from None


def complaint(key: str, where: str, first: Mapping[str, Any]) -> str:
    """One sentence for pydantic's first complaint about a setting; a secret's value is never in it."""
    if first["type"] == "missing":
        return f"The setting {key!r}{where} is missing."
    reason = reason_of(first)
    given = first["input"]
    if key in SECRETS or not isinstance(given, str | int | float):
        return f"The setting {key!r}{where} is wrong: {reason}."
    return f"The setting {key!r}{where} is {_short(given)}: {reason}."


_WANTED = {
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "bool_type": "it must be True or False",
    "string_type": "it must be text, in quotes",
    "tuple_type": "it must be a list",
    "list_type": "it must be a list",
    "dict_type": "it must be a dictionary",
    "float_type": "it must be a number",
    "too_short": "it must not be empty",
}


def reason_of(error: Mapping[str, Any]) -> str:
    """Pydantic's complaint in words that fit behind "The setting x is y:", without a full stop."""
    if error["type"] in _WANTED:
        return _WANTED[error["type"]]
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, AddressValueError | NetmaskValueError) or str(cause).endswith(_HOST_BITS):
        return _reason_of_address(str(error["input"]))
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    text = text.replace("Input should be", "it must be").replace("String should", "it should")
    text = text.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"  # some repeat what was given
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


_HOST_BITS = "has host bits set"  # how Python's ipaddress ends that sentence


def _reason_of_address(given: str) -> str:
    """Why `given` is not the address or subnet that is wanted; Python counts octets and hex digits."""
    try:
        network = ip_network(given, strict=False)
    except ValueError:
        return "it is no address"
    if "/" in given and "%" not in given and str(network.network_address) != given.partition("/")[0].lower():
        return f"a subnet is written with its first address, {network}; an address has no length"
    if "/" in given and network.num_addresses == 1:
        return "an address has no length"
    return f"it must be {'IPv4' if network.version == 6 else 'IPv6'}"


def masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they may be written down or shown."""
    return {key: _HIDDEN if key in SECRETS and value is not None else value for key, value in settings.items()}


def refuse_secrets(keys: Iterable[str]) -> None:
    """For settings from a command line; raises SiteError."""
    for key in keys:
        if key in SECRETS:
            variable = {"bgp_password": "ANYCASTLAB_BGP_PASSWORD", "router_password": "ANYCASTLAB_ROUTER_PASSWORD"}
            hint = f"Set {variable[key]} instead." if key in variable else "Use a key and an agent, or be asked for it."
            raise SiteError(
                f"{key} is a secret, and every user of this machine can read a command line; nothing was changed.", hint
            )


def _refuse_unknown(host: str, key: str, value: Any, known: Collection[str]) -> None:
    close = difflib.get_close_matches(key, known, n=1, cutoff=_MISSPELLING)
    if key.startswith("_"):
        # Private names of an inventory or group data, which pyinfra passes on; its own begin like that, too.
        if close and close[0].startswith("_"):
            raise SiteError(f"{host} has the unknown setting {key!r}; did you mean {close[0]!r}?", NOTHING_CHANGED)
        return
    if callable(value):  # a function or class that group data defines for itself
        return
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise SiteError(
        f"{host} has the unknown setting {key!r}{hint}",
        "Correct or remove it; names of your own in group_data begin with an underscore. Nothing was changed.",
    )


def _short(value: str | float) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


@cache
def _types() -> dict[str, TypeAdapter[Any]]:
    """Checkers by setting: the lab's, those of pyinfra's global arguments, and of every connector that is installed."""
    from pyinfra.api.arguments import AllArguments
    from pyinfra.api.connectors import get_all_connectors

    hints: dict[str, Any] = {f"{key}": hint for key, hint in get_type_hints(AllArguments).items() if key[:1] == "_"}
    for connector in get_all_connectors().values():
        hints |= get_type_hints(getattr(connector, "data_cls", object))
    return {key: _adapter(hint) for key, hint in {**hints, **_NARROWER, **_LAB}.items()}


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticSchemaGenerationError:
        return TypeAdapter(Any)
