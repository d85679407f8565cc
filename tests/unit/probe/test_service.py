"""The probe as one thing, on 127.1.2.0/24, without systemd, FRR or a link."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anycastlab.probe import seal, service
from anycastlab.probe.config import Frr, Guard, Peer, ProbeConfig
from anycastlab.probe.loop import Loop
from anycastlab.probe.notify import Notifier
from anycastlab.probe.publish import Journal
from anycastlab.probe.service import Probe

ADDRESS = "127.1.2.1"


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind((ADDRESS, 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def config(tmp_path: Path) -> ProbeConfig:
    (tmp_path / "probe.key").write_text(seal.dump((seal.Key(b"k" * seal.KEY_BYTES),)), encoding="ascii")
    return ProbeConfig(
        node="node01",
        address=ADDRESS,
        service_addresses=("10.1.9.53",),
        router_dns="10.1.2.1",
        frr=Frr(65053, ("10.1.2.1",), str(tmp_path)),
        link="not-a-link",
        interface="lo",
        key_path=str(tmp_path / "probe.key"),
        resolver_port=free_port(socket.SOCK_DGRAM),
        guard=Guard(port=free_port(socket.SOCK_DGRAM)),
        metrics_port=free_port(socket.SOCK_STREAM),
        state_path=str(tmp_path / "probe.json"),
        escalate_path=str(tmp_path / "escalate"),
        drain_path=str(tmp_path / "drained"),
        stopping_path=str(tmp_path / "stopping"),
    )


def run(config: ProbeConfig, seconds: float) -> dict[str, Any]:
    """What it has written when it was stopped after that time."""
    loop = Loop()
    journal = os.open("/dev/null", os.O_WRONLY)
    probe = Probe(config, loop, Journal(journal), Notifier({}))
    probe.start()
    loop.call_later(seconds, loop.stop)
    loop.run()
    loop.close()
    os.close(journal)
    return dict(json.loads(Path(config.state_path).read_text(encoding="utf-8")))


def test_a_metrics_port_that_somebody_has_is_a_problem_and_no_end(config: ProbeConfig) -> None:
    with socket.create_server((ADDRESS, config.metrics_port)):
        problems = run(config, 1.2)["problems"]
    assert problems["metrics"] == f"no metrics: TCP port {config.metrics_port} of {ADDRESS}: Address already in use"
    assert "metrics" not in run(config, 1.2)["problems"]


class ObedientLink:
    """A link that does what it is told; `orders` has the times."""

    def __init__(self, loop: Loop, _name: str, seen: Callable[[bool | None], None], _failed: object) -> None:
        self.loop, self.seen, self.up = loop, seen, True
        self.orders: list[tuple[float, bool]] = []

    def set(self, up: bool) -> None:
        self.up = up
        self.orders.append((self.loop.now(), up))

    def read(self) -> None:
        self.seen(self.up)

    refresh = read


@pytest.mark.parametrize("relied_on", [True, False])
def test_a_stopping_probe_hands_over_to_who_relies_on_it(
    config: ProbeConfig, monkeypatch: pytest.MonkeyPatch, relied_on: bool
) -> None:
    monkeypatch.setattr(service, "Link", ObedientLink)
    peer = Peer("node02", "127.1.2.2")
    frr = dataclasses.replace(config.frr, enabled=False)
    loop = Loop()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
        open(os.devnull, "wb") as journal,
    ):
        other.bind((peer.address, config.guard.port))
        other.setblocking(False)
        silent.bind((ADDRESS, config.resolver_port))
        probe = Probe(
            dataclasses.replace(config, frr=frr, peers=(peer,)), loop, Journal(journal.fileno()), Notifier({})
        )
        heard: list[float] = []
        loop.on_readable(other, lambda: heard.append(loop.now()) if b'"revoke"' in other.recv(2048) else None)
        # Given a node that announces, perhaps with a peer that is out because this one stays
        probe._machine.announce = True
        probe._link.read()
        if relied_on:
            probe._machine.promised = {peer.name: loop.now() + 3}
            probe._peers._granted[peer.name] = "nonce"
        probe.start()
        loop.call_later(0.3, probe.request_stop)
        began = loop.now() + 0.3
        loop.run()
        [(down, up)] = probe._link.orders  # type: ignore[attr-defined]
        loop.forget(other)
    loop.close()
    assert not up
    if relied_on:
        # It says so first, and leaves when the other has had the time to be back
        assert down - heard[0] >= service.HAND_OVER_S
        assert down - began <= service.HAND_OVER_S + 2 * service.TICK_S + 0.3
    else:
        assert heard == []
        assert down - began <= 2 * service.TICK_S + 0.3


@pytest.mark.parametrize("key", ["rights", "escalate", "neighbors"])
def test_a_problem_that_is_over_is_no_problem(config: ProbeConfig, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "Link", ObedientLink)
    loop = Loop()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
        open(os.devnull, "wb") as journal,
    ):
        silent.bind((ADDRESS, config.resolver_port))
        frr = dataclasses.replace(config.frr, enabled=False)
        probe = Probe(dataclasses.replace(config, frr=frr), loop, Journal(journal.fileno()), Notifier({}))
        # Given an order that was refused, whose effect then came all the same
        probe._problem(key, "set anycast0 down: Operation not permitted")
        probe._link.read()
        assert key in probe.state()["problems"]
        probe.start()
        loop.call_later(0.6, loop.stop)
        loop.run()
        assert key not in probe.state()["problems"]
    loop.close()
