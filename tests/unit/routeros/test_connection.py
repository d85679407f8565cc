"""The API session against well-behaved, broken and hostile routers: a sentence each, never a late or half answer."""

from __future__ import annotations

import datetime
import logging
import socket
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.errors import (
    NoSuchCommand,
    NoSuchItem,
    NotPermitted,
    RouterDenied,
    RouterError,
    RouterLost,
    RouterRefused,
    RouterUnreachable,
)
from anycastlab.routeros.transport import SocketTransport
from anycastlab.virtual_router.testing import PASSWORD, running_router
from tests.unit.routeros.scripted import DONE, after_login, playing, read_sentence, sentence


def connect(
    port: int, user: str = "admin", password: str = PASSWORD, timeout_s: float = 1.0, **tls: object
) -> Connection:
    return Connection(Target("127.0.0.1", port, user, password, **{"tls": False, **tls}), call_timeout_s=timeout_s)  # type: ignore[arg-type]


# --- text both ways --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["10", "no", "yes", "true", "007", "", "=a=b", "Küche ☕ 日本", "a\nb", " x "])
def test_values_stay_text_in_both_directions(text: str) -> None:
    with running_router() as router:
        connection = connect(router.port)
        row_id = connection.add("/ip/firewall/filter", {"chain": "input", "action": "accept", "comment": text})
        rows = connection.print("/ip/firewall/filter", [".id", "comment"])
        assert [row.get("comment", "") for row in rows if row[".id"] == row_id] == [text]
        connection.close()


def test_bytes_that_are_not_utf8_come_back_as_the_same_bytes() -> None:
    seen: list[bytes] = []

    def play(peer: socket.socket) -> None:
        read_sentence(peer)
        peer.sendall(DONE)
        read_sentence(peer)
        peer.sendall(sentence("!re", b"=comment=K\xfcche") + DONE)
        seen.append(peer.recv(1000))
        peer.sendall(DONE)

    with playing(play) as port:
        connection = connect(port)
        (row,) = connection.print("/x")
        connection.set("/x", "*1", {"comment": row["comment"]})
        connection.close()
    assert b"=comment=K\xfcche" in seen[0]


def test_clearing_a_property_and_settings_menus() -> None:
    with running_router() as router:
        connection = connect(router.port)
        row_id = connection.add(
            "/ip/firewall/filter", {"chain": "input", "action": "accept", "src-address": "10.0.0.1"}
        )
        connection.set("/ip/firewall/filter", row_id, {"src-address": None})
        assert "src-address" not in connection.print("/ip/firewall/filter")[0]
        connection.set("/ip/dns", None, {"allow-remote-requests": "yes"})
        assert connection.print("/ip/dns")[0]["allow-remote-requests"] == "true"
        connection.close()


def test_a_remove_without_an_id_is_refused_here() -> None:
    with pytest.raises(ValueError, match="without an id"):
        connect(1).remove("/ip/firewall/filter", "")


# --- refusals --------------------------------------------------------------------------------------------------------


def test_traps_become_their_kind_of_error_and_the_session_goes_on() -> None:
    with running_router() as router:
        connection = connect(router.port)
        with pytest.raises(NoSuchCommand, match="does not know /routing/nothing/print"):
            connection.print("/routing/nothing")
        with pytest.raises(NoSuchItem):
            connection.remove("/ip/firewall/filter", "*FFFF")
        with pytest.raises(RouterRefused, match="shoe") as caught:
            connection.add("/ip/firewall/filter", {"chain": "input", "shoe": "42"})
        assert "unknown parameter" in caught.value.message
        assert connection.print("/system/identity") == [{"name": "router"}]
        connection.close()


def test_a_missing_policy_is_named() -> None:
    with running_router() as router:
        connection = connect(router.port, "reader")
        with pytest.raises(NotPermitted, match="needs the policy write"):
            connection.add("/ip/firewall/filter", {"chain": "input"})
        connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        sentence("!trap", "=message=no such item", "=surprise=1", "=category=0") + DONE,
        sentence("!trap") + DONE,
        sentence("!trap", "=message=first") + sentence("!trap", "=message=no such item (4)") + DONE,
    ],
)
def test_traps_with_unknown_missing_or_many_words_are_refusals(answer: bytes) -> None:
    with playing(after_login(answer, sentence("!re", "=a=1") + DONE)) as port:
        connection = connect(port)
        with pytest.raises(RouterRefused):
            connection.call("/a/b")
        assert connection.call("/a/print") == [{"a": "1"}]
        connection.close()


def test_empty_and_tagged_sentences_are_understood() -> None:
    with playing(after_login(sentence("!empty") + DONE, b"\0" + sentence("!re", ".tag=x", "=a=1=2") + DONE)) as port:
        connection = connect(port)
        assert connection.call("/a/print") == []
        assert connection.call("/a/print") == [{"a": "1=2"}]
        connection.close()


