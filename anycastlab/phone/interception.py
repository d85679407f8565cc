"""Is port 53 answered by somebody on the way?

Some routers, providers and hotels redirect every DNS query to a resolver of theirs. Then any server "answers", failover
always "works", and every number is about them. So a query goes to an address where nothing lives (TEST-NET-1): an
answer is proof. Silence is no proof of the contrary, but it is what an honest network gives.
"""

from __future__ import annotations

import secrets

from anycastlab.phone import limits, wire
from anycastlab.phone.errors import InterceptedError
from anycastlab.phone.network import Network
from anycastlab.phone.servers import Server, Transport

_NAME = "example.com"


def check(network: Network, servers: tuple[Server, ...], nowhere: Server | None = None) -> None:
    """Raises InterceptedError. Skipped when every server is on this machine: nothing lies between."""
    if all(server.is_loopback for server in servers):
        return
    target = nowhere or Server(limits.NOWHERE, 53)
    flow = None
    try:
        flow = network.open(target, Transport.UDP)
        for _ in range(limits.INTERCEPTION_TRIES):
            query_id = secrets.randbelow(limits.IDS)
            network.send(flow, wire.encode_query(query_id, _NAME, wire.TYPES["A"]))
            if _answered(network, query_id):
                raise InterceptedError(
                    f"Port 53 is intercepted: a query to {target.address}, where nothing lives, was answered.",
                    "Measure from a machine whose DNS traffic is not redirected.",
                )
    except OSError:
        return  # no route, unreachable, refused: nobody answers there
    finally:
        if flow is not None:
            network.close(flow)


def _answered(network: Network, query_id: int) -> bool:
    deadline = network.now() + round(limits.INTERCEPTION_WAIT_S * limits.NS)
    while network.now() < deadline:
        for event in network.wait(deadline):
            if event.error is not None:
                raise event.error
            for message in event.messages:
                try:
                    reply = wire.read_reply(message)
                except wire.WireError:
                    continue
                if reply.id == query_id:
                    return True
    return False
