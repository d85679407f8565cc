"""Connections: who gets in, tags, bad traffic, limits, TLS."""

from __future__ import annotations

import hashlib
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anycastlab.virtual_router import limits
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from anycastlab.virtual_router.wire import encode_length, encode_sentence
from tests.unit.virtual_router.support import Client, attributes, connected, opened

WRONG = "invalid user name or password (6)"


@pytest.fixture(scope="module")
def router() -> RunningRouter:  # type: ignore[misc]
    with running_router(max_sessions=50) as running:
        yield running


@pytest.mark.parametrize(
    ("user", "password"),
    [("admin", "wrong"), ("admin", ""), ("nobody", PASSWORD), ("outsider", PASSWORD), ("", "")],
)
def test_who_does_not_belong_here_is_not_let_in(router: RunningRouter, user: str, password: str) -> None:
    with opened(router) as client:
        assert client.refusal("/login", f"=name={user}", f"=password={password}") == WRONG
        assert client.talk("/ip/dns/print") == [["!fatal", "not logged in"]]


def test_a_second_try_may_succeed(router: RunningRouter) -> None:
    with opened(router) as client:
        assert client.refusal("/login", "=name=admin", "=password=wrong") == WRONG
        client.login()
        assert client.rows("/system/identity/print") == [{"name": "router"}]


def test_guessing_ends_the_connection(router: RunningRouter) -> None:
    with opened(router) as client:
        for _ in range(limits.MAX_LOGIN_ATTEMPTS):
            client.send("/login", "=name=admin", "=password=guess")
        assert client.until_closed()[-1] == ["!fatal", "too many login attempts"]


def test_the_old_challenge_login_works_once_per_challenge(router: RunningRouter) -> None:
    client = Client(router)
    challenge = bytes.fromhex(client.ret("/login"))
    digest = hashlib.md5(b"\0" + PASSWORD.encode() + challenge, usedforsecurity=False).hexdigest()
    assert client.refusal("/login", "=name=admin", "=response=00" + "0" * 32) == WRONG
    assert client.refusal("/login", "=name=admin", f"=response=00{digest}") == WRONG
    challenge = bytes.fromhex(client.ret("/login"))
    digest = hashlib.md5(b"\0" + PASSWORD.encode() + challenge, usedforsecurity=False).hexdigest()
    client.ok("/login", "=name=admin", f"=response=00{digest}")
    client.close()


def test_an_account_can_be_tied_to_addresses(router: RunningRouter) -> None:
    with connected(router) as admin:
        number = admin.ret("/user/add", "=name=far", "=group=full", "=password=x", "=address=10.9.9.0/24")
        stranger = Client(router)
        assert stranger.refusal("/login", "=name=far", "=password=x") == WRONG
        admin.ok("/user/set", f"=.id={number}", "=address=127.0.0.0/8")
        stranger.ok("/login", "=name=far", "=password=x")
        stranger.close()
        admin.ok("/user/remove", f"=.id={number}")


def test_logins_are_logged_and_sessions_are_listed(router: RunningRouter) -> None:
    with connected(router, "reader") as client:
        active = client.rows("/user/active/print", "?name=reader")
        assert [(row["via"], row["address"]) for row in active] == [("api", "127.0.0.1")]
        messages = [row["message"] for row in client.rows("/log/print")]
        assert "user reader logged in from 127.0.0.1 via api" in messages


def test_tags_come_back_on_every_reply(router: RunningRouter) -> None:
    with connected(router) as client:
        for reply in client.talk("/system/resource/print", ".tag=7"):
            assert ".tag=7" in reply
        for reply in client.talk("/nonsense/print", ".tag=x y"):
            assert ".tag=x y" in reply
        for reply in client.talk("/ip/dns/print", "garbage", ".tag=8"):
            assert ".tag=8" in reply


def test_many_sentences_may_be_under_way(router: RunningRouter) -> None:
    with connected(router) as client:
        for number in range(200):
            client.send("/system/identity/print", f".tag={number}")
        done = set()
        while len(done) < 200:
            sentence = client.read()
            if sentence[0] == "!done":
                done.add(sentence[-1])
        assert len(done) == 200


def test_untagged_sentences_are_answered_in_order(router: RunningRouter) -> None:
    with connected(router) as client:
        client.send("/system/identity/print")
        client.send("/ip/firewall/nat/print")
        client.send("/system/identity/get", "=value-name=name")
        got = [client.read() for _ in range(5)]
        assert [sentence[0] for sentence in got] == ["!re", "!done", "!empty", "!done", "!done"]
        assert attributes(got[-1])["ret"] == "router"


def test_cancel_of_nothing_is_refused_and_a_bare_cancel_is_fine(router: RunningRouter) -> None:
    with connected(router) as client:
        assert client.refusal("/cancel", "=tag=99") == "unknown parameter tag"
        client.ok("/cancel")


