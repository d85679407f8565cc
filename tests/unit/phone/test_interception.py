"""The phone refuses where somebody on the way answers for every address."""

from __future__ import annotations

import errno

import pytest

from anycastlab.phone import interception
from anycastlab.phone.errors import InterceptedError
from anycastlab.phone.network import SocketNetwork
from anycastlab.phone.servers import Server
from anycastlab.phone.testing import Answer, DnsServer, Handler, MemoryNetwork, Request

HOME = (Server("10.1.9.53", 53),)


def anybody(request: Request) -> list[Answer]:
    return [Answer(request.reply())]


def test_an_answer_from_nowhere_is_refused_with_the_address() -> None:
    network = MemoryNetwork(anybody)

    with pytest.raises(InterceptedError, match=r"192\.0\.2\.53, where nothing lives"):
        interception.check(network, HOME)

    assert network.still_open == 0


@pytest.mark.parametrize("rcode", [0, 2, 3, 5])
def test_any_reply_is_proof_whatever_it_says(rcode: int) -> None:
    with pytest.raises(InterceptedError):
        interception.check(MemoryNetwork(lambda r: [Answer(r.reply(data=None, rcode=rcode), 900)]), HOME)


def wrong_id(request: Request) -> list[Answer]:
    raw = request.reply()
    return [Answer(bytes([raw[0] ^ 1]) + raw[1:])]


@pytest.mark.parametrize(
    "handler",
    [
        lambda _: [],
        lambda _: [Answer(error=errno.EHOSTUNREACH)],
        lambda _: [Answer(error=errno.ECONNREFUSED)],
        lambda _: [Answer(b"rubbish")],
        wrong_id,
    ],
)
def test_silence_errors_and_noise_are_not_interception(handler: Handler) -> None:
    network = MemoryNetwork(handler)

    interception.check(network, HOME)

    assert network.requests
    assert network.still_open == 0


def test_one_lost_packet_does_not_hide_it() -> None:
    seen: list[Request] = []

    def second(request: Request) -> list[Answer]:
        seen.append(request)
        return anybody(request) if len(seen) == 2 else []

    with pytest.raises(InterceptedError):
        interception.check(MemoryNetwork(second), HOME)


def test_no_route_to_nowhere_is_fine() -> None:
    network = MemoryNetwork(anybody)
    network.refuse = lambda _: errno.ENETUNREACH

    interception.check(network, HOME)


def test_nothing_is_asked_when_the_servers_are_on_this_machine() -> None:
    network = MemoryNetwork(anybody)

    interception.check(network, (Server("127.0.0.1", 53), Server("::1", 53)))

    assert network.requests == []


def test_over_real_sockets() -> None:
    network = SocketNetwork()
    try:
        with DnsServer() as server, pytest.raises(InterceptedError):
            interception.check(network, HOME, nowhere=Server("127.0.0.1", server.port))
        # the port is closed now: an ICMP error
        interception.check(network, HOME, nowhere=Server("127.0.0.1", server.port))
    finally:
        network.shut()
