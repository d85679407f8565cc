"""An independent witness of announcements: what the router's kernel table did, and when.

Containers share the host's clock, so a time taken on a node just before a fault can be compared with it.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType

_STAMP = re.compile(r"^\[(\S+)\] (.*)$")
_POLL_S = 0.01
# A table with several next hops comes in several lines; it is whole when nothing followed for this long (seconds).
_WHOLE_S = 0.05


class RouteWatch:
    """Follows `ip -ts monitor route` on the router for one prefix. `argv` runs `ip` there."""

    def __init__(self, argv: Sequence[str], service: str) -> None:
        self._argv = [*argv, "ip", "-ts", "monitor", "route"]
        self._service = service
        self._events: list[tuple[float, frozenset[str]]] = []
        self._changed = threading.Lock()
        self._arrived = 0.0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> RouteWatch:
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        time.sleep(0.3)  # the monitor's socket must be open before the fault
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def gone_at(self, address: str, after: float, within_s: float) -> float | None:
        """Unix time of the first table after `after` without that next hop, None if there was none in time."""
        return self._first(after, within_s, lambda hops: address not in hops)

    def present_at(self, address: str, after: float, within_s: float) -> float | None:
        return self._first(after, within_s, lambda hops: address in hops)

    def changes(self, after: float, address: str) -> list[tuple[float, bool]]:
        """Every table since: (time, has that next hop)."""
        with self._changed:
            return [(at, address in hops) for at, hops in self._events if at >= after]

    def _first(self, after: float, within_s: float, wanted: Callable[[frozenset[str]], bool]) -> float | None:
        deadline = time.monotonic() + within_s + _WHOLE_S
        while True:
            with self._changed:
                whole = self._events if time.monotonic() - self._arrived >= _WHOLE_S else self._events[:-1]
                for at, hops in whole:
                    if at >= after and wanted(hops):
                        return at
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        current: tuple[float, set[str]] | None = None
        for line in self._process.stdout:
            stamped = _STAMP.match(line)
            if stamped:
                current = None
                at = datetime.fromisoformat(stamped[1]).replace(tzinfo=UTC).timestamp()
                text = stamped[2]
                words = text.removeprefix("Deleted ").split()
                if words and words[0] in (self._service, f"{self._service}/32"):
                    deleted = text.startswith("Deleted ")
                    current = (at, set() if deleted else set(re.findall(r"via ([0-9.]+)", text)))
                    self._store(current)
            elif current is not None:
                current[1].update(re.findall(r"via ([0-9.]+)", line))
                self._store(current)

    def _store(self, current: tuple[float, set[str]]) -> None:
        # A multipath table arrives in several lines: the entry of the same time grows.
        with self._changed:
            if self._events and self._events[-1][0] == current[0]:
                self._events.pop()
            self._events.append((current[0], frozenset(current[1])))
            self._arrived = time.monotonic()
