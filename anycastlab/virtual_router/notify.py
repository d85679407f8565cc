"""Tells systemd that the router is ready or stopping (sd_notify over the socket in `NOTIFY_SOCKET`)."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """`READY=1`, `STOPPING=1`, `STATUS=…`. Does nothing outside systemd; a failure is no reason to stop."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        sock.sendall(state.encode())
