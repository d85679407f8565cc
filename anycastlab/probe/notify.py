"""sd_notify(3): ready, alive, stopping. Without systemd (no NOTIFY_SOCKET) every call does nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """`alive` must be called by the loop that does the work, so that a hung loop is a dead probe."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        if address.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
            self._socket.connect("\0" + address[1:] if address.startswith("@") else address)
        watchdog = environment.get("WATCHDOG_USEC", "")
        # A third of the limit: one lost turn of the loop must not kill the probe.
        self.interval_s = int(watchdog) / 3e6 if watchdog.isdigit() and int(watchdog) > 0 else 1.0

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self, status: str) -> None:
        self._send(f"WATCHDOG=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, text: str) -> None:
        if self._socket is not None:
            try:
                self._socket.send(text.encode())
            except OSError:
                return  # the next one may get through; if none does, the watchdog is right to fire
