"""The stand-in's configuration file (JSON), parsed and checked: what a person would have set up on a real router.

The control side builds the file with the same classes, so it can only write what this can read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from ipaddress import ip_interface
from typing import Any

from anycastlab.command_trees.schema import Schema
from anycastlab.command_trees.version import Version

POLICIES = (
    *("local", "telnet", "ssh", "ftp", "reboot", "read", "write", "policy", "test", "winbox", "password", "web"),
    *("sniff", "sensitive", "api", "romon", "rest-api"),
)
"""In the order RouterOS prints them."""

CONNECTION_FORMS = ("apart", "joined")
FLAG_FORMS = ("true", "empty")

API_PORT = 8728
API_SSL_PORT = 8729


class ConfigError(Exception):
    """The configuration cannot be used; the text says which part and why."""


@dataclass(frozen=True)
class User:
    """An account. `group` is one of the built-in `full`, `write`, `read`, or one of the configuration's own."""

    name: str
    password: str = field(repr=False)
    group: str = "full"


@dataclass(frozen=True)
class Group:
    """A user group of its own, with the policies it has."""

    name: str
    policies: tuple[str, ...]


@dataclass(frozen=True)
class Interface:
    """`name` is RouterOS's, `device` Linux's; `addresses` with prefix length; `lists` are interface lists it is in."""

    name: str
    device: str
    addresses: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """Everything the virtual router needs to know."""

    version: str = "7.22.3 (stable)"
    identity: str = "router"
    board: str = "anycastlab virtual router"
    users: tuple[User, ...] = (User("admin", ""),)
    groups: tuple[Group, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    state_dir: str = "/var/lib/anycastlab-router"
    listen: str = "0.0.0.0"
    port: int = API_PORT
    tls_port: int | None = API_SSL_PORT
    tls_certificate: str | None = None
    tls_key: str | None = field(default=None, repr=False)
    max_sessions: int = 20
    dns_servers: tuple[str, ...] = ()
    static_names: Mapping[str, str] = field(default_factory=dict)
    """`.lan` names a fresh router knows, name to address."""
    rows: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    """Rows a fresh router has beyond the built-in ones, by menu; they pass the same checks as a client's."""
    dynamic_rows: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    """Rows shown first and marked dynamic, as RouterOS's own (fasttrack's counter rule); nobody can change them."""
    netwatch_startup_delay_s: float | None = None
    """Seconds netwatch waits after the start in place of a row's `startup-delay`; None keeps RouterOS's 5 minutes."""
    connection_form: str = "apart"
    """How a tracked connection shows its ports: `apart` (`dst-address=10.1.9.53 dst-port=53`, recent versions) or
    `joined` (`dst-address=10.1.9.53:53`, older ones). Which version began is not published."""
    flag_form: str = "true"
    """How a route shows a flag that is set: `true`, or `empty` (`blackhole=""`). Both are published."""
    device_mode: str = "advanced"
    """`home` has no scheduler, like a home router since 7.17."""

    def __post_init__(self) -> None:
        try:
            Schema.load(self.version)
        except ValueError as error:
            raise ConfigError(f"version: {error}") from error
        known = {"full", "write", "read"} | {group.name for group in self.groups}
        for user in self.users:
            if user.group not in known:
                raise ConfigError(f"user {user.name}: there is no group {user.group}")
        for group in self.groups:
            if wrong := set(group.policies) - set(POLICIES):
                raise ConfigError(f"group {group.name}: no such policy: {', '.join(sorted(wrong))}")
        for interface in self.interfaces:
            for address in interface.addresses:
                try:
                    ip_interface(address)
                except ValueError as error:
                    raise ConfigError(f"interface {interface.name}: {error}") from error
        if self.tls_port is not None and self.tls_certificate is not None and self.tls_key is None:
            raise ConfigError("tls_certificate is given without tls_key")
        if self.connection_form not in CONNECTION_FORMS:
            raise ConfigError(f"connection_form: {self.connection_form!r} is not {' or '.join(CONNECTION_FORMS)}")
        if self.flag_form not in FLAG_FORMS:
            raise ConfigError(f"flag_form: {self.flag_form!r} is not {' or '.join(FLAG_FORMS)}")
        if self.device_mode not in ("advanced", "basic", "home", "rose"):
            raise ConfigError(f"device_mode: {self.device_mode!r} is not advanced, basic, home or rose")

    @property
    def parsed_version(self) -> Version:
        return Version.parse(self.version)

    @property
    def services(self) -> dict[str, int]:
        """The services that run, by RouterOS's name, with their ports."""
        encrypted = self.tls_port is not None and self.tls_certificate is not None
        return {"api": self.port} | ({"api-ssl": self.tls_port} if encrypted and self.tls_port is not None else {})

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Config:
        """Raises ConfigError."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ConfigError("not a JSON object")
        if unknown := set(data) - set(cls.__dataclass_fields__):
            raise ConfigError(f"unknown key {', '.join(sorted(unknown))}")
        try:
            return cls(**{name: _build(name, value) for name, value in data.items()})
        except (TypeError, AttributeError) as error:
            raise ConfigError(str(error)) from error


def _build(name: str, value: Any) -> Any:
    match name:
        case "users":
            return tuple(User(**item) for item in value)
        case "groups":
            return tuple(Group(item["name"], tuple(item["policies"])) for item in value)
        case "interfaces":
            return tuple(
                Interface(item["name"], item["device"], tuple(item.get("addresses", ())), tuple(item.get("lists", ())))
                for item in value
            )
        case "rows" | "dynamic_rows":
            return {menu: tuple(dict(row) for row in rows) for menu, rows in value.items()}
        case "dns_servers":
            return tuple(value)
    return value
