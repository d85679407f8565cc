"""A server reached over HTTPS, through the user's own `incus remote` configuration."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anycastlab.incus import replace
from anycastlab.incus.errors import UnreachableError
from anycastlab.incus.exec import execute
from anycastlab.incus.remotes import Server, remote_server
from anycastlab.incus.rest import Rest

from .conftest import LAB, Run

REMOTE = "attic"
CLIENT = "anycastlab-test"


def incus(*arguments: str, directory: Path | None = None) -> str:
    environment = {**os.environ, **({"INCUS_CONF": str(directory)} if directory else {})}
    result = subprocess.run(
        ["incus", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return result.stdout.strip()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A client configuration that knows this machine's daemon as a remote; the daemon listens meanwhile."""
    directory = tmp_path_factory.mktemp("incus")
    before = incus("config", "get", "core.https_address")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    incus("config", "set", "core.https_address", f"127.0.0.1:{port}")
    try:
        token = incus("config", "trust", "add", CLIENT, "--quiet")
        incus("remote", "add", REMOTE, token, directory=directory)
        yield directory
    finally:
        for line in incus("config", "trust", "list", "--format", "csv", "--columns", "nf").splitlines():
            name, _, fingerprint = line.partition(",")
            if name == CLIENT:
                incus("config", "trust", "remove", fingerprint)
        incus("config", "set", "core.https_address", before)


@pytest.fixture
def away(directory: Path) -> Iterator[Rest]:
    rest = Rest(remote_server(REMOTE, directory), LAB.project)
    yield rest
    if rest._client is not None:
        rest.client.api.session.close()


def test_the_certificate_is_pinned(directory: Path) -> None:
    server = remote_server(REMOTE, directory)
    assert server.endpoint.startswith("https://127.0.0.1:")
    assert server.pinned == str(directory / "servercerts" / f"{REMOTE}.crt")


def test_commands_and_files_work_as_on_the_socket(box: str, away: Rest) -> None:
    assert execute(away, box, ["cat"], stdin=bytes(range(256))).stdout == bytes(range(256))
    replace.put(away, box, "/root/remote", b"over https", mode=0o600, uid=9)
    assert execute(away, box, ["stat", "-c", "%u %a", "/root/remote"]).text.split() == ["9", "600"]


def test_pyinfra_reaches_it_by_the_remotes_name(box: str, directory: Path, pyinfra: Callable[..., Run]) -> None:
    deploy = "from pyinfra.operations import server\nserver.shell(commands=['test $(hostname) = box'])\n"
    result = pyinfra([f"@incus/{REMOTE}:{box}"], deploy, "-y", environment={"INCUS_CONF": str(directory)})
    assert result.code == 0, result.text


def test_another_certificate_than_the_pinned_one_is_refused(directory: Path, tmp_path: Path) -> None:
    server = remote_server(REMOTE, directory)
    # Some other valid certificate: our own.
    pinned = tmp_path / "other.crt"
    pinned.write_bytes((directory / "client.crt").read_bytes())
    changed = Server(server.name, server.endpoint, None, server.certificate, server.key, str(pinned))
    with pytest.raises(UnreachableError, match="shows another certificate than the one pinned"):
        Rest(changed).get("/")


def test_a_client_the_server_does_not_know_is_told_so(directory: Path, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    incus("remote", "generate-certificate", directory=stranger)
    server = remote_server(REMOTE, directory)
    unknown = Server(
        server.name, server.endpoint, None, str(stranger / "client.crt"), str(stranger / "client.key"), server.pinned
    )
    with pytest.raises(UnreachableError, match="does not trust this machine's client certificate"):
        Rest(unknown).get("/instances")


def test_nobody_listening_is_one_sentence(directory: Path) -> None:
    server = remote_server(REMOTE, directory)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"https://127.0.0.1:{probe.getsockname()[1]}"
    gone = Server(REMOTE, nobody, None, server.certificate, server.key, server.pinned)
    with pytest.raises(UnreachableError, match="is not reachable"):
        Rest(gone).get("/")
