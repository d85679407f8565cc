"""When each stub resolver asks whom, if nothing ever answers: seconds and server, and when it gives up."""

from __future__ import annotations

import pytest

from anycastlab.phone import limits
from anycastlab.phone.stubs import STUBS, plan

ONE = {
    "wire": ([(0, 0)], 2),
    "glibc": ([(0, 0), (5, 0)], 10),
    "musl": ([(0, 0), (2.5, 0)], 5),
    "systemd-resolved": ([(0, 0), (5, 0), (10, 0), (15, 0), (20, 0), (25, 0)], 30),
    "android": ([(0, 0), (5, 0)], 10),
    "apple": ([(0, 0), (1, 0), (3, 0), (7, 0), (15, 0)], 30),
    "windows": ([(0, 0), (1, 0), (2, 0), (4, 0), (8, 0)], 10),
}
TWO = {
    "wire": ([(0, 0)], 2),
    "glibc": ([(0, 0), (5, 1), (10, 0), (15, 1)], 20),
    "musl": ([(0, 0), (0, 1), (2.5, 0), (2.5, 1)], 5),
    "systemd-resolved": ([(0, 0), (5, 1), (10, 0), (15, 1), (20, 0), (25, 1)], 30),
    "android": ([(0, 0), (5, 1), (10, 0), (15, 1)], 20),
    "apple": ([(0, 0), (1, 0), (3, 1), (7, 1), (15, 0)], 30),
    "windows": ([(0, 0), (1, 1), (2, 1), (4, 0), (4, 1), (8, 0), (8, 1)], 10),
}


@pytest.mark.parametrize("name", STUBS)
@pytest.mark.parametrize(("servers", "expected"), [(1, ONE), (2, TWO)])
def test_the_tries_of_a_stub_in_silence(
    name: str, servers: int, expected: dict[str, tuple[list[tuple[float, int]], float]]
) -> None:
    tries, gives_up_s = expected[name]

    made = plan(STUBS[name], servers)

    assert [(at / limits.NS, server) for at, server in made.tries] == tries
    assert made.gives_up_ns == gives_up_s * limits.NS


def test_the_wire_client_gives_up_at_the_phones_own_timeout() -> None:
    assert plan(STUBS["wire"], 1, timeout_s=0.7).gives_up_ns == 0.7 * limits.NS
