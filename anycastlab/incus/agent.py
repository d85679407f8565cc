"""Runs commands inside an instance, one after the other, for `session.Session`. Python ≥ 3.9, standard library only.

It is sent there over its own standard input, and ends when that does. It behaves like the server's recorded exec:
outputs go to files (in memory), so a command ends when its process does, not when the last process it left behind
closes them.

Request:  4 bytes length, JSON {"argv", "timeout", "kill_after", "stdin"}, then that many bytes of stdin (-1: none).
Answer:   4 bytes length, JSON {"code", "timed_out", "stdout", "stderr"}, then the bytes of both outputs.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any


def serve() -> None:
    environment = original_environment()
    while (length := read(4)) and len(length) == 4:
        request = json.loads(read(int.from_bytes(length, "big")))
        stdin = read(request["stdin"]) if request["stdin"] >= 0 else None
        header, stdout, stderr = run(request, stdin, environment)
        head = json.dumps({**header, "stdout": len(stdout), "stderr": len(stderr)}).encode()
        write(len(head).to_bytes(4, "big") + head + stdout + stderr)


def run(
    request: dict[str, Any], stdin: bytes | None, environment: dict[bytes, bytes]
) -> tuple[dict[str, Any], bytes, bytes]:
    out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
    source = os.open("/dev/null", os.O_RDONLY) if stdin is None else os.memfd_create("stdin")
    try:
        if stdin:
            with open(source, "wb", closefd=False) as file:
                file.write(stdin)
            os.lseek(source, 0, os.SEEK_SET)
        try:
            process = subprocess.Popen(
                request["argv"],
                stdin=source,
                stdout=out,
                stderr=err,
                env=environment,
                cwd="/root",
                start_new_session=True,
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            return {"code": code, "timed_out": False}, b"", f"{error}\n".encode()
        timed_out = not ended_within(process.pid, request["timeout"])
        if timed_out:
            kill(process.pid, signal.SIGTERM)
            ended_within(process.pid, request["kill_after"])
            kill(process.pid, signal.SIGKILL)
        code = process.wait()
        return {"code": code if code >= 0 else 128 - code, "timed_out": timed_out}, content(out), content(err)
    finally:
        for descriptor in (out, err, source):
            os.close(descriptor)


def ended_within(pid: int, seconds: float | None) -> bool:
    if seconds is None:
        return True  # the caller waits for it
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def kill(group: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def content(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def original_environment() -> dict[bytes, bytes]:
    # Not os.environ: in the C locale Python adds LC_CTYPE to it, which the commands would inherit.
    with open("/proc/self/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry]
    return {name: value for name, _, value in pairs}


def read(size: int) -> bytes:
    return sys.stdin.buffer.read(size)


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
