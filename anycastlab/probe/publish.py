"""Says what the probe thinks: journal lines, one JSON file, Prometheus text over HTTP.

Nothing here may ever stop or delay the probe: a full disk, a stuck journal or a slow reader loses a message, no more.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from anycastlab.outside_text import one_line
from anycastlab.probe.loop import Loop, bound

# Readers of the metrics served at the same time, seconds each may take, and octets of a request that are read.
MOST_READERS = 8
READER_S = 2.0
MOST_REQUEST = 4096
# Octets of an earlier run's state that are read: far more than the probe ever writes, and far less than its memory.
MOST_STATE = 256 * 1024

Severity = int
WARNING, NOTICE, INFO = 4, 5, 6  # syslog(3); the prefix is read by systemd


def log_line(event: str, fields: Mapping[str, Any], severity: Severity = INFO) -> str:
    """`<6>event=… key=value key="two words"`: one line, easy to read and to parse."""
    parts = [f"event={event}"]
    for key, value in fields.items():
        text = one_line(f"{value:.3f}" if isinstance(value, float) else str(value))
        if not text or any(c in ' "=' for c in text):
            text = json.dumps(text, ensure_ascii=False)
        parts.append(f"{key}={text}")
    return f"<{severity}>" + " ".join(parts)


class Journal:
    """Writes lines to standard error without ever blocking on it."""

    def __init__(self, descriptor: int = sys.__stderr__.fileno() if sys.__stderr__ else 2) -> None:
        self._descriptor = descriptor
        self.lost = 0
        os.set_blocking(descriptor, False)

    def __call__(self, event: str, severity: Severity = INFO, **fields: Any) -> None:
        try:
            os.write(self._descriptor, (log_line(event, fields, severity) + "\n").encode())
        except OSError:
            self.lost += 1


def write_state(path: str, state: Mapping[str, Any]) -> str:
    """Replace the file in one step; readers see the old or the new one. Returns what went wrong, or nothing."""
    text = json.dumps(state)  # not dump(): that one is written in Python and ten times slower
    try:
        try:
            _replace(path, text)
        except PermissionError:
            os.unlink(f"{path}.new")  # root's, who ran the probe by hand and was interrupted; the folder is ours
            _replace(path, text)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def _replace(path: str, text: str) -> None:
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def read_state(path: str) -> dict[str, Any]:
    """What an earlier run of the probe left; empty when there is nothing usable."""
    try:
        with open(path, "rb") as file:
            state = json.loads(file.read(MOST_STATE))
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def metrics(state: Mapping[str, Any]) -> str:
    """The state as Prometheus text, format 0.0.4. Pure."""
    lines: list[str] = []

    def metric(name: str, kind: str, text: str, samples: Mapping[str, float | int | bool | None]) -> None:
        lines.append(f"# HELP anycastlab_{name} {text}")
        lines.append(f"# TYPE anycastlab_{name} {kind}")
        for labels, value in samples.items():
            if value is not None:
                lines.append(f"anycastlab_{name}{labels} {float(value):g}")

    cause = str(state["cause"])
    questions: Mapping[str, Mapping[str, Any]] = state["questions"]
    metric("probe_announce", "gauge", "1 when the node wants to announce the service address", {"": state["announce"]})
    metric("probe_effective", "gauge", "1 when FRR tells the router about it", {"": state["effective"]})
    metric("probe_cause", "gauge", "why", {f'{{cause="{cause}"}}': 1})
    metric("probe_drained", "gauge", "1 while drained, by a person or by a deploy at work", {"": state["drained"]})
    metric("probe_changes_total", "counter", "changes of mind since the probe started", {"": state["changes"]})
    metric(
        "probe_question_good",
        "gauge",
        "1 good, 0 bad, absent while unknown",
        {f'{{question="{name}"}}': entry["good"] for name, entry in questions.items()},
    )
    metric(
        "probe_checks_total",
        "counter",
        "checks by outcome",
        {
            f'{{question="{name}",outcome="{outcome}"}}': count
            for name, entry in questions.items()
            for outcome, count in entry["counts"].items()
        },
    )
    metric("probe_p95_seconds", "gauge", "p95 of the resolver's last answers", {"": state["p95_s"]})
    metric("probe_lateness_seconds", "gauge", "how late the probe itself was, at most", {"": state["lateness_s"]})
    return "\n".join(lines) + "\n"


class MetricsServer:
    """The smallest HTTP there is: any request gets the text, then the connection closes. Bounded in every way."""

    def __init__(self, loop: Loop, address: str, port: int, text: Callable[[], str]) -> None:
        self._loop = loop
        self._text = text
        self._readers = 0
        self._socket = bound(address, port, socket.SOCK_STREAM)
        self._socket.listen(MOST_READERS)
        loop.on_readable(self._socket, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        if self._readers >= MOST_READERS:
            connection.close()
            return
        connection.setblocking(False)
        self._readers += 1
        _Reader(self._loop, connection, self._text, self._gone)

    def _gone(self) -> None:
        self._readers -= 1


class _Reader:
    def __init__(
        self, loop: Loop, connection: socket.socket, text: Callable[[], str], gone: Callable[[], None]
    ) -> None:
        self._loop, self._connection, self._text, self._gone = loop, connection, text, gone
        self._request = b""
        self._reply = b""
        self._timer = loop.call_later(READER_S, self._close)
        loop.on_readable(connection, self._readable)

    def _readable(self) -> None:
        try:
            data = self._connection.recv(MOST_REQUEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._request += data
        if not data and self._reply:
            self._loop.on_readable(self._connection, None)  # it has said all it wanted to, and still listens
        elif not data or len(self._request) > MOST_REQUEST:
            self._close()
        elif b"\r\n\r\n" in self._request and not self._reply:
            body = self._text().encode()
            self._reply = (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            self._loop.on_writable(self._connection, self._writable)

    def _writable(self) -> None:
        try:
            sent = self._connection.send(self._reply)
        except BlockingIOError:
            return
        except OSError:
            self._close()
            return
        self._reply = self._reply[sent:]
        if not self._reply:
            self._close()

    def _close(self) -> None:
        self._timer.cancel()
        if self._connection.fileno() >= 0:
            self._loop.forget(self._connection)
            self._connection.close()
            self._gone()