# --- log-in and secrets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["falsch-4711", "no", "10", "Schlüssel ☕"])
def test_a_wrong_password_is_one_sentence_without_the_password(password: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running_router() as router:
        connection = connect(router.port, "admin", password)
        with pytest.raises(RouterDenied, match="does not accept user admin") as caught:
            connection.open()
        shown = f"{caught.value!r} {caught.value} {connection!r} {connection.target!r} {caplog.text}"
        assert f"{password}'" not in shown
        assert "falsch" not in shown
        assert "Schl" not in shown


def test_names_and_passwords_like_no_and_10_log_in() -> None:
    from anycastlab.virtual_router.config import User

    with running_router(users=[User("no", "10"), User("10", "no"), User("ärger", "Schlüssel ☕")]) as router:
        for user, password in [("no", "10"), ("10", "no"), ("ärger", "Schlüssel ☕")]:
            connection = connect(router.port, user, password)
            connection.open()
            connection.close()


def test_the_password_is_in_no_log_even_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running_router() as router:
        connection = connect(router.port)
        connection.print("/ip/dns")
        connection.close()
    assert PASSWORD not in caplog.text


# --- lines that break ------------------------------------------------------------------------------------------------


def test_a_late_answer_is_never_taken_for_the_next_one() -> None:
    def slow(peer: socket.socket) -> None:
        read_sentence(peer)
        peer.sendall(DONE)
        read_sentence(peer)
        time.sleep(0.4)
        peer.sendall(sentence("!re", "=late=yes") + DONE)
        time.sleep(0.2)

    with playing(slow, after_login(sentence("!re", "=fresh=yes") + DONE)) as port:
        connection = connect(port, timeout_s=0.2)
        with pytest.raises(RouterLost, match=r"no complete answer within 0\.2 s"):
            connection.call("/a/print")
        assert connection.call("/b/print") == [{"fresh": "yes"}]
        connection.close()


def test_a_router_that_trickles_is_cut_off_at_the_deadline() -> None:
    def trickle(peer: socket.socket) -> None:
        read_sentence(peer)
        peer.sendall(DONE)
        read_sentence(peer)
        for _ in range(40):
            peer.sendall(sentence("!re", "=a=1"))
            time.sleep(0.05)

    with playing(trickle) as port:
        started = time.monotonic()
        with pytest.raises(RouterLost):
            connect(port, timeout_s=0.3).call("/a/print")
        assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x03!r",
        sentence("!re", "=a=1"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\xef\xff\xff\xffxx",
        sentence("!what", "=a=1"),
        sentence("!fatal", "not logged in"),
        sentence("!fatal"),
        sentence("!re", *(f"=p{n}=x" for n in range(2000))) + DONE,
    ],
)
def test_what_is_not_an_answer_is_a_sentence_and_the_next_call_starts_afresh(answer: bytes) -> None:
    good = after_login(sentence("!re", "=fine=1") + DONE)
    with playing(after_login(answer), good) as port:
        connection = connect(port)
        with pytest.raises(RouterLost) as caught:
            connection.call("/a/set", "=x=1")
        assert "/a/set" in caught.value.problem
        assert not connection.is_open
        assert connection.call("/b/print") == [{"fine": "1"}]
        connection.close()


def test_a_write_is_never_sent_twice() -> None:
    received: list[str] = []

    def forgetful(peer: socket.socket) -> None:
        read_sentence(peer)
        peer.sendall(DONE)
        read_sentence(peer)
        peer.sendall(DONE)
        received.append(read_sentence(peer)[0])

    with playing(forgetful) as port:
        connection = connect(port)
        connection.call("/a/print")
        with pytest.raises(RouterLost):
            connection.call("/a/add", "=x=1")
        connection.close()
    assert received == ["/a/add"]


def test_reading_on_a_session_the_router_closed_meanwhile_opens_a_new_one() -> None:
    with playing(after_login(DONE), after_login(sentence("!re", "=b=2") + DONE)) as port:
        connection = connect(port)
        assert connection.call("/a/print") == []
        time.sleep(0.1)
        assert connection.call("/b/print") == [{"b": "2"}]
        connection.close()


def test_a_pinned_session_is_not_replaced_when_it_breaks() -> None:
    with playing(after_login(DONE), after_login(DONE)) as port:
        connection = connect(port)
        with connection.pinned():
            connection.call("/safe-mode/take")
            with pytest.raises(RouterLost):
                connection.call("/b/print")
            with pytest.raises(RouterLost, match="is gone"):
                connection.call("/b/print")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80))
def test_any_bytes_give_rows_or_a_router_error(fuzz_port: tuple[int, list[bytes]], data: bytes) -> None:
    port, answers = fuzz_port
    answers[:] = [data]
    connection = connect(port, timeout_s=0.5)
    try:
        rows = connection.call("/a/print")
    except RouterError:
        return
    finally:
        connection.close()
    assert all(isinstance(value, str) for row in rows for value in row.values())


@pytest.fixture
def fuzz_port():  # type: ignore[no-untyped-def]
    answers: list[bytes] = []

    def play(peer: socket.socket) -> None:
        read_sentence(peer)
        peer.sendall(DONE)
        read_sentence(peer)
        peer.sendall(answers[0])

    with playing(play) as port:
        yield port, answers


