"""What would keep the lab from working on this machine: one sentence per finding, and what to do. Changes nothing.

`check()` is pure and decides; `gather.facts()` looks. Findings come in the order a person should deal with them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anycastlab.host import gather, ports
from anycastlab.host.facts import HostFacts
from anycastlab.host.limits import LAB_DISK_MIB, LAB_MEMORY_MIB, MINIMUM_INCUS


class Severity(enum.Enum):
    """An error keeps the lab from working, a warning may, an information changes only what is used."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Finding:
    severity: Severity
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.problem} {self.hint}".rstrip()


def run(lab_ports: Sequence[int], *, lab_project: str) -> list[Finding]:
    """Looks at this machine. `lab_ports` are those on 127.0.0.1 that the lab's proxy devices listen on."""
    return check(gather.facts(lab_ports, lab_project))


def fatal(findings: Sequence[Finding]) -> bool:
    """Whether going on makes no sense."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def check(facts: HostFacts) -> list[Finding]:
    """All findings, most basic first. On something that is not Linux that is the only one."""
    if facts.system != "Linux":
        return [
            Finding(
                Severity.ERROR,
                f"The embedded lab needs Linux, and this machine runs {facts.system}.",
                "Use a Linux machine or a virtual one, or name a remote Incus server in the inventory.",
            )
        ]
    if not facts.path_usable:
        return [Finding(Severity.ERROR, *path_problem(facts.path))]
    return [*_kernel(facts), *_incus(facts), *_room(facts), *_limits(facts), *_network(facts), *_extras(facts)]


def path_problem(path: str) -> tuple[str, str]:
    """What to say when PATH leads to no program, and what to do."""
    return (
        f"The system's programs are not found: PATH is {path or 'empty'}.",
        "Set it, such as PATH=/usr/sbin:/usr/bin:/sbin:/bin.",
    )


def _kernel(facts: HostFacts) -> Iterator[Finding]:
    if facts.kernel_missing:
        yield Finding(
            Severity.ERROR,
            f"This kernel cannot do {_list(facts.kernel_missing)}, which the lab's network is made of.",
            "Install the distribution's full kernel (not a `cloud` or container one) and reboot into it.",
        )


def _incus(facts: HostFacts) -> Iterator[Finding]:
    if not facts.incus_installed:
        yield Finding(Severity.ERROR, "Incus is not installed.", "Run `anycastlab setup`.")
    elif not facts.socket and facts.socket_named:
        yield Finding(
            Severity.ERROR,
            f"There is no Incus daemon where INCUS_SOCKET or INCUS_DIR says: {facts.socket_named}.",
            "Unset that variable, or start the daemon it belongs to.",
        )
    elif not facts.socket:
        yield Finding(
            Severity.ERROR, "The Incus daemon is not running: it has no socket here.", "Run `anycastlab setup`."
        )
    elif not facts.socket_open:
        yield _not_admitted(facts)
    elif not facts.incus_version:
        yield Finding(
            Severity.ERROR,
            f"The Incus daemon does not answer on {facts.socket}.",
            "Run `anycastlab setup`, which starts it, or look at /var/log/incus/incusd.log.",
        )
    elif not _new_enough(facts.incus_version):
        minimum = ".".join(str(number) for number in MINIMUM_INCUS)
        yield Finding(
            Severity.ERROR,
            f"Incus here is version {facts.incus_version}, and the lab needs {minimum} or newer.",
            "Upgrade it, from your distribution's backports if need be.",
        )
    tools = tuple(name for name in facts.missing_programs if not name.startswith("incus"))
    if tools:
        verb = "is" if len(tools) == 1 else "are"
        yield Finding(Severity.ERROR, f"{_list(tools)} {verb} not installed.", "Run `anycastlab setup`.")
    if facts.incus_installed and not facts.subordinate_ids:
        yield Finding(
            Severity.ERROR,
            "Root has no range of subordinate user ids, so Incus cannot start unprivileged containers.",
            "Run `usermod --add-subuids 1000000-1000999999 --add-subgids 1000000-1000999999 root` and restart Incus.",
        )


def _not_admitted(facts: HostFacts) -> Finding:
    if facts.in_admin_group:
        return Finding(
            Severity.ERROR,
            f"{facts.user} was added to the group incus-admin, but this session is older than that.",
            "Log in again, or run `newgrp incus-admin` first.",
        )
    return Finding(
        Severity.ERROR,
        f"{facts.user} is neither root nor in the group incus-admin, so Incus does not let them in.",
        f"Run it with sudo, or `sudo usermod -aG incus-admin {facts.user}` and log in again.",
    )


def _room(facts: HostFacts) -> Iterator[Finding]:
    if facts.disk_free_mib < LAB_DISK_MIB:
        yield Finding(
            Severity.ERROR,
            f"{facts.disk_path} has {facts.disk_free_mib} MiB free, and the lab needs {LAB_DISK_MIB} MiB.",
            "Free some space there.",
        )
    if facts.memory_available_mib < LAB_MEMORY_MIB:
        yield Finding(
            Severity.ERROR,
            f"{facts.memory_available_mib} MiB of memory are available, and the lab needs {LAB_MEMORY_MIB} MiB.",
            "Stop something large.",
        )


def _limits(facts: HostFacts) -> Iterator[Finding]:
    if facts.low_limits:
        values = tuple(f"{name} = {value}" for name, value in facts.low_limits)
        yield Finding(
            Severity.WARNING,
            f"All containers share the kernel's {_list(values)}: with about 15 machines, services fail to start.",
            "Run `anycastlab setup`, which raises it.",
        )


def _network(facts: HostFacts) -> Iterator[Finding]:
    if facts.forward_dropped:
        culprit = "Docker" if facts.docker else "A firewall on this host"
        yield Finding(
            Severity.ERROR,
            f"{culprit} drops forwarded IPv4 packets, also those between the lab's machines on their own bridges.",
            "Let bridged packets pass by: `sysctl -w net.bridge.bridge-nf-call-iptables=0`, or accept them in the "
            "FORWARD chain.",
        )
    for port, holder in facts.taken_ports:
        yield Finding(Severity.ERROR, *ports.problem(port, holder))


def _extras(facts: HostFacts) -> Iterator[Finding]:
    if not facts.go:
        yield Finding(
            Severity.INFO,
            "Go is not installed, so AdGuard Home can only come from its release archive.",
            'Where that is out of reach, install Go, name a local file, or set `resolver="unbound"`.',
        )


def _new_enough(version: str) -> bool:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return numbers >= MINIMUM_INCUS


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
