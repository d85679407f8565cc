"""The edge of set-up: gathers what `setup.plan` wants to know, and performs its steps as root or through sudo."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from anycastlab.host import apt, doctor, gather, incusd, kernel_limits, setup, undo_record
from anycastlab.host.distribution import parse_os_release
from anycastlab.host.errors import HostError
from anycastlab.host.limits import PACKAGE_TIMEOUT_S
from anycastlab.host.requirements import INCUS, TOOLS
from anycastlab.host.setup import Kind, SetupFacts, Step


def run(*, yes: bool, say: Callable[[str], None] = print, ask: Callable[[str], str] = input) -> None:
    """Sets this machine up, or raises HostError. On one that is ready it takes 0.1 s and says so."""
    if not gather.path_usable():
        raise HostError(*doctor.path_problem(os.environ.get("PATH", "")))
    steps = setup.plan(facts())
    asking = setup.must_ask(yes=yes, terminal=sys.stdin.isatty(), environment=os.environ)
    confirm = (lambda: ask("Go ahead? [y/N] ").strip().lower() in ("y", "yes")) if asking else None
    privileged = incusd.privilege() if steps else ()
    setup.apply(
        steps, perform=lambda step: perform(step, privileged, say), note=undo_record.note, say=say, confirm=confirm
    )


def facts() -> SetupFacts:
    """Asks apt only when something is missing: that is the slow part."""
    distribution = parse_os_release(_read("/etc/os-release"))
    missing = frozenset(requirement.package for requirement in gather.missing_requirements((*INCUS, *TOOLS)))
    archives = apt.archives() if missing else None
    where = gather.incus_socket()
    reachable = where is None or os.access(where, os.R_OK | os.W_OK)
    answers = bool(gather.incus_version()) if where is not None and reachable else False
    known = apt.known_packages([*(requirement.package for requirement in INCUS), "incus"]) if missing else frozenset()
    split = tuple(requirement.package for requirement in INCUS)
    directory = gather.existing(Path(os.environ.get("INCUS_DIR", "/var/lib/incus")))
    return SetupFacts(
        distribution=distribution,
        missing=missing,
        incus_packages=split if known.issuperset(split) else tuple(known & {"incus"}),
        backports_configured=any(target.release == f"{distribution.codename}-backports" for target in apt.targets())
        if missing
        else False,
        mirror=archives.main if archives else "",
        signed_by=apt.signed_by(apt.source_texts(), archives.main) if archives else "",
        systemd=incusd.systemd_in_charge(),
        daemon_answers=answers,
        daemon_reachable=reachable,
        pool_exists=answers and incusd.pool_exists(setup.POOL),
        limits_to_raise=tuple(sorted(kernel_limits.too_low(kernel_limits.read()).items())),
        disk_free_gib=shutil.disk_usage(directory).free >> 30,
        user=getpass.getuser(),
        root=os.geteuid() == 0,
        in_admin_group=gather.in_admin_group(),
    )


def perform(step: Step, privileged: Sequence[str], say: Callable[[str], None]) -> None:
    """Performs one step. Doing one again that was done already is harmless."""
    if step.kind is Kind.FILE:
        _write(Path(step.path), step.content, privileged)
        for command in step.commands:
            _command(command, privileged)
    elif step.kind is Kind.DAEMON:
        _start_daemon(step, privileged)
    elif step.kind is Kind.POOL:
        if not _as_root_exists(privileged):
            driver = incusd.create_pool(privileged, setup.POOL, step.size_gib, say)
            say(f"  storage pool {setup.POOL} on {driver}")
    else:
        for command in step.commands:
            _command(command, privileged)


def _start_daemon(step: Step, privileged: Sequence[str]) -> None:
    def answers() -> bool:
        return _quiet((*privileged, "incus", "query", "local:/1.0"))

    if answers():  # installing its package started it
        return
    for command in step.commands:
        _command(command, privileged)
    if step.commands:
        incusd.wait(answers)
    else:
        incusd.start(privileged, answers=answers)


def _as_root_exists(privileged: Sequence[str]) -> bool:
    return _quiet((*privileged, "incus", "query", f"local:/1.0/storage-pools/{setup.POOL}"))


def _write(path: Path, content: str, privileged: Sequence[str]) -> None:
    done = subprocess.run(
        [*privileged, "tee", str(path)], input=content, stdout=subprocess.DEVNULL, text=True, check=False
    )
    if done.returncode != 0:
        raise HostError(f"{path} could not be written.", "Look at the message above.")


def _command(command: Sequence[str], privileged: Sequence[str]) -> None:
    """Shows the command's own output only when it fails: apt talks a lot."""
    environment = ("env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
    try:
        done = subprocess.run(
            [*privileged, *environment, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PACKAGE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HostError(
            f"`{' '.join(command[:2])}` did not end within {PACKAGE_TIMEOUT_S / 60:.0f} minutes.",
            "Run the command by hand to see what it waits for.",
        ) from None
    if done.returncode != 0:
        raise HostError(
            f"`{' '.join(command)}` failed: {_last_reason(done.stdout)}", "Put that right and run it again."
        )


def _last_reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    chosen = (errors or lines or ["no output."])[-1]
    return chosen.removeprefix("E: ")


def _quiet(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
