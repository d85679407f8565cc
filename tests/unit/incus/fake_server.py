"""A small Incus server on a Unix socket: real HTTP, answers from a dictionary."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from anycastlab.incus.remotes import Server

INFO = {
    "auth": "trusted",
    "api_extensions": ["projects"],
    "environment": {"architectures": ["x86_64", "i686"], "kernel_architecture": "x86_64"},
}


class FakeIncus:
    """`answers` maps "METHOD /path" to (status, metadata); an error is told by its status. Requests are counted."""

    def __init__(self, path: Path) -> None:
        self.server = Server("local", str(path))
        self.answers: dict[str, tuple[int, Any]] = {"GET /1.0": (200, INFO)}
        self.requests: list[str] = []
        self.connections = 0

    def answer(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        self.requests.append(f"{method} {path}")
        status, metadata = self.answers.get(f"{method} {path}", (404, "Not Found"))
        if status >= 400:
            return status, {"type": "error", "error": metadata, "error_code": status}
        return status, {"type": "sync", "status_code": status, "metadata": metadata}


@contextmanager
def running(path: Path) -> Iterator[FakeIncus]:
    fake = FakeIncus(path)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            self.client_address = ("local", 0)
            super().setup()
            fake.connections += 1

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            status, body = fake.answer(self.command, self.path.partition("?")[0])
            encoded = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 (the names http.server calls)

        def log_message(self, *_: object) -> None:
            pass

    class Threaded(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True
        block_on_close = False

    with Threaded(str(path), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield fake
        listener.shutdown()
        thread.join()
