"""What Incus is to hold for a lab, as pure data: its project and bridges, and each instance.

A lab has a short name (`ANYCASTLAB_LAB`, default `lab`), so a test run never meets a person's running lab. The default
lab's Incus project is `anycastlab`, another's `anycastlab-<name>`.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from ipaddress import IPv4Address

_LAB_NAME = re.compile(r"[a-z][a-z0-9]{0,7}")  # bridges are `<lab>-wan`, and Linux allows 15 characters


@dataclass(frozen=True)
class Nic:
    """One network interface of an instance, addressed before its first boot. `gateway` is its default route."""

    name: str
    network: str
    address: IPv4Address
    prefix_length: int
    gateway: IPv4Address | None = None


@dataclass(frozen=True)
class InstanceSpec:
    """What an instance must look like; `incus.instance` makes it so."""

    name: str
    nics: tuple[Nic, ...]
    cpus: int = 1
    memory_mib: int = 512
    config: tuple[tuple[str, str], ...] = ()  # extra Incus configuration keys
    proxies: tuple[tuple[str, str, str], ...] = ()  # (device name, listen, connect)
    files: tuple[tuple[str, bytes, int], ...] = field(default=(), repr=False)  # (path, content, mode) before first boot


@dataclass(frozen=True)
class Lab:
    """Names that belong to one lab."""

    name: str = "lab"

    def __post_init__(self) -> None:
        if not _LAB_NAME.fullmatch(self.name):
            raise ValueError(f"lab name {self.name!r} is not 1 to 8 lower-case letters and digits, letter first")

    @property
    def project(self) -> str:
        return "anycastlab" if self.name == "lab" else f"anycastlab-{self.name}"

    @property
    def pool(self) -> str:
        return "anycastlab"

    def bridge(self, role: str) -> str:
        return f"{self.name}-{role}"

    @property
    def bridges(self) -> tuple[str, str, str]:
        return self.bridge("wan"), self.bridge("lan"), self.bridge("dns")

    @property
    def api_port(self) -> int:
        """Port on 127.0.0.1 that leads to the router's API (plain); TLS is the next one. Fixed per lab name."""
        if self.name == "lab":
            return 18728
        return 20000 + 2 * (zlib.crc32(self.name.encode()) % 5000)
