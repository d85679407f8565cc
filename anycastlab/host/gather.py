"""What this machine looks like. Edge: reads, asks, and tries links in a name space it throws away; changes nothing."""

from __future__ import annotations

import getpass
import grp
import os
import platform
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from anycastlab.host import firewall, kernel_limits, ports
from anycastlab.host.facts import HostFacts
from anycastlab.host.limits import INCUS_QUESTION_TIMEOUT_S, KERNEL_TRIAL_TIMEOUT_S
from anycastlab.host.requirements import INCUS, PROGRAM_DIRECTORIES, TOOLS, Requirement
from anycastlab.stored import parse_json

ADMIN_GROUP: Final = "incus-admin"

# Prints the name of each thing that worked. The name space and all in it are gone when the shell ends.
_KERNEL_TRIAL: Final = """
ip link add al0 type veth peer name al1 && echo veth
ip link add al2 type bridge && echo bridge
nft add table inet anycastlab && echo nftables
"""
_KERNEL_PARTS: Final = {"veth": "veth", "bridge": "bridge", "nftables": "nf_tables"}
"""What is needed → the kernel's name of the module."""


def facts(lab_ports: Sequence[int], lab_project: str) -> HostFacts:
    """Takes about 0.2 s where Incus answers."""
    if platform.system() != "Linux":
        return HostFacts(system=platform.system())
    missing = missing_requirements((*INCUS, *TOOLS))
    where = incus_socket()
    allowed = where is not None and os.access(where, os.R_OK | os.W_OK)
    version = incus_version() if allowed else ""
    directory = existing(Path(os.environ.get("INCUS_DIR", "/var/lib/incus")))
    limits = kernel_limits.read()
    return HostFacts(
        user=getpass.getuser(),
        root=os.geteuid() == 0,
        in_admin_group=in_admin_group(),
        socket=str(where) if where else "",
        socket_named=os.environ.get("INCUS_SOCKET") or os.environ.get("INCUS_DIR", ""),
        path=os.environ.get("PATH", ""),
        path_usable=path_usable(),
        socket_open=allowed,
        kernel_missing=kernel_missing(),
        disk_path=str(directory),
        disk_free_mib=shutil.disk_usage(directory).free >> 20,
        memory_available_mib=_available_memory_mib(),
        missing_programs=tuple(requirement.package for requirement in missing),
        incus_installed=not any(requirement in INCUS for requirement in missing),
        incus_version=version,
        subordinate_ids=all(_has_root_range(Path(path)) for path in ("/etc/subuid", "/etc/subgid")),
        low_limits=tuple((name, limits[name]) for name in kernel_limits.too_low(limits)),
        forward_dropped=_bridged_packets_dropped(),
        docker=Path("/var/run/docker.sock").exists(),
        # A daemon that does not say what it listens for cannot be told from a stranger.
        taken_ports=taken_ports(lab_ports, lambda: _proxied_ports(lab_project)) if version else (),
        go=_first_line("go", "env", "GOVERSION") if shutil.which("go") else "",
    )


def path_usable() -> bool:
    """Whether the system's programs are found."""
    return shutil.which("env") is not None


def find_program(name: str) -> str | None:
    """Path of a program, also in the directories an ordinary user's PATH leaves out."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *PROGRAM_DIRECTORIES))
    return shutil.which(name, path=path)


def missing_requirements(requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
    return tuple(
        requirement
        for requirement in requirements
        if not any(Path(file).exists() if file.startswith("/") else find_program(file) for file in requirement.files)
    )


def incus_socket() -> Path | None:
    """Where the daemon listens, searched in the order of Incus' own client."""
    if named := os.environ.get("INCUS_SOCKET"):
        candidates = [Path(named)]
    elif directory := os.environ.get("INCUS_DIR"):
        candidates = [Path(directory) / "unix.socket"]
    else:
        candidates = [Path("/run/incus/unix.socket"), Path("/var/lib/incus/unix.socket")]
    for path in candidates:
        with suppress(PermissionError):
            if path.exists():
                return path
    return None


