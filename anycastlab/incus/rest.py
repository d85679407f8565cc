"""One Incus server's REST API, through pylxd's nodes, over connections that stay open.

pylxd's own socket adapter keeps a connection per URL, so it opens a new one for almost every request. Ours keeps a
pool per server that all threads and greenlets share; whoever is talking holds a connection of its own.

Everything that can go wrong leaves here as an `IncusError`.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any
from urllib.parse import quote

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from . import limits
from .errors import BusyError, ExistsError, IncusError, MissingError, NotRunningError, UnreachableError
from .remotes import Server, find_server

# Read by pylxd when it is imported: it warns about every field of Incus' answers that LXD does not have.
os.environ.setdefault("PYLXD_WARNINGS", "none")

import pylxd
import pylxd.client
import pylxd.exceptions

_STATUS_SUCCESS = 200  # Incus' own codes in an operation's answer
_STATUS_CANCELLED = 401
_STATUS_FAILURE = 400


class Rest:
    """The API of one server as seen in one project (None: `default`)."""

    def __init__(self, server: Server, project: str | None = None) -> None:
        self.server = server
        self.project = project
        self._client: pylxd.Client | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Rest({self.server.name!r}, project={self.project!r})"

    @property
    def client(self) -> pylxd.Client:
        """pylxd's client, made on first use (one request: it asks the server who it is)."""
        if self._client is None:
            client = self._open()
            with self._lock:
                self._client = self._client or client
        return self._client

    @property
    def info(self) -> dict[str, Any]:
        """The server's description of itself (`GET /1.0`) as it was when the conversation began."""
        return dict(self.client.host_info)

    def in_project(self, project: str | None) -> Rest:
        return connect(self.server, project)

    # Requests ------------------------------------------------------------------------------------------------------

    def get(self, path: str, /, **params: str) -> Any:
        """The metadata of a GET."""
        return self._send("get", path, params=params).json()["metadata"]

    def find(self, path: str, /, **params: str) -> Any | None:
        """Like `get`, None when there is no such thing."""
        try:
            return self.get(path, **params)
        except MissingError:
            return None

    def read(self, path: str, /, **params: str) -> bytes:
        """The raw bytes of a GET."""
        return bytes(self._send("get", path, params=params, is_api=False).content)

    def headers(self, path: str, /, **params: str) -> Mapping[str, str]:
        """The headers of a GET, its body unread."""
        with self._send("get", path, params=params, is_api=False, stream=True) as response:
            return response.headers

    def stream(self, path: str, /, chunk_bytes: int = 1 << 16, **params: str) -> Iterator[bytes]:
        """The raw bytes of a GET, in pieces."""
        response = self._send("get", path, params=params, is_api=False, stream=True)
        with response:
            try:
                yield from response.iter_content(chunk_bytes)
            except requests.RequestException as error:
                raise self._unreachable(error) from error

    def write(self, path: str, data: bytes | IO[bytes], headers: Mapping[str, str], /, **params: str) -> None:
        """POST raw bytes; an open file is streamed."""
        self._send(
            "post", path, data=data, headers=dict(headers), params=params, read_timeout=limits.TRANSFER_TIMEOUT_S
        )

    def call(self, method: str, path: str, body: Any = None, /, **params: str) -> dict[str, Any]:
        """Any other request; returns the whole answer (an operation's, if the server works on in the background)."""
        answer = self._send(method, path, json=body, params=params).json()
        return dict(answer) if isinstance(answer, dict) else {}

    def run(
        self, method: str, path: str, body: Any = None, /, timeout_s: float = limits.OPERATION_TIMEOUT_S, **params: str
    ) -> dict[str, Any]:
        """A request and, where the server works in the background, the wait for its end; returns the metadata."""
        answer = self.call(method, path, body, **params)
        if answer.get("type") != "async":
            return answer.get("metadata") or {}
        operation = self.wait(answer["operation"], timeout_s)
        if operation is None:
            what = answer["metadata"].get("description", f"{method.upper()} {path}")
            raise IncusError(f"Incus on {self.server} did not finish within {timeout_s:g} s: {what}.")
        return operation.get("metadata") or {}

    def wait(self, operation: str, timeout_s: float | None) -> dict[str, Any] | None:
        """Waits for a background operation; None when it is still going on after `timeout_s` (None: no limit).

        Raises `IncusError` with the server's reason if it failed.
        """
        seconds = -1 if timeout_s is None else max(1, int(timeout_s + 0.999))
        found = self._send(
            "get",
            f"{operation}/wait",
            params={"timeout": str(seconds)},
            read_timeout=None if timeout_s is None else seconds + limits.REQUEST_TIMEOUT_S,
        ).json()["metadata"]
        code = found["status_code"]
        if code in (_STATUS_FAILURE, _STATUS_CANCELLED):
            raise self._refusal(found.get("err") or "operation cancelled", code, found.get("description", ""))
        return dict(found) if code == _STATUS_SUCCESS else None

    def _send(
        self,
        method: str,
        path: str,
        *,
        read_timeout: float | None = limits.REQUEST_TIMEOUT_S,
        **arguments: Any,
    ) -> requests.Response:
        node = self.client.api
        for segment in filter(None, path.removeprefix("/1.0").split("/")):
            node = node[segment]
        arguments["timeout"] = (limits.CONNECT_TIMEOUT_S, read_timeout)
        what = f"{path} {arguments.get('params', {}).get('path', '')}".rstrip()
        return self._patiently(getattr(node, method), arguments, what)

    def _patiently(
        self, send: Callable[..., requests.Response], arguments: dict[str, Any], what: str
    ) -> requests.Response:
        """One request; again where the server was in its own way: the request itself may be fine."""
        for left in reversed(range(limits.BUSY_TRIES)):
            try:
                return send(**arguments)
            except pylxd.exceptions.LXDAPIException as error:
                refusal = self._refusal(str(error), error.response.status_code, what)
                if not (left and isinstance(refusal, BusyError)):
                    raise refusal from error
            except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
                raise self._unreachable(error) from error
            time.sleep(limits.BUSY_PAUSE_S)
            if hasattr(arguments.get("data"), "seek"):
                arguments["data"].seek(0)
        raise AssertionError("the last try returns or raises")

    # The conversation ----------------------------------------------------------------------------------------------

    def _open(self) -> pylxd.Client:
        server = self.server
        if server.is_local:
            endpoint = f"http+unix://{quote(server.endpoint, safe='')}"
            session = requests.Session()
            session.trust_env = False  # no proxies or .netrc for a socket; looking for them costs a millisecond each
            session.mount("http+unix://", _SocketAdapter(server.endpoint))
        else:
            endpoint = server.endpoint
            certificate = (server.certificate, server.key) if server.certificate and server.key else None
            session = pylxd.client.get_session_for_url(endpoint, verify=server.pinned or True, cert=certificate)
            session.get_adapter(endpoint).init_poolmanager(1, limits.KEPT_CONNECTIONS)
            if server.pinned:
                # Else requests lets REQUESTS_CA_BUNDLE win over the pinned certificate. Proxies still count.
                session.trust_env = False
                session.proxies.update(requests.utils.get_environ_proxies(endpoint))
        try:
            client = pylxd.Client(
                endpoint=endpoint,
                session=session,
                project=self.project,
                timeout=(limits.CONNECT_TIMEOUT_S, limits.REQUEST_TIMEOUT_S),
            )
        except pylxd.exceptions.LXDAPIException as error:
            raise self._refusal(str(error), error.response.status_code, "/1.0") from error
        except (
            pylxd.exceptions.ClientConnectionFailed,
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            OSError,
        ) as error:
            raise self._unreachable(error) from error
        if not client.trusted:
            raise UnreachableError(
                f"Incus on {server} does not trust this machine's client certificate.",
                f"Run `incus config trust add` there, then `incus remote add {server.name} TOKEN` here.",
            )
        return client

    def _refusal(self, text: str, status: int, what: str) -> IncusError:
        text = text.strip().rstrip(".")
        lower = text.lower()
        where = f"Incus on {self.server}: {text}"
        if status == 403:
            return UnreachableError(
                f"Incus on {self.server} does not allow this: {text}.", "Ask for access to the project."
            )
        # Incus lists this machine's interfaces and asks for each; one of another container may be gone by then.
        vanished = "bridge children interfaces" in lower and "does not exist" in lower
        if "forkfile" in lower or vanished:
            return BusyError(f"{where} ({what}).", "Try again.")
        if "already running" in lower:
            return ExistsError(f"{where}.")
        if "is not running" in lower or "is frozen" in lower or "instance is stopped" in lower:
            return NotRunningError(f"{where}.")
        if "already exists" in lower or status == 409 or "already in use" in lower or "unique constraint" in lower:
            return ExistsError(f"{where} ({what}).")
        if status == 404 or "not found" in lower:
            project = f", project {self.project}" if self.project else ""
            return MissingError(f"{where} ({what}{project}).")
        return IncusError(f"{where} ({what}).")

    def _unreachable(self, error: Exception) -> UnreachableError:
        server = self.server
        number = _errno(error)
        text = str(error).lower()
        if server.is_local and number == errno.EACCES:
            return UnreachableError(
                f"No permission on the Incus socket {server.endpoint}.",
                "Join the group incus-admin (`adduser $USER incus-admin`) and log in again, or run this as root.",
            )
        if server.is_local and number in (errno.ENOENT, errno.ECONNREFUSED):
            return UnreachableError(
                f"The Incus daemon is not running (nothing answers on {server.endpoint}).",
                "Start it: `systemctl start incus`, or `make lab` where systemd is not running.",
            )
        if "fingerprint" in text:
            return UnreachableError(
                f"Incus on {server} shows another certificate than the one pinned in {server.pinned}.",
                f"If the server was reinstalled: `incus remote remove {server.name}`, then add it again.",
            )
        if isinstance(error, requests.exceptions.SSLError) or "certificate" in text:
            return UnreachableError(
                f"The certificate of Incus on {server} cannot be verified.",
                f"Add the server with `incus remote add {server.name}`, which pins its certificate.",
            )
        if isinstance(error, requests.exceptions.Timeout) or "timed out" in text:
            return UnreachableError(f"Incus on {server} did not answer in time.", "Is the server overloaded or away?")
        return UnreachableError(
            f"Incus on {server} is not reachable ({_root(error)}).", "Is the server up and the address right?"
        )


