"""What bgpd says and does not say, over a socket that speaks as vtysh's does."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anycastlab.probe.config import Frr, ProbeConfig
from anycastlab.probe.effect import Route
from anycastlab.probe.frr import Bgpd, judge
from anycastlab.probe.loop import Loop
from tests.unit.probe.world import config

PATHS = [{"valid": True}]
TOLD = json.dumps({"prefix": "10.1.9.53/32", "advertisedTo": {"10.1.2.1": {}}, "paths": PATHS})
KNOWN = json.dumps({"prefix": "10.1.9.53/32", "paths": PATHS})


@pytest.mark.parametrize(
    ("replies", "route"),
    [
        ([TOLD], Route.TOLD),
        ([KNOWN], Route.KNOWN),
        (["{}\n"], Route.ABSENT),
        ([""], Route.ABSENT),
        (["% BGP instance not found\n"], Route.ABSENT),
        (["[]"], Route.ABSENT),
        ([KNOWN, TOLD], Route.TOLD),
        (["{}", KNOWN], Route.KNOWN),
    ],
)
def test_judging_replies(replies: list[str], route: Route) -> None:
    assert judge(replies) is route


class Daemon:
    """A daemon's vty socket: `answer` gives the reply to a command, None for none at all (frozen)."""

    def __init__(self, path: Path) -> None:
        self.commands: list[str] = []
        self.answer: Callable[[str], str | None] = lambda _: ""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._path = path

    def _run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                buffer = b""
                while data := connection.recv(4096):
                    buffer += data
                    while b"\0" in buffer:
                        command, _, buffer = buffer.partition(b"\0")
                        if command == b"close":
                            return
                        self.commands.append(command.decode())
                        reply = self.answer(command.decode())
                        if reply is not None:
                            # In two pieces: a reply may be cut anywhere
                            connection.sendall(reply.encode() + b"\0")
                            connection.sendall(b"\0\0\0")

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(str(self._path))
            end.sendall(b"close\0")
        self._thread.join()
        self._listener.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def bgpd(directory: Path) -> Iterator[Daemon]:
    daemon = Daemon(directory / "bgpd.vty")
    yield daemon
    daemon.close()


def look(directory: Path, wanted: bool = True) -> Route:
    loop = Loop()
    seen: list[Route] = []

    def saw(route: Route, _: float) -> None:
        seen.append(route)
        loop.stop()

    Bgpd(loop, _config(directory)).look(saw, wanted)
    loop.call_later(2, loop.stop)
    loop.run()
    loop.close()
    assert len(seen) == 1
    return seen[0]


def _config(directory: Path) -> ProbeConfig:
    return dataclasses.replace(config(), frr=Frr(65053, ("10.1.2.1", "10.1.2.2"), directory=str(directory)))


def test_asks_bgpd_about_the_service_prefix(bgpd: Daemon, directory: Path) -> None:
    bgpd.answer = lambda _: TOLD
    assert look(directory) is Route.TOLD
    assert bgpd.commands == ["show bgp ipv4 unicast 10.1.9.53/32 json"]


def test_a_frozen_bgpd_is_frozen_within_its_time(bgpd: Daemon, directory: Path) -> None:
    bgpd.answer = lambda _: None
    assert look(directory) is Route.FROZEN


def test_a_bgpd_that_is_not_there_announces_nothing(directory: Path) -> None:
    assert look(directory) is Route.ABSENT


def test_a_bgpd_that_died_announces_nothing(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory / "bgpd.vty"))
    assert look(directory) is Route.ABSENT


def test_no_permission_is_told_apart(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket, __: object) -> None:
        raise PermissionError(13, os.strerror(13))

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        assert look(directory) is Route.HIDDEN


def test_a_frozen_bfdd_is_found_when_nobody_is_told(bgpd: Daemon, directory: Path) -> None:
    bgpd.answer = lambda _: KNOWN
    bfdd = Daemon(directory / "bfdd.vty")
    try:
        assert look(directory) is Route.KNOWN
        bfdd.answer = lambda _: None
        assert look(directory) is Route.FROZEN
        # Downwards it does not matter: what is told to nobody is gone
        assert look(directory, wanted=False) is Route.KNOWN
    finally:
        bfdd.close()


@pytest.mark.parametrize(("shut", "word"), [(True, ""), (False, "no ")])
def test_shutting_the_neighbours_down(bgpd: Daemon, directory: Path, shut: bool, word: str) -> None:
    loop = Loop()
    ended: list[str] = []

    def done(text: str) -> None:
        ended.append(text)
        loop.stop()

    Bgpd(loop, _config(directory)).shut(shut, done)
    loop.run()
    assert ended == [""]
    assert bgpd.commands == [
        "enable",
        "configure terminal",
        "router bgp 65053",
        f"{word}neighbor 10.1.2.1 shutdown",
        f"{word}neighbor 10.1.2.2 shutdown",
        "end",
    ]
