"""Brings this machine to where the lab can run: says what it will install and change, asks, does it, and only that.

`plan()` is pure: facts in, steps out; no step means nothing to do. Each step carries the sentence a person reads, the
commands, and how to take it back. What is *not* done: no Incus network, no change to Incus' default profile or to any
other pool, no firewall rule.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anycastlab.host import kernel_limits
from anycastlab.host.distribution import Distribution
from anycastlab.host.errors import HostError
from anycastlab.host.limits import LOCK_WAIT_S, POOL_MINIMUM_GIB, POOL_SIZE_GIB
from anycastlab.host.requirements import INCUS, TOOLS

BACKPORTS_FILE: Final = "/etc/apt/sources.list.d/anycastlab-backports.sources"
POOL: Final = "anycastlab"
ADMIN_GROUP: Final = "incus-admin"
_APT_GET: Final = ("apt-get", "-y", "-q", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}")


class Kind(enum.Enum):
    """What a step is; the edge has a hand for each."""

    FILE = "file"
    PACKAGES = "packages"
    DAEMON = "daemon"
    POOL = "pool"
    GROUP = "group"


@dataclass(frozen=True)
class Step:
    """One change to this machine."""

    kind: Kind
    what: str
    """What will happen, as a person reads it before saying yes."""
    undo: str
    """The command that takes it back."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Run in this order with root's rights; for FILE, after it was written."""
    path: str = ""
    content: str = ""
    """For FILE."""
    size_gib: int = 0
    """For POOL."""


@dataclass(frozen=True)
class SetupFacts:
    """What set-up has to know about this machine."""

    distribution: Distribution
    missing: frozenset[str] = frozenset()
    """Packages of programs that are not here."""
    incus_packages: tuple[str, ...] = ("incus-base", "incus-client")
    """Packages that Incus comes in, as far as this machine's package lists know; empty: they know none."""
    backports_configured: bool = False
    mirror: str = ""
    """The Debian archive this machine uses (its main part)."""
    signed_by: str = ""
    """The `Signed-By` of that source; empty when it has none."""
    systemd: bool = True
    """Whether systemd is in charge here."""
    daemon_answers: bool = True
    daemon_reachable: bool = True
    """False when there is a socket that this user may not open: then the daemon is not ours to judge."""
    pool_exists: bool = True
    limits_to_raise: tuple[tuple[str, int], ...] = ()
    """Kernel settings that are too low, with the values they need."""
    disk_free_gib: int = 50
    user: str = "root"
    root: bool = True
    in_admin_group: bool = True


def plan(facts: SetupFacts) -> list[Step]:
    """The steps this machine needs, in order. Raises HostError where set-up cannot help."""
    steps = [*_package_steps(facts)]
    if facts.limits_to_raise:
        steps.append(_limits_step(facts))
    if facts.daemon_reachable:
        if not facts.daemon_answers:
            steps.append(_daemon_step(facts))
        if not facts.pool_exists:
            steps.append(_pool_step(facts))
    if not facts.root and not facts.in_admin_group:
        steps.append(
            Step(
                Kind.GROUP,
                f"add {facts.user} to the group {ADMIN_GROUP} (its members rule this machine; log in again afterwards)",
                f"gpasswd -d {facts.user} {ADMIN_GROUP}",
                (("usermod", "-aG", ADMIN_GROUP, facts.user),),
            )
        )
    return steps


def _package_steps(facts: SetupFacts) -> list[Step]:
    if not facts.missing:
        return []
    if not facts.distribution.supported:
        name = facts.distribution.name or facts.distribution.identifier
        raise HostError(
            f"Set-up knows the packages of Debian 12 and Ubuntu 24.04 or newer, and this machine runs {name}.",
            f"Install the equivalents of {', '.join(sorted(facts.missing))} yourself (Incus 6.0 or newer).",
        )
    steps = []
    incus = _incus_packages(facts)
    tools = tuple(tool.package for tool in TOOLS if tool.package in facts.missing)
    from_backports = bool(incus) and facts.distribution.needs_backports
    if from_backports and not facts.backports_configured:
        steps.append(_backports_step(facts))
    commands: list[tuple[str, ...]] = [("apt-get", "update", "-q")]
    if tools:
        commands.append((*_APT_GET, "install", "--no-install-recommends", *tools))
    if incus:
        suite = ("-t", f"{facts.distribution.codename}-backports") if from_backports else ()
        commands.append((*_APT_GET, "install", "--no-install-recommends", *suite, *incus))
    names = (*incus, *tools)
    origin = f" (Incus from {facts.distribution.codename}-backports)" if from_backports else ""
    steps.append(
        Step(
            Kind.PACKAGES,
            f"install the packages {', '.join(names)}{origin}",
            f"apt-get purge {' '.join(names)}",
            tuple(commands),
        )
    )
    return steps


