"""The conversation with the server: one connection, and every failure a sentence."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from urllib3.exceptions import ProtocolError, SSLError

from anycastlab.incus import limits
from anycastlab.incus.errors import BusyError, ExistsError, IncusError, MissingError, NotRunningError, UnreachableError
from anycastlab.incus.instances import check_architecture
from anycastlab.incus.remotes import Server
from anycastlab.incus.rest import Rest

from .fake_server import INFO, FakeIncus, running


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeIncus]:
    with running(tmp_path / "unix.socket") as fake:
        yield fake


@pytest.fixture
def rest(fake: FakeIncus) -> Iterator[Rest]:
    rest = Rest(fake.server, "anycastlab-tb")
    yield rest
    if rest._client is not None:
        rest.client.api.session.close()


def test_many_requests_for_different_things_share_one_connection(fake: FakeIncus, rest: Rest) -> None:
    for number in range(20):
        fake.answers[f"GET /1.0/instances/n{number}"] = (200, {"name": f"n{number}"})
        assert rest.get(f"/instances/n{number}") == {"name": f"n{number}"}
    assert len(fake.requests) == 21
    assert fake.connections == 1


def test_a_connection_the_server_closed_meanwhile_is_replaced(fake: FakeIncus, rest: Rest) -> None:
    assert rest.get("/")["auth"] == "trusted"
    pool = rest.client.api.session.get_adapter("http+unix://").get_connection_with_tls_context(None)
    connection = pool._get_conn()
    connection.sock.shutdown(socket.SHUT_RDWR)
    pool._put_conn(connection)
    assert rest.get("/")["auth"] == "trusted"
    assert fake.connections == 2


def test_find_is_none_for_what_is_not_there(rest: Rest) -> None:
    assert rest.find("/instances/nobody") is None


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "Instance not found", MissingError),
        (400, "Instance is not running", NotRunningError),
        (400, "Instance is frozen", NotRunningError),
        (409, "Instance already exists", ExistsError),
        (400, "The instance is already running", ExistsError),
        (500, 'Network "lab-lan" already exists', ExistsError),
        (500, "UNIQUE constraint failed: projects.name", ExistsError),
        (400, "Storage pool not found", MissingError),
        (403, "User does not have permission", UnreachableError),
        (500, "database is locked", IncusError),
    ],
)
def test_a_refusal_says_what_the_server_said(
    fake: FakeIncus, rest: Rest, status: int, text: str, kind: type[IncusError]
) -> None:
    fake.answers["PUT /1.0/instances/node01"] = (status, text)
    with pytest.raises(IncusError) as caught:
        rest.run("put", "/instances/node01", {})
    assert type(caught.value) is kind
    assert text in caught.value.problem


def test_a_helper_of_the_server_that_was_just_not_there_is_waited_for(
    fake: FakeIncus, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BUSY_PAUSE_S", 0.0)
    lost = "dial unix /proc/self/fd/29/forkfile.sock: connect: no such file or directory"
    fake.answers["POST /1.0/instances/node01/files"] = (500, lost)
    with pytest.raises(BusyError, match=r"forkfile\.sock"):
        rest.write("/instances/node01/files", b"x", {}, path="/etc/hostname")
    assert sum(line.startswith("POST /1.0/instances/node01/files") for line in fake.requests) == limits.BUSY_TRIES


def test_an_interface_that_vanished_while_a_bridge_was_made_is_no_reason_to_give_up(
    fake: FakeIncus, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BUSY_PAUSE_S", 0.0)
    lost = (
        "Failed to delete bridge children interfaces: Failed to run: ip -d -j link show x-eth0: exit status 1 "
        '(Device "x-eth0" does not exist.)'
    )
    fake.answers["POST /1.0/networks"] = (500, lost)
    with pytest.raises(BusyError, match="x-eth0"):
        rest.run("post", "/networks", {})
    assert sum(line.startswith("POST /1.0/networks") for line in fake.requests) == limits.BUSY_TRIES


def test_a_failed_operation_is_an_error_with_the_servers_reason(fake: FakeIncus, rest: Rest) -> None:
    fake.answers["GET /1.0/operations/1/wait"] = (200, {"status_code": 400, "err": "No space left on device"})
    with pytest.raises(IncusError, match="No space left on device"):
        rest.wait("/1.0/operations/1", 5)


def test_an_operation_that_goes_on_is_none(fake: FakeIncus, rest: Rest) -> None:
    fake.answers["GET /1.0/operations/1/wait"] = (200, {"status_code": 103})
    assert rest.wait("/1.0/operations/1", 1) is None


def test_no_daemon_behind_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "unix.socket"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with pytest.raises(UnreachableError) as caught:
        Rest(Server("local", str(path))).get("/")
    assert str(caught.value) == (
        f"The Incus daemon is not running (nothing answers on {path}). "
        "Start it: `systemctl start incus`, or `make lab` where systemd is not running."
    )


def test_an_untrusted_client_is_told_how_to_be_trusted(fake: FakeIncus, rest: Rest) -> None:
    fake.answers["GET /1.0"] = (200, {**INFO, "auth": "untrusted"})
    with pytest.raises(UnreachableError, match="does not trust this machine's client certificate"):
        rest.get("/instances/node01")


LOCAL = Server("local", "/run/incus/unix.socket")
REMOTE = Server("attic", "https://192.0.2.7:8443", pinned="/c/servercerts/attic.crt")


@pytest.mark.parametrize(
    ("server", "error", "sentence"),
    [
        (
            LOCAL,
            ProtocolError("Connection aborted.", PermissionError(errno.EACCES, "Permission denied")),
            "No permission on the Incus socket /run/incus/unix.socket. Join the group incus-admin (`adduser $USER "
            "incus-admin`) and log in again, or run this as root.",
        ),
        (
            REMOTE,
            SSLError('Fingerprints did not match. Expected "a", got "b"'),
            "Incus on attic (https://192.0.2.7:8443) shows another certificate than the one pinned in "
            "/c/servercerts/attic.crt. If the server was reinstalled: `incus remote remove attic`, then add it again.",
        ),
        (
            REMOTE,
            requests.exceptions.ConnectTimeout("timed out"),
            "Incus on attic (https://192.0.2.7:8443) did not answer in time. Is the server overloaded or away?",
        ),
        (
            REMOTE,
            ProtocolError("x", ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")),
            "Incus on attic (https://192.0.2.7:8443) is not reachable (Connection refused). "
            "Is the server up and the address right?",
        ),
        (
            REMOTE,
            requests.exceptions.SSLError("certificate verify failed"),
            "The certificate of Incus on attic (https://192.0.2.7:8443) cannot be verified. "
            "Add the server with `incus remote add attic`, which pins its certificate.",
        ),
    ],
)
def test_what_stands_between_us_and_a_server_is_one_sentence(server: Server, error: Exception, sentence: str) -> None:
    assert str(Rest(server)._unreachable(error)) == sentence


def test_what_would_run_emulated_is_refused_with_both_names(rest: Rest) -> None:
    check_architecture(rest, "i686", "The image x")
    with pytest.raises(IncusError) as caught:
        check_architecture(rest, "aarch64", "The image x")
    assert "for aarch64" in caught.value.problem
    assert "runs on x86_64" in caught.value.problem
