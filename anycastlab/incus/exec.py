"""Running a command in an instance with recorded output: exit code, stdout and stderr, byte for byte.

The server writes both outputs to files of the instance; they are read side by side and deleted in the background, off
the path of whoever waits for the command. `flush` waits until that is done.

Invariants:
- a command with a time limit is ended *inside* the instance (coreutils' `timeout`, its own process group), so nothing
  runs on when we give up or die;
- what goes to stdin never appears in a command line; it is a file, mode 0600, unlinked before the command reads it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from . import limits
from .errors import IncusError, MissingError
from .files import create
from .rest import Rest

_TIMED_OUT = 124  # exit status of `timeout` when the limit was reached …
_KILLED = 128 + 9  # … and when it took SIGKILL
# Opens stdin, removes its name, becomes the command.
_WITH_STDIN = 'f=$1; shift; exec <"$f"; rm -f -- "$f"; exec "$@"'


@dataclass(frozen=True)
class Result:
    """How a command ended. `exit_code` is 128 + n after signal n, as in a shell."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def text(self) -> str:
        """stdout as text, undecodable bytes replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last line the command said, for an error sentence."""
        lines = (self.stderr or self.stdout).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.exit_code}"


def execute(
    rest: Rest,
    instance: str,
    command: Sequence[str],
    *,
    stdin: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    user: int = 0,
    group: int = 0,
    cwd: str = "",
    timeout_s: float | None = None,
) -> Result:
    """Runs `command` (argv, no shell) and waits for its end.

    Raises `TimeoutError` when it did not end within `timeout_s` seconds (it is killed then), `NotRunningError` or
    `MissingError` when the instance is not there to run it.
    """
    argv = list(command)
    if timeout_s:
        argv = ["timeout", "-k", str(limits.TIMEOUT_KILL_AFTER_S), f"{timeout_s:g}", *argv]
    if stdin is not None:
        path = f"/run/.anycastlab-stdin-{secrets.token_hex(8)}"
        create(rest, instance, path, stdin, mode=0o600, uid=user, gid=group)
        argv = ["sh", "-c", _WITH_STDIN, "sh", path, *argv]
    body = {
        "command": argv,
        "environment": dict(environment or {}),
        "record-output": True,
        "interactive": False,
        "wait-for-websocket": False,
        "user": user,
        "group": group,
        "cwd": cwd,
    }
    started = time.monotonic()
    operation = rest.call("post", f"/instances/{instance}/exec", body)["operation"]
    bound = None if not timeout_s else timeout_s + limits.TIMEOUT_KILL_AFTER_S + limits.TIMEOUT_GRACE_S
    try:
        ended = rest.wait(operation, bound)
    except IncusError as error:
        if (code := _unstartable(error)) is None:
            raise
        # The server has made the files all the same, but does not tell; they are named after the operation.
        for output in ("stdout", "stderr"):
            name = f"exec_{operation.rpartition('/')[2]}.{output}"
            _delete_later(rest, instance, f"/instances/{instance}/logs/exec-output/{name}")
        return Result(code, b"", error.problem.encode())
    if ended is None:
        # `timeout` itself could not run: the instance is frozen or starved.
        raise TimeoutError(f"{instance} did not answer {limits.TIMEOUT_GRACE_S:g} s after the command's time limit")
    metadata = ended["metadata"]
    exit_code = int(metadata["return"])
    outputs = metadata.get("output") or {}
    later = _helpers().submit(_take, rest, instance, outputs.get("2"))
    stdout = _take(rest, instance, outputs.get("1"))
    stderr = later.result()
    if timeout_s and exit_code in (_TIMED_OUT, _KILLED) and time.monotonic() - started >= timeout_s:
        raise TimeoutError(f"{command[0]} did not end within {timeout_s:g} s on {instance} and was killed")
    return Result(exit_code, stdout, stderr)


def check(rest: Rest, instance: str, command: Sequence[str], **arguments: object) -> Result:
    """Like `execute`, but a command that fails is an `IncusError`."""
    result = execute(rest, instance, command, **arguments)  # type: ignore[arg-type]
    if not result.ok:
        raise IncusError(f"{command[0]} failed on {instance}: {result.complaint}.")
    return result


def flush(instance: str | None = None) -> None:
    """Waits until recorded outputs (of one instance, or all) that were read are deleted on the server."""
    with _pending_lock:
        waiting = [f for f, owner in _pending.items() if instance is None or owner == instance]
    wait(waiting, timeout=limits.REQUEST_TIMEOUT_S)


def _unstartable(error: IncusError) -> int | None:
    """The exit code a shell gives for a command the server could not even start; None for any other error."""
    if "Command not found" in error.problem:
        return 127
    return 126 if "Command not executable" in error.problem else None


# Recorded output ----------------------------------------------------------------------------------------------------

_pending: dict[Future[None], str] = {}
_pending_lock = threading.Lock()


@cache
def _helpers() -> ThreadPoolExecutor:
    # Made on first use, so that under pyinfra it is made of greenlets. The interpreter waits for its work at exit.
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="incus-output")


def _take(rest: Rest, instance: str, path: str | None) -> bytes:
    """Reads one recorded output and hands it over for deletion."""
    if path is None:
        return b""
    content = rest.read(path)
    _delete_later(rest, instance, path)
    return content


def _delete_later(rest: Rest, instance: str, path: str) -> None:
    future = _helpers().submit(_delete, rest, path)
    with _pending_lock:
        _pending[future] = instance
    future.add_done_callback(_forget)


def _delete(rest: Rest, path: str) -> None:
    with suppress(MissingError):  # the instance is gone, and its outputs with it
        rest.call("delete", path)


def _forget(future: Future[None]) -> None:
    with _pending_lock:
        _pending.pop(future, None)