_open_servers: dict[tuple[Server, str | None], Rest] = {}


def connect(server: Server | str | None = None, project: str | None = None) -> Rest:
    """The API of `server` (a name from `incus remote`, None: this machine); one `Rest` per process and project."""
    if not isinstance(server, Server):
        server = find_server(server)
    return _open_servers.setdefault((server, project), Rest(server, project))


def _root(error: BaseException) -> BaseException:
    """The innermost exception: requests wraps urllib3's, which wraps the socket's."""
    while True:
        inner = error.__cause__ or error.__context__ or getattr(error, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((a for a in error.args if isinstance(a, BaseException)), None)
        if inner is None:
            return error
        error = inner


def _errno(error: BaseException) -> int | None:
    root = _root(error)
    return root.errno if isinstance(root, OSError) else None


class _SocketConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("incus")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(limits.CONNECT_TIMEOUT_S)
        self.sock.connect(self._path)


class _SocketPool(HTTPConnectionPool):
    def __init__(self, path: str) -> None:
        super().__init__("incus", maxsize=limits.KEPT_CONNECTIONS)
        self._path = path

    def _new_conn(self) -> HTTPConnection:
        return _SocketConnection(self._path)


class _SocketAdapter(HTTPAdapter):
    """Sends every request of a session to one Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._pool = _SocketPool(path)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        return self._pool

    def request_url(self, request: Any, _: Any) -> str:
        return str(request.path_url)

    def close(self) -> None:
        self._pool.close()
        super().close()
