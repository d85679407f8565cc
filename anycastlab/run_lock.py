"""One run at a time on a home: two at once would take two nodes out of service, and write the same files.

deploy.py and teardown.py take the lock, so it makes no difference how they were started. It is held until the process
ends, by the kernel's lock (flock): a killed run leaves none behind. A dry run changes nothing and needs no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import time
from pathlib import Path

from anycastlab import private_file
from anycastlab.errors import AnycastlabError
from anycastlab.outside_text import one_line
from anycastlab.paths import state_dir
from anycastlab.site import Site


class RunLockError(AnycastlabError):
    """Another run is at work on the same home."""


# Seconds that a run waits for the lock, from the environment: what undoes a scenario's fault waits for the deploy that
# *was* the fault, which outlives a runner that was killed. A person would rather be told at once.
WAIT_VARIABLE = "ANYCASTLAB_RUN_LOCK_WAIT_S"
_POLL_S = 0.2
# Lock file → its descriptor: pyinfra reads a deploy file once for each host, but the lock is the process's.
_held: dict[Path, int] = {}


def take_run_lock(site: Site) -> None:
    """Hold the lock of the home until this process ends; raises RunLockError when another process has it."""
    if "--dry" in sys.argv[1:]:
        return
    path = lock_path(site)
    if path not in _held:
        _held[path] = _locked(path, _home(site))


def share_run_lock(site: Site) -> None:
    """Keep runs out until this process ends, but not others that share: for what takes a node out of service or puts
    it back. Raises RunLockError while a run is at work, which may have another node out of service."""
    path = lock_path(site)
    if path not in _held:
        _held[path] = _locked(path, _home(site), shared=True)


def lock_path(site: Site) -> Path:
    """By what is changed, not by the inventory's name: two clones of the repository work on the same lab."""
    name = f"lab-{site.lab}" if site.lab is not None else f"router-{site.router.api_host}"
    return state_dir() / "runs" / f"{re.sub('[^A-Za-z0-9.-]', '_', name)}.lock"


def _home(site: Site) -> str:
    return f"the lab {site.lab}" if site.lab is not None else f"the home of router {site.router.api_host}"


def _waits_s() -> float:
    """Seconds that the environment says; raises RunLockError."""
    said = os.environ.get(WAIT_VARIABLE, "0")
    if not re.fullmatch(r"\d{1,6}(\.\d*)?", said, re.ASCII):
        raise RunLockError(f"{WAIT_VARIABLE} is {one_line(said, 40)!r}: it must be seconds.", "Correct or unset it.")
    return float(said)


def _locked(path: Path, home: str, *, shared: bool = False) -> int:
    waits_s = _waits_s()
    try:
        private_file.private_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private_file.FILE_MODE)
    except OSError as error:
        raise RunLockError(
            f"The lock {path} cannot be opened: {error.strerror}.", "Make room, or correct its owner."
        ) from None
    until = time.monotonic() + waits_s
    while not _lock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
        if time.monotonic() >= until:
            problem, hint = _taken(home, os.pread(handle, 64, 0))
            os.close(handle)
            raise RunLockError(problem, hint)
        time.sleep(_POLL_S)
    with contextlib.suppress(OSError):  # a full disk, as below; on some, to shorten a file takes room as well
        os.truncate(handle, 0)
    if shared:  # none of several can say that it is the one
        return handle
    with contextlib.suppress(OSError):  # a full disk: the kernel's lock holds all the same, only its holder has no name
        os.pwrite(handle, f"{os.getpid()} {time.time():.0f}\n".encode(), 0)
    return handle


def _lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken(home: str, content: bytes) -> tuple[str, str]:
    """What to say when `content` is what the holder wrote: its process id, and its start in seconds since 1970."""
    match = re.fullmatch(rb"(\d+) (\d+)\n", content)
    if match is None:  # it is just writing, or there may be several
        return f"Another run is at work on {home}.", "Wait until it has ended."
    pid, since = match[1].decode(), time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(match[2])))
    return (
        f"Another run is at work on {home}: process {pid}, since {since}.",
        f"Wait until it has ended, or end it with `kill {pid}`; the next run puts right what it leaves half done.",
    )
