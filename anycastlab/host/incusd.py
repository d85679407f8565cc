"""Starting the Incus daemon where systemd is not in charge, and the storage pool of the lab. Edge."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from anycastlab.host.errors import HostError
from anycastlab.host.gather import ADMIN_GROUP, ask_incus, find_program
from anycastlab.host.limits import DAEMON_POLL_S, DAEMON_START_TIMEOUT_S

LOG: Final = Path("/var/log/incus/incusd.log")
_LIBEXEC: Final = Path("/usr/libexec/incus")


def systemd_in_charge() -> bool:
    """The test systemd's own libraries use."""
    return Path("/run/systemd/system").is_dir()


def start_command(daemon: str, log: Path, environment: Sequence[tuple[str, str]] = ()) -> tuple[str, ...]:
    """Starts it in a session of its own: it outlives this process. Its helpers lie in /usr/libexec/incus."""
    path = f"{_LIBEXEC}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    settings = [f"{key}={value}" for key, value in (("PATH", path), *environment)]
    return ("setsid", "--fork", "env", *settings, daemon, "--group", ADMIN_GROUP, "--logfile", str(log))


def daemon_program() -> str:
    for candidate in (str(_LIBEXEC / "incusd"), "/opt/incus/bin/incusd"):
        if os.access(candidate, os.X_OK):
            return candidate
    if found := find_program("incusd"):
        return found
    raise HostError("The Incus daemon is not installed.", "Run `anycastlab setup`.")


def start(
    privileged: Sequence[str],
    *,
    log: Path = LOG,
    environment: Sequence[tuple[str, str]] = (),
    answers: Callable[[], bool],
) -> None:
    """Starts the daemon and returns once it answers. `privileged` makes a command run as root (`sudo` or nothing)."""
    subprocess.run([*privileged, "mkdir", "-p", str(log.parent)], check=True)
    subprocess.run(
        [*privileged, *start_command(daemon_program(), log, environment)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wait(answers, log)


def wait(answers: Callable[[], bool], log: Path = LOG) -> None:
    """Returns once the daemon answers."""
    deadline = time.monotonic() + DAEMON_START_TIMEOUT_S
    while time.monotonic() < deadline:
        if answers():
            return
        time.sleep(DAEMON_POLL_S)
    last = ""
    with suppress(OSError):
        last = (log.read_text().strip().splitlines() or [""])[-1]
    raise HostError(
        f"The Incus daemon did not answer within {DAEMON_START_TIMEOUT_S:.0f} s{f': {last}' if last else ''}.",
        f"Its log is {log}.",
    )


def pool_exists(name: str) -> bool:
    return ask_incus(f"/1.0/storage-pools/{name}") is not None


def create_pool(privileged: Sequence[str], name: str, size_gib: int, say: Callable[[str], None]) -> str:
    """Creates the pool on btrfs (instances are clones, made in a tenth of a second) or in directories; says which.

    Incus leaves nothing behind of a pool it could not make.
    """
    create = [*privileged, "incus", "storage", "create", "-q", name]
    reason = "mkfs.btrfs is not installed"
    if find_program("mkfs.btrfs"):
        done = subprocess.run([*create, "btrfs", f"size={size_gib}GiB"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return "btrfs"
        reason = _reason(done.stderr)
    say(f"  no btrfs pool ({reason}): using plain directories, where creating an instance takes seconds")
    done = subprocess.run([*create, "dir"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(
            f"The storage pool {name} could not be created: {_reason(done.stderr)}.", "Look at `incus storage list`."
        )
    return "dir"


def privilege() -> tuple[str, ...]:
    """What makes a command run as root: nothing for root, sudo for others."""
    if os.geteuid() == 0:
        return ()
    if shutil.which("sudo"):
        return ("sudo",)
    raise HostError("Setting up this machine needs root, and sudo is not installed.", "Run it as root.")


def _reason(stderr: str) -> str:
    lines = [line for line in stderr.strip().splitlines() if line]
    return lines[-1].removeprefix("Error: ") if lines else "no reason given"
