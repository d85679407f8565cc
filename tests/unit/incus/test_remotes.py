"""Which server is meant: socket discovery and the user's `incus remote` configuration."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from anycastlab.incus import remotes
from anycastlab.incus.errors import IncusError, UnreachableError

CONFIG = """
default-remote: attic
remotes:
  attic:
    addr: https://192.0.2.7:8443
    protocol: incus
    project: dns
  images:
    addr: https://images.example.org
    protocol: simplestreams
    public: true
  local:
    addr: unix://
  own:
    addr: unix:///srv/incus/unix.socket
"""


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "unix.socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        yield path


def configuration(directory: Path, *, client: bool = True, pinned: bool = True) -> Path:
    (directory / "config.yml").write_text(CONFIG)
    (directory / "servercerts").mkdir()
    if client:
        (directory / "client.crt").write_text("certificate")
        (directory / "client.key").write_text("key")
    if pinned:
        (directory / "servercerts" / "attic.crt").write_text("server")
    return directory


def test_incus_socket_wins_over_incus_dir(listening: Path, tmp_path: Path) -> None:
    server = remotes.local_server({"INCUS_SOCKET": str(listening), "INCUS_DIR": str(tmp_path / "elsewhere")})
    assert server.endpoint == str(listening)
    assert server.is_local


def test_incus_dir_is_searched_for_the_socket(listening: Path) -> None:
    assert remotes.local_server({"INCUS_DIR": str(listening.parent)}).endpoint == str(listening)


def test_a_named_socket_that_is_not_there_is_not_replaced_by_another(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=str(tmp_path / "nothing")):
        remotes.local_server({"INCUS_SOCKET": str(tmp_path / "nothing")})


def test_run_comes_before_var_lib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / "run", tmp_path / "var"]
    monkeypatch.setattr(remotes, "SYSTEM_SOCKETS", places)
    sockets = []
    for place in reversed(places):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(str(place))
        assert remotes.local_server({}).endpoint == str(place)
    for each in sockets:
        each.close()


def test_no_socket_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "SYSTEM_SOCKETS", (tmp_path / "a", tmp_path / "b"))
    with pytest.raises(UnreachableError) as caught:
        remotes.local_server({})
    assert str(caught.value) == (
        f"No Incus daemon listens on this machine (looked for {tmp_path}/a and {tmp_path}/b). "
        "Start it (systemctl start incus), or install it with `make lab`."
    )


def test_a_remote_has_its_address_project_certificates_and_pin(tmp_path: Path) -> None:
    directory = configuration(tmp_path)
    server = remotes.remote_server("attic", directory)
    assert server == remotes.Server(
        "attic",
        "https://192.0.2.7:8443",
        "dns",
        certificate=str(directory / "client.crt"),
        key=str(directory / "client.key"),
        pinned=str(directory / "servercerts" / "attic.crt"),
    )
    assert not server.is_local


def test_without_a_pin_the_systems_authorities_decide(tmp_path: Path) -> None:
    assert remotes.remote_server("attic", configuration(tmp_path, pinned=False)).pinned is None


def test_a_remote_may_be_a_socket(tmp_path: Path) -> None:
    assert remotes.remote_server("own", configuration(tmp_path)).endpoint == "/srv/incus/unix.socket"


def test_image_servers_are_no_servers(tmp_path: Path) -> None:
    assert "images" not in remotes.parse_remotes(CONFIG, tmp_path)


def test_an_unknown_remote_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(IncusError) as caught:
        remotes.remote_server("cellar", configuration(tmp_path))
    assert "cellar" in caught.value.problem
    assert "attic, local, own" in caught.value.problem
    assert "incus remote add cellar" in caught.value.hint


def test_no_configuration_at_all_knows_no_remote(tmp_path: Path) -> None:
    with pytest.raises(IncusError, match="known: none"):
        remotes.remote_server("attic", tmp_path)


def test_a_remote_needs_a_client_certificate(tmp_path: Path) -> None:
    with pytest.raises(IncusError, match="no client certificate"):
        remotes.remote_server("attic", configuration(tmp_path, client=False))


@pytest.mark.parametrize("text", ["- just\n- a list", "remotes: {attic: 5}", "remotes: 3", ""])
def test_a_configuration_without_remotes_knows_none(text: str, tmp_path: Path) -> None:
    assert remotes.parse_remotes(text, tmp_path) == {}


def test_a_damaged_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(IncusError, match=f"{tmp_path}/config.yml is not valid YAML"):
        remotes.parse_remotes("remotes: [", tmp_path)


def test_the_configuration_is_where_incus_looks_for_it() -> None:
    assert remotes.configuration_directory({"INCUS_CONF": "/a"}) == Path("/a")
    assert remotes.configuration_directory({"XDG_CONFIG_HOME": "/x"}) == Path("/x/incus")
