"""Many commands in one instance over one exec: for pyinfra, which asks an instance dozens of small questions.

Every exec makes the server start a helper process, which costs it about 15 ms of a core; a deploy of a few hosts asks
hundreds of times. A session does that once: it starts `agent` in the instance and hands it commands, 1 to 2 ms each.
What a command sees and gives is what `exec.execute` gives: that is tested for both with the same tests.

Where a session is not possible (a remote server, no Python in the instance, one already busy) `execute` is used.
A session that is lost before a command was sent is opened anew; one lost afterwards is an error, since nobody knows
whether the command ran.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from . import limits
from .errors import IncusError, NotRunningError
from .exec import Result, execute
from .rest import Rest
from .websocket import WebSocket

_AGENT = Path(__file__).with_name("agent.py").read_bytes()
# The program comes over stdin, so that it fills no command line (`ps`, `pgrep -f`) in the instance.
_LOADER = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"


class Session:
    """Commands for one instance; open it as often as you like, it connects when it pays."""

    def __init__(self, rest: Rest, instance: str) -> None:
        self._rest = rest
        self._instance = instance
        self._line: _Line | None = None
        self._possible = rest.server.is_local
        self._commands = 0
        self._busy = threading.Lock()

    def execute(self, command: Sequence[str], *, stdin: bytes | None = None, timeout_s: float | None = None) -> Result:
        """As `exec.execute`."""
        self._commands += 1
        if self._possible and self._commands > limits.COMMANDS_BEFORE_SESSION and self._busy.acquire(blocking=False):
            try:
                if (line := self._connected()) is not None:
                    return line.execute(command, stdin, timeout_s)
            finally:
                self._busy.release()
        return execute(self._rest, self._instance, command, stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        """Ends the agent."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _connected(self) -> _Line | None:
        if self._line is not None and not self._line.alive():
            self.close()
        if self._line is None:
            try:
                self._line = _Line(self._rest, self._instance)
            except _NoAgentError:
                self._possible = False  # ask no more
            except OSError:
                return None  # the server or the instance is just going away; `execute` finds the words
        return self._line


class _NoAgentError(IncusError):
    """The agent cannot be started in this instance."""


class _Line:
    """The open connection to one agent."""

    def __init__(self, rest: Rest, instance: str) -> None:
        self._rest = rest
        self._instance = instance
        self._closed = False
        self._buffer = b""
        body = {
            "command": ["python3", "-I", "-S", "-c", _LOADER],
            "environment": {},
            "interactive": False,
            "wait-for-websocket": True,
        }
        answer = rest.call("post", f"/instances/{quote(instance)}/exec", body)
        operation, keys = answer["operation"], answer["metadata"]["metadata"]["fds"]
        self._sockets: dict[str, WebSocket] = {}
        try:
            # The server waits for all four before it starts the command.
            for name, key in keys.items():
                resource = f"{operation}/websocket?secret={quote(key)}"
                self._sockets[name] = WebSocket(rest.server.endpoint, resource)
            self._sockets["0"].send(b"%d\n%s" % (len(_AGENT), _AGENT))
            if not self._answers():
                raise _NoAgentError(f"{instance} has no Python for a session.")
        except BaseException:
            self.close()
            raise

    def execute(self, command: Sequence[str], stdin: bytes | None, timeout_s: float | None) -> Result:
        header = {
            "argv": list(command),
            "timeout": timeout_s or None,
            "kill_after": limits.TIMEOUT_KILL_AFTER_S,
            "stdin": -1 if stdin is None else len(stdin),
        }
        encoded = json.dumps(header).encode()
        bound = None if not timeout_s else timeout_s + limits.TIMEOUT_KILL_AFTER_S + limits.TIMEOUT_GRACE_S
        deadline = None if bound is None else time.monotonic() + bound
        try:
            self._sockets["0"].send(len(encoded).to_bytes(4, "big") + encoded + (stdin or b""))
            length = int.from_bytes(self._read(4, deadline), "big")
            answer = json.loads(self._read(length, deadline))
            stdout = self._read(answer["stdout"], deadline)
            stderr = self._read(answer["stderr"], deadline)
        except BaseException as error:
            # Whatever it was, the next answer would be this command's.
            self.close()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise IncusError(f"{self._instance} went away while a command ran in it ({error}).") from error
            raise
        if answer["timed_out"]:
            raise TimeoutError(f"{command[0]} did not end within {timeout_s:g} s on {self._instance} and was killed")
        return Result(answer["code"], stdout, stderr)

    def alive(self) -> bool:
        """Whether the next command will reach the agent; takes in what keeps the connection alive meanwhile."""
        if self._closed:
            return False
        try:
            while self._sockets["1"].wait_readable(0):
                if self._sockets["1"].receive() is not None:
                    return False  # the end, or words nobody asked for
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._closed = True
        for each in self._sockets.values():
            with suppress(OSError):
                each.close()

    def _answers(self) -> bool:
        try:
            return self.execute(["true"], None, limits.REQUEST_TIMEOUT_S).ok
        except NotRunningError:
            raise
        except (IncusError, TimeoutError, ValueError):
            return False

    def _read(self, size: int, deadline: float | None) -> bytes:
        source = self._sockets["1"]
        while len(self._buffer) < size:
            if not source.wait_readable(limits.STATUS_CHECK_S):
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"{self._instance} did not answer after the command's time limit")
                self._require_running()
                continue
            piece = source.receive()
            if piece == b"":
                raise ConnectionError("the connection ended")
            self._buffer += piece or b""
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _require_running(self) -> None:
        # A frozen instance keeps its connections and answers nothing.
        status = self._rest.get(f"/instances/{quote(self._instance)}")["status"]
        if status != "Running":
            raise NotRunningError(f"{self._instance} is {status.lower()}: the command in it does not go on.")
