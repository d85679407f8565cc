"""What this machine looks like, as data. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostFacts:
    """What this machine looks like. Defaults describe one on which everything is fine."""

    system: str = "Linux"
    user: str = "root"
    root: bool = True
    in_admin_group: bool = True
    """Whether the user is in `incus-admin` by the group file; the session may be older than that."""
    socket: str = "/var/lib/incus/unix.socket"
    """Empty when Incus has none here."""
    socket_named: str = ""
    """What INCUS_SOCKET or INCUS_DIR says; empty without them."""
    path: str = ""
    path_usable: bool = True
    """Whether the system's programs are found through PATH."""
    socket_open: bool = True
    """Whether this process may write to it."""
    kernel_missing: tuple[str, ...] = ()
    """Of veth, bridge, nftables: what the kernel cannot do."""
    disk_path: str = "/var/lib/incus"
    disk_free_mib: int = 100_000
    memory_available_mib: int = 16_000
    missing_programs: tuple[str, ...] = ()
    """Packages of programs that are not here."""
    incus_installed: bool = True
    incus_version: str = "6.0.4"
    """Empty when the daemon does not answer."""
    subordinate_ids: bool = True
    """Whether root has ranges in /etc/subuid and /etc/subgid."""
    low_limits: tuple[tuple[str, int], ...] = ()
    """(kernel setting, current value) for those that all containers share and that are too low."""
    forward_dropped: bool = False
    docker: bool = False
    taken_ports: tuple[tuple[int, str], ...] = ()
    """(port on 127.0.0.1, what holds it) for ports the lab wants and does not hold itself."""
    go: str = "go1.26.6"
    """Empty when Go is not installed."""