def test_a_hundred_thousand_rows_are_read_at_a_pace() -> None:
    row = sentence("!re", "=.id=*1", "=chain=input", "=action=accept", "=src-address=10.0.0.1", "=comment=x")
    with playing(after_login(row * 100_000 + DONE)) as port:
        connection = connect(port, timeout_s=30)
        started = time.process_time()
        rows = connection.print("/ip/firewall/filter")
        assert len(rows) == 100_000
        assert time.process_time() - started < 8
        connection.close()


# --- not there -------------------------------------------------------------------------------------------------------


def test_nobody_listening_says_which_service_to_enable() -> None:
    with pytest.raises(RouterUnreachable, match=r"No API service answers at 127\.0\.0\.1:1 .*set api disabled=no"):
        connect(1).open()


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(RouterUnreachable, match=r"no-such-router\.invalid does not resolve"):
        Connection(Target("no-such-router.invalid", 8728, "a", "b", tls=False)).open()


def test_another_service_on_that_port_is_recognised() -> None:
    def ssh(peer: socket.socket) -> None:
        peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

    with playing(ssh) as port, pytest.raises(RouterUnreachable, match="does not speak the RouterOS API"):
        connect(port).open()


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "router")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem", made.fingerprint(hashes.SHA256()).hex()


def test_a_self_signed_certificate_is_refused_with_its_fingerprint_and_taken_when_pinned(
    certificate: tuple[Path, Path, str],
) -> None:
    cert, key, fingerprint = certificate
    with running_router(tls=(cert, key)) as router:
        assert router.tls_port is not None
        with pytest.raises(RouterUnreachable, match=f"sha256 {fingerprint}"):
            connect(router.tls_port, tls=True).open()
        colons = ":".join(fingerprint[i : i + 2] for i in range(0, 64, 2)).upper()
        for pin in (fingerprint, colons, f"sha256:{fingerprint}"):
            connection = connect(router.tls_port, tls=True, fingerprint=pin)
            assert connection.print("/system/identity") == [{"name": "router"}]
            connection.close()
        with pytest.raises(RouterUnreachable, match="not the pinned"):
            connect(router.tls_port, tls=True, fingerprint="0" * 64).open()


def test_tls_on_a_plain_port_says_so() -> None:
    with running_router() as router, pytest.raises(RouterUnreachable, match="router_tls"):
        connect(router.port, tls=True).open()


def test_a_port_that_leaves_the_tls_handshake_hanging_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anycastlab.routeros.transport.CONNECT_TIMEOUT_S", 0.2)

    def silent(peer: socket.socket) -> None:
        while peer.recv(4096):
            pass

    with playing(silent) as port, pytest.raises(RouterUnreachable, match="router_tls"):
        connect(port, tls=True).open()


# --- counting --------------------------------------------------------------------------------------------------------


def test_round_trips_are_counted_and_transport_can_be_injected() -> None:
    opened: list[str] = []
    with playing(after_login(DONE, DONE)) as port:

        def opener(host: str, _port: int, _tls: bool, _pin: str | None) -> SocketTransport:
            opened.append(host)
            return SocketTransport(socket.create_connection(("127.0.0.1", port)))

        connection = Connection(Target("192.0.2.1", 8728, "a", "b"), opener)
        connection.call("/a/print")
        connection.call("/b/print")
        assert opened == ["192.0.2.1"]
        assert connection.round_trips == 3  # log-in counts
        connection.close()


# --- side by side ----------------------------------------------------------------------------------------------------


def test_readings_are_asked_side_by_side_in_one_round_trip() -> None:
    with running_router() as router:
        connection = connect(router.port)
        connection.open()
        before = connection.round_trips
        names, missing, dns = connection.call_many(
            [["/system/identity/print"], ["/no/such/menu/print"], ["/ip/dns/print", "=.proplist=allow-remote-requests"]]
        )
        assert names == [{"name": "router"}]
        assert isinstance(missing, NoSuchCommand)
        assert dns == [{"allow-remote-requests": "false"}]
        assert connection.round_trips - before == 1
        with pytest.raises(ValueError, match="only readings"):
            connection.call_many([["/ip/dns/set", "=x=y"]])
        connection.close()


def test_mixed_and_late_tagged_answers_find_their_question() -> None:
    mixed = (
        sentence("!re", ".tag=1", "=b=1")
        + sentence("!re", "=a=1", ".tag=0")
        + sentence("!done", ".tag=1")
        + sentence("!trap", "=message=no such item", ".tag=0")
        + sentence("!done", ".tag=0")
    )
    with playing(after_login(mixed)) as port:
        connection = connect(port)
        first, second = connection.call_many([["/a/print"], ["/b/print"]])
        connection.close()
        assert isinstance(first, NoSuchItem)
        assert second == [{"b": "1"}]


@pytest.mark.parametrize("answer", [sentence("!done", ".tag=7"), sentence("!done"), sentence("!re", ".tag=0"), b""])
def test_a_tagged_answer_to_nothing_asked_closes_the_session(answer: bytes) -> None:
    with playing(after_login(answer)) as port:
        connection = connect(port)
        with pytest.raises(RouterLost):
            connection.call_many([["/a/print"], ["/b/print"]])
        assert not connection.is_open
