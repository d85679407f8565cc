"""Running programs, loading the ruleset, writing kernel settings: the thin edge towards Linux."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from anycastlab.virtual_router.dataplane import timing

PROC_SYS = Path("/proc/sys")


@dataclass(frozen=True)
class Result:
    """What a program left behind."""

    code: int
    stdout: str
    stderr: str


class Runner(Protocol):
    """Runs a program; never raises for its exit code. 124 after a timeout, 127 when it does not exist."""

    async def __call__(self, argv: Sequence[str], stdin: str = "", timeout_s: float = ...) -> Result: ...


async def run(argv: Sequence[str], stdin: str = "", timeout_s: float = timing.COMMAND_TIMEOUT_S) -> Result:
    """The real `Runner`."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        return Result(127, "", f"{argv[0]} is not installed")
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate(stdin.encode() if stdin else None)
    except TimeoutError:
        process.kill()
        await process.wait()
        return Result(124, "", f"{argv[0]} did not finish within {timeout_s:g} s")
    return Result(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


@dataclass(frozen=True)
class Loaded:
    """What became of a ruleset: rows nftables would not have (they were left out), and what stopped it altogether."""

    refused: dict[tuple[str, str], str]
    problem: str | None = None


_ERROR_LINE = re.compile(r"^[^:]*:(\d+):\d+(?:-\d+)?: Error: (.*)$", re.MULTILINE)
_ROW = re.compile(r'comment "(\S+) (\S+)"$')


async def load_ruleset(ruleset: str, runner: Runner = run) -> Loaded:
    """Replaces our tables in one transaction; the old rules stay until the new ones are accepted.

    A rule that nftables refuses is taken out and the rest is loaded: one odd row must not open the firewall.
    """
    lines = ruleset.splitlines()
    refused: dict[tuple[str, str], str] = {}
    while True:
        result = await runner(["nft", "-f", "-"], stdin="\n".join(lines) + "\n")
        if result.code == 0:
            return Loaded(refused)
        found = _ERROR_LINE.search(result.stderr)
        row = _ROW.search(lines[int(found[1]) - 1]) if found and int(found[1]) <= len(lines) else None
        if found is None or row is None:
            return Loaded(refused, (result.stderr.strip().splitlines() or ["nft failed"])[0])
        refused[row[1], row[2]] = found[2]
        lines[int(found[1]) - 1] = ""


def write_settings(settings: Mapping[str, str], root: Path = PROC_SYS) -> list[str]:
    """Writes what differs. Returns one line per setting that could not be written (not there, read-only)."""
    problems = []
    for name, value in settings.items():
        path = root / name
        try:
            if path.read_text().strip() != value:
                path.write_text(value)
        except OSError as error:
            problems.append(f"{name}={value}: {error.strerror}")
    return problems
