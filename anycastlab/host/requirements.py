"""The programs the control machine needs, what for, and the Debian or Ubuntu packages they come in. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Requirement:
    """Met when one of `files` exists (a bare name is looked up in the usual program directories)."""

    package: str
    files: tuple[str, ...]


INCUS: Final = (
    Requirement("incus-base", ("incusd", "/usr/libexec/incus/incusd", "/opt/incus/bin/incusd")),
    Requirement("incus-client", ("incus",)),
)

TOOLS: Final = (
    Requirement("mmdebstrap", ("mmdebstrap",)),  # builds the base image
    Requirement("squashfs-tools", ("sqfstar",)),  # packs it
    Requirement("uidmap", ("newuidmap",)),  # builds it without root
    Requirement(  # checks the packages in it
        "debian-archive-keyring",
        ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"),
    ),
    Requirement("dnsmasq-base", ("dnsmasq",)),  # Incus wants it for every bridge
    Requirement("btrfs-progs", ("mkfs.btrfs",)),  # for a pool whose instances are cloned in no time
    Requirement("nftables", ("nft",)),  # cuts power and links in scenarios
)

PROGRAM_DIRECTORIES: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Searched besides PATH: an ordinary user's PATH leaves out the sbin ones."""
