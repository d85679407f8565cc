"""A lab port that somebody else listens on is found and named; the lab's own proxy is no finding."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from anycastlab.host.gather import kernel_missing, taken_ports


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_foreign_listener_is_named(busy_port: int) -> None:
    name = Path("/proc/self/comm").read_text().strip()

    assert taken_ports([busy_port], frozenset) == ((busy_port, f"{name} (process {os.getpid()})"),)


def test_our_own_proxy_is_no_finding(busy_port: int) -> None:
    assert taken_ports([busy_port], lambda: frozenset({busy_port})) == ()


def test_a_free_port_does_not_even_ask_incus() -> None:
    with socket.socket() as idle:
        idle.bind(("127.0.0.1", 0))
        free = idle.getsockname()[1]

    def never() -> frozenset[int]:
        raise AssertionError("asked")

    assert taken_ports([free], never) == ()


def test_the_kernel_trial_leaves_no_link_behind() -> None:
    kernel_missing()

    assert not {"al0", "al1", "al2"} & set(os.listdir("/sys/class/net"))