def ask_incus(path: str) -> Any:
    """The answer of the local daemon as parsed JSON, or None when there is none."""
    try:
        done = subprocess.run(
            ["incus", "query", f"local:{path}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INCUS_QUESTION_TIMEOUT_S,
            check=True,
        )
        return parse_json(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def incus_version() -> str:
    """The daemon's version; empty when it does not answer."""
    answer = ask_incus("/1.0")
    return str(answer.get("environment", {}).get("server_version", "")) if isinstance(answer, dict) else ""


def in_admin_group() -> bool:
    with suppress(KeyError):
        entry = grp.getgrnam(ADMIN_GROUP)
        user = pwd.getpwuid(os.geteuid())
        return user.pw_name in entry.gr_mem or user.pw_gid == entry.gr_gid
    return False


def kernel_missing() -> tuple[str, ...]:
    """Tried for real in a new network name space; where that is not allowed, read from the kernel's list of modules."""
    name_space = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    unsure = set(_KERNEL_PARTS)
    if find_program("ip"):
        with suppress(OSError, subprocess.SubprocessError):
            path = os.pathsep.join((os.environ.get("PATH", ""), *PROGRAM_DIRECTORIES))
            done = subprocess.run(
                [*name_space, "sh", "-c", _KERNEL_TRIAL],
                capture_output=True,
                text=True,
                timeout=KERNEL_TRIAL_TIMEOUT_S,
                check=False,
                env={**os.environ, "PATH": path},
            )
            unsure -= set(done.stdout.split())
    return tuple(part for part, module in _KERNEL_PARTS.items() if part in unsure and not _module_known(module))


def _module_known(module: str) -> bool:
    """Whether the running kernel has it built in, loaded, or as a file. True when nothing can be found out."""
    if Path("/sys/module", module).exists():
        return True
    lists = [Path("/lib/modules", platform.release(), name) for name in ("modules.builtin", "modules.dep")]
    readable = [path for path in lists if path.exists()]
    return not readable or any(f"/{module}.ko" in path.read_text() for path in readable)


def taken_ports(numbers: Sequence[int], own: Callable[[], frozenset[int]]) -> tuple[tuple[int, str], ...]:
    """Those of the ports somebody listens on, with the holder's name where it can be seen. `own` is asked only then."""
    taken = [number for number in numbers if not ports.free(number)]
    if not taken:
        return ()
    foreign = [number for number in taken if number not in own()]
    return tuple((number, ports.holder(number)) for number in foreign)


def _proxied_ports(project: str) -> frozenset[int]:
    """Ports on 127.0.0.1 that proxy devices of the lab's own instances listen on."""
    instances = ask_incus(f"/1.0/instances?recursion=1&project={quote(project)}")
    return frozenset(_listening(instances if isinstance(instances, list) else []))


def _listening(instances: Sequence[dict[str, Any]]) -> Iterator[int]:
    for instance in instances:
        if instance.get("status") != "Running":
            continue  # it holds nothing, and will want its port again
        for device in instance.get("devices", {}).values():
            if device.get("type") == "proxy":
                port = str(device.get("listen", "")).rpartition(":")[2]
                if port.isdigit():
                    yield int(port)


def _bridged_packets_dropped() -> bool:
    switch = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if not switch.exists() or switch.read_text().strip() != "1":
        return False
    return firewall.forward_policy_drops(_output("nft", "--json", "list", "chains")) or firewall.iptables_forward_drops(
        _output("iptables-legacy", "-S", "FORWARD")
    )


def _has_root_range(path: Path) -> bool:
    """A missing file is fine: Incus then takes a range of its own choice."""
    return not path.exists() or any(line.startswith(("root:", "0:")) for line in path.read_text().splitlines())


def _available_memory_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return 0


def existing(path: Path) -> Path:
    """The path or its nearest parent that exists."""
    while not path.exists():
        path = path.parent
    return path


def _first_line(*command: str) -> str:
    return _output(*command).partition("\n")[0].strip()


def _output(*command: str) -> str:
    """Standard output; empty when the program is not there or fails."""
    program = find_program(command[0])
    if program is None:
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, timeout=INCUS_QUESTION_TIMEOUT_S, check=False
        ).stdout
    return ""
