"""Ports on 127.0.0.1 that the lab's proxy devices listen on: whether another program holds one, and which."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from anycastlab.host.errors import HostError

LISTEN_ADDRESS: Final = "127.0.0.1"


def require_free(port: int) -> None:
    """Raises HostError with the holder's name if somebody listens on the port."""
    if not free(port):
        raise HostError(*problem(port, holder(port)))


def problem(port: int, by: str) -> tuple[str, str]:
    """What to say about a taken port, and what to do."""
    return (
        f"Port {port} on {LISTEN_ADDRESS}, which leads to the lab's router, is in use by {by or 'another program'}.",
        "Stop that program, or give the lab another name with ANYCASTLAB_LAB.",
    )


def free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections in TIME_WAIT hold nothing
        try:
            probe.bind((LISTEN_ADDRESS, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def holder(port: int) -> str:
    """Name of the process that listens on a port of 127.0.0.1; empty when this user may not see it."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for handle in (process / "fd").iterdir():
                with suppress(OSError):
                    if str(handle.readlink()) in inodes:
                        return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return ""
