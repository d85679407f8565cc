"""The router's own log, and the write log that proves what was and was not changed."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from anycastlab.outside_text import one_line
from anycastlab.virtual_router import defaults, limits

Clock = Callable[[], datetime]
MASK = "*****"


def stamp(moment: datetime) -> str:
    """`2026-11-29 21:30:05`, as RouterOS 7 prints a moment."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


class RouterLog:
    """What `/log/print` shows: the newest lines, oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: deque[dict[str, str]] = deque(maxlen=limits.LOG_LINES)
        self._next = 0
        self.echo: Callable[[str], None] = lambda _line: None
        """Receives every line as well, for the journal."""

    def add(self, topics: str, message: str) -> None:
        self.echo(one_line(f"{topics} {message}"))
        line = {".id": f"*{self._next:X}", "time": stamp(self._clock()), "topics": topics, "message": message}
        self._lines.append(line)
        self._next += 1

    def rows(self) -> list[dict[str, str]]:
        return list(self._lines)


@dataclass(frozen=True)
class Write:
    """One command that changes something, and how it ended (`done`, or the refusal's text)."""

    time: str
    user: str
    session: int
    command: str
    arguments: Mapping[str, str]
    result: str

    def masked(self) -> dict[str, str]:
        """Arguments without secrets."""
        return {
            name: MASK if name.removeprefix("!") in defaults.SENSITIVE and value else value
            for name, value in self.arguments.items()
        }


class WriteLog:
    """Every write as one JSON line (`time`, `user`, `session`, `sentence`, `result`); secrets are masked.

    Without a path it is kept in memory only.
    """

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._recent: deque[tuple[int, Write]] = deque(maxlen=limits.WRITE_LOG_ROWS)
        self.count = 0

    def add(self, user: str, session: int, command: str, arguments: Mapping[str, str], result: str) -> None:
        write = Write(stamp(self._clock()), user, session, command, dict(arguments), result)
        self.count += 1
        self._recent.append((self.count, write))
        if self._path is None:
            return
        words = [command, *(f"={name}={value}" for name, value in write.masked().items())]
        line = {"time": write.time, "user": user, "session": session, "sentence": words, "result": result}
        if self._path.exists() and self._path.stat().st_size > limits.WRITE_LOG_BYTES:
            os.replace(self._path, self._path.with_suffix(".old"))
        with self._path.open("a", encoding="utf-8", errors="surrogateescape") as out:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")

    def rows(self) -> list[dict[str, str]]:
        return [
            {
                ".id": f"*{number:X}",
                "time": write.time,
                "user": write.user,
                "session": str(write.session),
                "command": write.command,
                "arguments": " ".join(f"{name}={value}" for name, value in write.masked().items()),
                "result": write.result,
            }
            for number, write in self._recent
        ]
