"""Which Incus server is meant and how to reach it: the local socket, or a remote of the user's own `incus remote` list.

A remote server is trusted the way the `incus` client trusts it: by its pinned certificate in `servercerts/` where there
is one (that is every server added with `incus remote add`), by the system's authorities otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .errors import IncusError, UnreachableError

LOCAL = "local"
# The order of Incus' own client (FHS first, then where a daemon with INCUS_DIR unset puts it).
SYSTEM_SOCKETS = (Path("/run/incus/unix.socket"), Path("/var/lib/incus/unix.socket"))


@dataclass(frozen=True)
class Server:
    """How to reach one Incus server. `endpoint` is a socket path or an https:// address."""

    name: str
    endpoint: str
    project: str | None = None  # the project the user chose for this remote, if any
    certificate: str | None = None  # our client certificate and key (paths)
    key: str | None = None
    pinned: str | None = None  # path of the server's own certificate; None: ask the system's authorities

    @property
    def is_local(self) -> bool:
        return self.endpoint.startswith("/")

    def __str__(self) -> str:
        return "this machine" if self.is_local else f"{self.name} ({self.endpoint})"


def local_server(environ: Mapping[str, str] = os.environ) -> Server:
    """The daemon on this machine. Raises `UnreachableError` when there is no socket to talk to."""
    if named := environ.get("INCUS_SOCKET"):
        candidates = [Path(named)]
    elif directory := environ.get("INCUS_DIR"):
        candidates = [Path(directory) / "unix.socket"]
    else:
        candidates = list(SYSTEM_SOCKETS)
    for path in candidates:
        try:
            if path.is_socket():
                return Server(LOCAL, str(path))
        except PermissionError:
            # /var/lib/incus is 0711, so this is a directory somebody closed; connecting gives the clearer sentence.
            return Server(LOCAL, str(path))
    raise UnreachableError(
        f"No Incus daemon listens on this machine (looked for {' and '.join(map(str, candidates))}).",
        "Start it (systemctl start incus), or install it with `make lab`.",
    )


def configuration_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where `incus remote add` writes (INCUS_CONF, else ~/.config/incus)."""
    if named := environ.get("INCUS_CONF"):
        return Path(named)
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "incus"


def remote_server(name: str, directory: Path) -> Server:
    """The remote called `name` in the user's Incus client configuration in `directory`."""
    remotes = parse_remotes(_read_configuration(directory), directory)
    if name not in remotes:
        known = ", ".join(sorted(remotes)) or "none"
        raise IncusError(
            f"No Incus remote is called {name!r} in {directory / 'config.yml'} (known: {known}).",
            f"Add it with `incus remote add {name} ADDRESS`.",
        )
    server = remotes[name]
    if not server.is_local and (server.certificate is None or server.key is None):
        raise IncusError(
            f"There is no client certificate for the Incus remote {name} in {directory}.",
            f"Run `incus remote add {name} ADDRESS` once; it makes client.crt and client.key.",
        )
    return server


def find_server(name: str | None, environ: Mapping[str, str] = os.environ) -> Server:
    """The server called `name`; None or "local" is the daemon on this machine."""
    if name is None or name == LOCAL:
        return local_server(environ)
    return remote_server(name, configuration_directory(environ))


def parse_remotes(text: str, directory: Path) -> dict[str, Server]:
    """Servers (not image servers) in the text of a `config.yml`; certificates are looked for in `directory`."""
    servers: dict[str, Server] = {}
    for name, remote in _remotes(text, directory / "config.yml").items():
        if remote.get("protocol", "incus") not in ("incus", "lxd"):
            continue
        address = str(remote.get("addr", ""))
        project = remote.get("project") or None
        if address.startswith("unix:"):
            path = address.removeprefix("unix:")
            path = path[2:] if path.startswith("//") else path
            servers[name] = Server(name, path, project) if path.startswith("/") else _local_or_placeholder(name)
        elif address.startswith("https://"):
            certificate, key = directory / "client.crt", directory / "client.key"
            pinned = directory / "servercerts" / f"{name}.crt"
            servers[name] = Server(
                name,
                address.rstrip("/"),
                project,
                certificate=str(certificate) if certificate.exists() else None,
                key=str(key) if key.exists() else None,
                pinned=str(pinned) if pinned.exists() else None,
            )
    return servers


def _local_or_placeholder(name: str) -> Server:
    # `unix://` without a path means "the local daemon, wherever it is"; not having one must not break other remotes.
    try:
        return Server(name, local_server().endpoint)
    except UnreachableError:
        return Server(name, str(SYSTEM_SOCKETS[-1]))


def _remotes(text: str, source: Path) -> dict[str, dict[str, Any]]:
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise IncusError(f"{source} is not valid YAML ({error}).", "Repair or remove it.") from error
    remotes = parsed.get("remotes") if isinstance(parsed, dict) else None
    if not isinstance(remotes, dict):
        return {}
    return {str(name): remote for name, remote in remotes.items() if isinstance(remote, dict)}


def _read_configuration(directory: Path) -> str:
    try:
        return (directory / "config.yml").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise IncusError(f"Cannot read {directory / 'config.yml'}: {error}.") from error
