"""What the probe says about itself, and that saying it never stops it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from anycastlab.probe import publish
from anycastlab.probe.loop import Loop
from anycastlab.probe.notify import Notifier

STATE = {
    "announce": True,
    "effective": False,
    "cause": "healthy",
    "drained": False,
    "changes": 3,
    "p95_s": 0.0021,
    "lateness_s": 0.001,
    "questions": {"resolver": {"good": True, "counts": {"ok": 7}}, "wan": {"good": None, "counts": {}}},
}


def test_a_journal_line_is_one_line_of_pairs() -> None:
    line = publish.log_line("change", {"announce": "false", "reason": 'says "no"\nhere', "p95": 0.25}, publish.NOTICE)
    assert line == '<5>event=change announce=false reason="says \\"no\\" here" p95=0.250'


def test_a_full_journal_loses_lines_and_nothing_else() -> None:
    read_end, write_end = os.pipe()
    journal = publish.Journal(write_end)
    for _ in range(5000):
        journal("change", text="x" * 100)
    assert journal.lost > 0
    os.close(read_end)
    journal("after the reader died")
    os.close(write_end)


def test_state_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = str(tmp_path / "probe.json")
    assert publish.write_state(path, {"node": "node01"}) == ""
    assert publish.read_state(path) == {"node": "node01"}
    assert os.listdir(tmp_path) == ["probe.json"]


def test_somebody_elses_half_written_state_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may open whatever belongs to whom, so the kernel's "no" is played here
    path, foreign = str(tmp_path / "probe.json"), tmp_path / "probe.json.new"
    foreign.write_text("{")

    def guarded(name: str, *how: object, **more: object) -> object:
        if name == str(foreign) and foreign.exists() and foreign.read_text() == "{":
            raise PermissionError(13, "Permission denied")
        return open(name, *how, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(publish, "open", guarded, raising=False)
    assert publish.write_state(path, {"node": "node01"}) == ""
    assert os.listdir(tmp_path) == ["probe.json"]


def test_a_disk_that_takes_nothing_is_reported(tmp_path: Path) -> None:
    assert "No such file" in publish.write_state(str(tmp_path / "gone" / "probe.json"), {})


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "[" * 200_000, " " * 10_000_000 + "{}", "\0" * 100])
def test_an_unusable_state_is_no_state(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "probe.json"
    if content is not None:
        path.write_text(content)
    assert publish.read_state(str(path)) == {}


def test_metrics_text() -> None:
    text = publish.metrics(STATE)
    assert "# TYPE anycastlab_probe_announce gauge\nanycastlab_probe_announce 1\n" in text
    assert "anycastlab_probe_effective 0\n" in text
    assert 'anycastlab_probe_question_good{question="resolver"} 1\n' in text
    assert 'question_good{question="wan"}' not in text
    assert 'anycastlab_probe_checks_total{question="resolver",outcome="ok"} 7\n' in text
    assert 'anycastlab_probe_cause{cause="healthy"} 1\n' in text
    assert text.endswith("\n")


def serve(client: Callable[[int], None]) -> None:
    """Run the metrics server in this thread while `client(port)` runs in another."""
    loop = Loop()
    server = publish.MetricsServer(loop, "127.0.0.1", 0, lambda: publish.metrics(STATE))
    port = server._socket.getsockname()[1]
    failed: list[BaseException] = []

    def run() -> None:
        try:
            client(port)
        except BaseException as error:
            failed.append(error)
        finally:
            loop.stop()

    thread = threading.Thread(target=run)
    thread.start()
    loop.run()
    thread.join()
    loop.close()
    if failed:
        raise failed[0]


def get(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: node01\r\n")
        connection.sendall(b"\r\n")
        reply = b""
        while data := connection.recv(4096):
            reply += data
        return reply


def test_metrics_over_http() -> None:
    def client(port: int) -> None:
        head, _, body = get(port).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert body.decode() == publish.metrics(STATE)

    serve(client)


def test_a_reader_that_has_said_its_last_word_is_answered() -> None:
    def client(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            reply = b""
            while data := connection.recv(4096):
                reply += data
        assert reply.endswith(publish.metrics(STATE).encode())

    for _ in range(5):
        serve(client)


def test_idle_and_endless_readers_keep_nobody_out_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "READER_S", 0.3)

    def client(port: int) -> None:
        idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(publish.MOST_READERS)]
        endless = socket.create_connection(("127.0.0.1", port), timeout=5)
        # One too many is closed at once, the idle ones after their time, …
        assert endless.recv(1) == b""
        assert [connection.recv(1) for connection in idle] == [b""] * len(idle)
        # … then there is room again
        assert get(port).startswith(b"HTTP/1.1 200")
        for connection in [*idle, endless]:
            connection.close()

    serve(client)


def test_an_endless_request_is_cut_off() -> None:
    def client(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            try:
                for _ in range(100):
                    connection.sendall(b"x" * 1000)
                cut = connection.recv(1) == b""
            except (BrokenPipeError, ConnectionResetError):
                cut = True
            assert cut

    serve(client)


def test_sd_notify(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"})
        notifier.ready("withdrawn")
        notifier.alive("announcing")
        notifier.stopping()
        assert [systemd.recv(200) for _ in range(3)] == [
            b"READY=1\nSTATUS=withdrawn",
            b"WATCHDOG=1\nSTATUS=announcing",
            b"STOPPING=1",
        ]
        assert notifier.interval_s == 1
        notifier.close()


def test_without_systemd_nothing_is_sent() -> None:
    Notifier({}).alive("x")