def _incus_packages(facts: SetupFacts) -> tuple[str, ...]:
    wanted = {requirement.package for requirement in INCUS} & facts.missing
    if not wanted:
        return ()
    # Lists that know nothing (never updated, or before backports were added) say nothing: these are the names by then.
    known = facts.incus_packages or tuple(requirement.package for requirement in INCUS)
    named = tuple(name for name in known if name in wanted)
    return named or known  # one package `incus` with everything in it


def _backports_step(facts: SetupFacts) -> Step:
    if not facts.mirror:
        raise HostError(
            "Incus for Debian 12 is in its backports, and no Debian mirror is configured here to take them from.",
            "Add a source for bookworm-backports in /etc/apt/sources.list.d and run it again.",
        )
    suite = f"{facts.distribution.codename}-backports"
    lines = ["Types: deb", f"URIs: {facts.mirror}", f"Suites: {suite}", "Components: main"]
    if facts.signed_by:
        lines.append(f"Signed-By: {facts.signed_by}")
    return Step(
        Kind.FILE,
        f"add the package source {suite} of this machine's own mirror in {BACKPORTS_FILE}",
        f"rm {BACKPORTS_FILE}",
        path=BACKPORTS_FILE,
        content="\n".join(lines) + "\n",
    )


def _limits_step(facts: SetupFacts) -> Step:
    """The kernel is told at once; the file is for the next boot."""
    values = ", ".join(f"{name} to {value}" for name, value in facts.limits_to_raise)
    # Not by `sysctl`: a small system does not have it.
    writes = "; ".join(f"echo {value} >/proc/sys/{name.replace('.', '/')}" for name, value in facts.limits_to_raise)
    return Step(
        Kind.FILE,
        f"raise the kernel's limits that all containers share: {values} (kept in {kernel_limits.FILE})",
        f"rm {kernel_limits.FILE} and reboot",
        (("sh", "-e", "-c", writes),),
        path=str(kernel_limits.FILE),
        # All of them: a later run that raises only one more must not drop the others.
        content=kernel_limits.file_text(kernel_limits.SETTINGS),
    )


def _daemon_step(facts: SetupFacts) -> Step:
    if facts.systemd:
        return Step(
            Kind.DAEMON,
            "start the Incus daemon, now and at boot",
            "systemctl disable --now incus.socket incus.service",
            (("systemctl", "enable", "--now", "incus.socket", "incus.service"),),
        )
    return Step(
        Kind.DAEMON,
        "start the Incus daemon in the background (there is no systemd here: run this again after a reboot)",
        "incus admin shutdown",
    )


def _pool_step(facts: SetupFacts) -> Step:
    size = min(POOL_SIZE_GIB, max(POOL_MINIMUM_GIB, facts.disk_free_gib // 2))
    return Step(
        Kind.POOL,
        f"create the Incus storage pool {POOL} (btrfs in a sparse file that may grow to {size} GiB; plain directories "
        "where the kernel has no btrfs)",
        f"incus storage delete {POOL}",
        size_gib=size,
    )


def describe(steps: Sequence[Step]) -> str:
    """What a person reads before anything happens."""
    if not steps:
        return "This machine is set up: nothing to do."
    lines = ["To run the lab, anycastlab will change this machine:"]
    for number, step in enumerate(steps, 1):
        lines += [f"  {number}. {step.what}", f"     (take it back: {step.undo})"]
    return "\n".join(lines)


def must_ask(*, yes: bool, terminal: bool, environment: Mapping[str, str]) -> bool:
    """People on a terminal are asked, unless they said yes already; scripts and CI are not."""
    return terminal and not yes and environment.get("CI", "").lower() not in ("1", "true", "yes")


def apply(
    steps: Sequence[Step],
    *,
    perform: Callable[[Step], None],
    note: Callable[[Step], None],
    say: Callable[[str], None],
    confirm: Callable[[], bool] | None,
) -> None:
    """Performs the steps in order, each noted before it is begun.

    `confirm` asks the person (None: do not ask); no changes nothing and is an error.
    """
    say(describe(steps))
    if not steps:
        return
    if confirm is not None and not confirm():
        raise HostError("Nothing was changed.", "Run `anycastlab setup` when you want it done.")
    for number, step in enumerate(steps, 1):
        say(f"[{number}/{len(steps)}] {step.what} …")
        note(step)
        perform(step)
