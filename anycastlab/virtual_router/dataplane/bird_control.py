"""A client of BIRD's control socket.

A command is a line; its reply is lines that begin with a code of four digits, and `-` behind it while more come, a
space on the last one. A line that begins with a space has the code of the line before. Codes from 8000 are errors: a
command that failed (8xxx) or was not understood (9xxx). BIRD greets first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anycastlab.virtual_router.dataplane import timing

SOCKET = Path("/run/bird/bird.ctl")
FIRST_ERROR = 8000
_LONGEST_LINE = 1 << 20
"""Bytes. An AS path or a set of communities is one line."""


class NoAnswer(Exception):  # noqa: N818 - what happened, and it is caught where BIRD is started
    """BIRD does not run, hangs, or went away in the middle."""


@dataclass(frozen=True)
class Reply:
    """A whole reply: codes and lines, without their numbers."""

    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        """What `birdc` would print."""
        return "".join(f"{line}\n" for _, line in self.lines)

    @property
    def error(self) -> str | None:
        """BIRD's own words when the command did not succeed."""
        return next((line for code, line in self.lines if code >= FIRST_ERROR), None)


def decode(raw: Sequence[str]) -> Reply:
    """The lines of one reply as they came. Raises ValueError for what is not BIRD's protocol."""
    lines: list[tuple[int, str]] = []
    for line in raw:
        if line.startswith(" "):
            if not lines:
                raise ValueError(f"a reply begins with {line!r}")
            lines.append((lines[-1][0], line[1:]))
        elif _is_numbered(line):
            lines.append((int(line[:4]), line[5:]))
        else:
            raise ValueError(f"no code in {line!r}")
    return Reply(tuple(lines))


def _is_numbered(line: str) -> bool:
    return line[:4].isdecimal() and line[4:5] in (" ", "-")


def is_last(line: str) -> bool:
    """Whether a reply ends with this line."""
    return _is_numbered(line) and line[4] == " "


async def ask(
    *commands: str, path: Path = SOCKET, timeout_s: float = timing.BIRD_CONTROL_TIMEOUT_S
) -> tuple[Reply, ...]:
    """Sends commands one after the other over one connection; a reply for each. Raises NoAnswer."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)
            try:
                await _reply(reader)  # the greeting
                replies = []
                for command in commands:
                    writer.write(f"{command}\n".encode())
                    await writer.drain()
                    replies.append(await _reply(reader))
                return tuple(replies)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError as error:
        raise NoAnswer(f"BIRD does not answer within {timeout_s:g} s") from error
    except OSError as error:
        raise NoAnswer(f"{path}: {error.strerror or error}") from error
    except (EOFError, ValueError) as error:
        raise NoAnswer(f"{path}: {error}") from error


async def _reply(reader: asyncio.StreamReader) -> Reply:
    lines: list[str] = []
    while not lines or not is_last(lines[-1]):
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("BIRD closed the connection")
        if not line.startswith(b"+"):  # its log, which others may have switched on
            lines.append(line.decode(errors="replace").rstrip("\r\n"))
    return decode(lines)
