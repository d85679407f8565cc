"""What one command costs: the connector beside `incus exec`, in pairs, so both meet the same machine.

Each pair runs `true` in the same instance, first one way, then the other; every other pair in the opposite order. The
connector is measured both ways it has: a session (what a deploy uses) and recorded exec (single commands). Also how
many commands per second several hosts get together, for that is what a deploy is made of.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import Any

from anycastlab.image.build import ensure
from anycastlab.incus import instances, labs
from anycastlab.incus.exec import execute, flush
from anycastlab.incus.rest import Rest, connect
from anycastlab.incus.session import Session
from anycastlab.incus.spec import InstanceSpec, Lab, Nic

LAB = Lab("bench")
PAIRS = 60
WARM_UP = 5
HOSTS = 6  # as many at once as a lab of three nodes has machines
COMMANDS_PER_HOST = 20


def run() -> dict[str, Any]:
    with _instance() as (rest, name):
        session = Session(rest, name)
        argv = ["incus", "exec", "--project", LAB.project, f"local:{name}", "--", "true"]

        def client() -> object:
            return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)

        by_session = _pairs(lambda: session.execute(["true"]), client)
        recorded = _pairs(lambda: execute(rest, name, ["true"]), client)
        per_second = {
            "session": _together([Session(rest, name).execute for _ in range(HOSTS)]),
            "recorded": _together([lambda argv: execute(rest, name, argv)] * HOSTS),
        }
        session.close()
        flush()
    return {
        "exec_ms": statistics.median(ours for ours, _ in by_session),
        "recorded_ms": statistics.median(ours for ours, _ in recorded),
        "incus_exec_ms": statistics.median(theirs for _, theirs in by_session + recorded),
        "ratio": statistics.median(ours / theirs for ours, theirs in by_session),
        "recorded_ratio": statistics.median(ours / theirs for ours, theirs in recorded),
        f"commands_per_second_of_{HOSTS}_hosts": per_second,
        "pairs": PAIRS,
    }


def _pairs(ours: Callable[[], object], theirs: Callable[[], object]) -> list[tuple[float, float]]:
    for _ in range(WARM_UP):
        ours()
        theirs()
    pairs = []
    for number in range(PAIRS):
        if number % 2:
            second, first = _milliseconds(theirs), _milliseconds(ours)
        else:
            first, second = _milliseconds(ours), _milliseconds(theirs)
        pairs.append((first, second))
    return pairs


def _together(hosts: list[Callable[[list[str]], object]]) -> float:
    """Commands per second of all hosts at once, opening the connection included."""
    started = time.perf_counter()
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(lambda run: [run(["true"]) for _ in range(COMMANDS_PER_HOST)], hosts))
    return len(hosts) * COMMANDS_PER_HOST / (time.perf_counter() - started)


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


@contextmanager
def _instance() -> Iterator[tuple[Rest, str]]:
    """A running instance in a lab of its own."""
    image = ensure()
    rest = connect(None, LAB.project)
    labs.clear_lab(rest, LAB)
    spec = InstanceSpec("box", (Nic("eth0", LAB.bridge("dns"), IPv4Address("10.1.2.200"), 24),))
    try:
        labs.ensure_lab_networks(rest, LAB, [LAB.bridge("dns")])
        instances.create(rest, spec, LAB, image)
        instances.start(rest, spec.name)
        instances.wait_booted(rest, spec.name)
        yield rest, spec.name
    finally:
        labs.clear_lab(rest, LAB)


if __name__ == "__main__":
    print(run())
