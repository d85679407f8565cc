"""The probe as one thing, on 127.1.2.0/24, without systemd, FRR or a link."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from anycastlab.probe.config import Frr, Guard, ProbeConfig
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
    return ProbeConfig(
        node="node01",
        address=ADDRESS,
        service_addresses=("10.1.9.53",),
        router_dns="10.1.2.1",
        frr=Frr(65053, ("10.1.2.1",), str(tmp_path)),
        link="not-a-link",
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