def test_quit_says_goodbye(router: RunningRouter) -> None:
    with connected(router) as client:
        assert client.talk("/quit") == [["!fatal", "session terminated on request"]]
        assert client.until_closed() == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: router\r\n\r\n" * 200,
        b"\xff\xff\xff\xff",
        encode_length(limits.MAX_WORD + 1),
        b"\xf0\xff\xff\xff\xff",
        b"\x01x" * (limits.MAX_WORDS + 1),
    ],
    ids=["http", "control", "huge", "largest", "words"],
)
@pytest.mark.parametrize("logged_in", [False, True])
def test_garbage_ends_its_own_connection_only(router: RunningRouter, garbage: bytes, logged_in: bool) -> None:
    with connected(router) as other:
        client = Client(router)
        if logged_in:
            client.login()
        client.socket.sendall(garbage)
        client.socket.shutdown(socket.SHUT_WR)
        client.until_closed()
        client.close()
        assert other.rows("/system/identity/print") == [{"name": "router"}]


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_after_a_login_harm_the_router(router: RunningRouter, data: bytes) -> None:
    client = Client(router).login("reader")
    client.socket.sendall(data)
    client.close()
    with connected(router) as other:
        assert other.rows("/system/identity/print") == [{"name": "router"}]


words_alphabet = st.sampled_from(
    [
        "/ip/dns/print",
        "/ip/firewall/nat/add",
        "/ip/firewall/nat/move",
        "/user/print",
        "/cancel",
        "/login",
        "=.id=*1",
        "=.id=",
        "=numbers=*1,*2",
        "=chain=x",
        "=",
        "==",
        "=!comment=",
        "?",
        "?#|",
        "?name",
        ".tag=1",
        ".proplist=name",
        "=.proplist=",
        "x",
        "=count-only=",
        "=value-name=",
        "=destination=",
        "/",
        "//",
        "/safe-mode/toggle",
        "/find",
        "/ip/dns/get",
    ]
)


@given(st.lists(st.lists(words_alphabet, min_size=1, max_size=6), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_every_sentence_is_answered_whatever_it_says(sentences: list[list[str]]) -> None:
    with _shared() as client:
        for sentence in sentences:
            if sentence[0] == "/login" or sentence[0] == "/quit":
                continue
            replies = client.talk(*sentence)
            assert replies[-1][0] == "!done"
            assert not any("stand-in failed" in word for reply in replies for word in reply), replies


class _shared:  # noqa: N801 - reads as a context in the test
    """One router and one connection for all examples."""

    _running: tuple[object, Client] | None = None

    def __enter__(self) -> Client:
        if _shared._running is None:
            context = running_router()
            _shared._running = (context, Client(context.__enter__()).login())
        return _shared._running[1]

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module", autouse=True)
def _stop_shared() -> object:  # type: ignore[misc]
    yield
    if _shared._running is not None:
        context, client = _shared._running
        client.close()
        context.__exit__(None, None, None)  # type: ignore[attr-defined]
        _shared._running = None


def test_more_sessions_than_allowed_are_turned_away() -> None:
    with running_router(max_sessions=2) as router, connected(router), connected(router):
        client = Client(router)
        assert client.read() == ["!fatal", "too many sessions"]
        client.close()


def test_a_silent_connection_is_closed_before_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOGIN_TIMEOUT", 0.1)
    with running_router() as router:
        client = Client(router)
        assert client.read() == ["!fatal", "login timed out"]
        client.close()


def test_a_client_that_reads_nothing_is_dropped_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEND_TIMEOUT", 0.3)
    rows = [{"chain": "input", "comment": "x" * 1000} for _ in range(2000)]
    with running_router(rows={"/ip/firewall/filter": rows}) as router, connected(router) as other:
        deaf = Client(router).login()
        for _ in range(20):
            deaf.send("/ip/firewall/filter/print")
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and len(other.rows("/user/active/print")) > 1:
            time.sleep(0.1)
        assert len(other.rows("/user/active/print")) == 1
        deaf.close()


def test_a_hundred_thousand_bytes_of_script_fit(router: RunningRouter) -> None:
    source = "# ü\n" * 25_000
    with connected(router) as client:
        number = client.ret("/system/script/add", "=name=long", f"=source={source}")
        assert client.rows("/system/script/print", f"?.id={number}")[0]["source"] == source


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=router.lan", "-addext", "subjectAltName=DNS:router.lan,IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def test_the_same_api_over_tls(certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(cafile=str(certificate[0]))
    with running_router(tls=certificate) as router:
        assert router.tls_port is not None
        raw = socket.create_connection((router.host, router.tls_port), 5)
        with context.wrap_socket(raw, server_hostname="router.lan") as sock:
            sock.sendall(encode_sentence(["/login", "=name=admin", f"=password={PASSWORD}"]))
            assert sock.recv(100) == encode_sentence(["!done"])
            sock.sendall(encode_sentence(["/user/active/print", "=.proplist=via"]))
            assert b"=via=api-ssl" in sock.recv(1000)
        plain = socket.create_connection((router.host, router.tls_port), 5)
        plain.sendall(encode_sentence(["/login"]))
        plain.close()
        with connected(router) as other:
            assert other.rows("/system/identity/print") == [{"name": "router"}]
