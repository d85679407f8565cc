"""A control socket that answers as BIRD's does, with what was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

GREETING = "0001 BIRD 2.17.6 ready."
Answer = Callable[[str], Sequence[str]]
"""A command to the lines of its reply. No lines: BIRD goes away."""


@asynccontextmanager
async def bird_socket(path: Path, answer: Answer) -> AsyncIterator[list[str]]:
    """Serves `answer`; yields the commands as they come, `hello` for each connection."""
    asked: list[str] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append("hello")
        writers.append(writer)
        writer.write(f"{GREETING}\n".encode())
        while command := (await reader.readline()).decode().strip():
            asked.append(command)
            lines = answer(command)
            if not lines:
                break
            # In two pieces, as a long reply comes.
            data = "".join(f"{line}\n" for line in lines).encode()
            writer.write(data[: len(data) // 2])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(data[len(data) // 2 :])
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield asked
    finally:
        server.close()
        for writer in writers:
            writer.close()
            await writer.wait_closed()
        path.unlink(missing_ok=True)
