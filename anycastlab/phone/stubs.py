"""How the resolver libraries in people's devices retry, as data and one pure function.

A query lost on the wire is not yet felt: the library asks again. What a person feels depends on when, whom, and over
which socket it asks. The socket matters here: routers spread *flows* over the nodes, so a retry from the same port goes
to the same dead node until the router has taken its route away, and one from a fresh port may not.

Sources, read in 2026:
glibc           resolv/res_send.c and resolv.conf(5): `timeout:5 attempts:2`, servers in turn; a socket per server is
                kept through the retries; SERVFAIL, NOTIMP, REFUSED and ICMP errors move on at once, on a new socket.
musl            src/network/res_msend.c: all servers at once, again after timeout / attempts = 2.5 s, 5 s in all; one
                socket; SERVFAIL is asked again at once (at most twice a round; here twice a lookup), other errors are
                ignored.
systemd-resolved  resolved-dns-transaction.c: 5 s per try, next server, 24 tries; the socket is kept while the
                server stays. Its fallbacks between feature levels are not modelled.
Android         DnsResolver/res_send.cpp: like glibc with 5 s and 2 tries, sockets kept within one lookup.
Apple           mDNSResponder uDNS.c/.h: 1 s, doubling; after two unanswered queries another server.
Windows         Microsoft KB 2834226: 0, 1, 2, 4, 8 s, up at 10 s; with two servers the second at 1 and 2 s, all of them
                at 4 and 8 s; an error answer ends the lookup. Ports are not documented; fresh ones are assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from anycastlab.phone import limits


class OnError(Enum):
    """What a stub does with an error answer (SERVFAIL, REFUSED, …)."""

    FINAL = "final"  # the application gets the error
    NEXT = "next"  # the next planned try happens now
    OTHER_SERVER = "other server"  # the next planned try at a server not asked yet happens now, else final
    ASK_AGAIN = "ask again"  # the same server once more, now (SERVFAIL only; other errors are ignored)


@dataclass(frozen=True, slots=True)
class Try:
    """One planned query: seconds after the first one, and which server (0 = first)."""

    at_s: float
    server: int


@dataclass(frozen=True)
class Stub:
    """A stub resolver. `tries(servers)` gives the plan when nothing answers and the second at which it gives up."""

    name: str
    tries: Callable[[int], tuple[tuple[Try, ...], float]]
    keeps_socket: bool  # retries to the same server leave from the same port
    on_error: OnError
    hears_icmp: bool = True  # connected sockets learn of "port unreachable", unconnected ones do not


@dataclass(frozen=True)
class Plan:
    """The tries of one lookup in time order (nanoseconds after its start), and when it gives up."""

    tries: tuple[tuple[int, int], ...]  # (offset in ns, server)
    gives_up_ns: int


def plan(stub: Stub, servers: int, timeout_s: float = limits.TIMEOUT_S) -> Plan:
    """The plan of `stub` with that many configured servers, cut off where a person has given up."""
    if stub.name == WIRE:
        return Plan(((0, 0),), round(timeout_s * limits.NS))
    tries, gives_up = stub.tries(servers)
    kept = tuple((round(t.at_s * limits.NS), t.server) for t in tries if t.at_s < limits.FELT_LIMIT_S)
    return Plan(kept, round(min(gives_up, limits.FELT_LIMIT_S) * limits.NS))


def _in_turn(per_try_s: float, rounds: int) -> Callable[[int], tuple[tuple[Try, ...], float]]:
    """Each server in turn, `rounds` times, `per_try_s` each."""

    def tries(servers: int) -> tuple[tuple[Try, ...], float]:
        number = rounds * servers
        return tuple(Try(i * per_try_s, i % servers) for i in range(number)), number * per_try_s

    return tries


def _musl(servers: int) -> tuple[tuple[Try, ...], float]:
    return tuple(Try(at, server) for at in (0.0, 2.5) for server in range(servers)), 5.0


def _resolved(servers: int) -> tuple[tuple[Try, ...], float]:
    return tuple(Try(i * 5.0, i % servers) for i in range(24)), 120.0


def _apple(servers: int) -> tuple[tuple[Try, ...], float]:
    return tuple(Try(at, i // 2 % servers) for i, at in enumerate((0.0, 1.0, 3.0, 7.0, 15.0))), 30.0


def _windows(servers: int) -> tuple[tuple[Try, ...], float]:
    second = min(1, servers - 1)
    singles = (Try(0.0, 0), Try(1.0, second), Try(2.0, second))
    return singles + tuple(Try(at, server) for at in (4.0, 8.0) for server in range(servers)), 10.0


def _once(servers: int) -> tuple[tuple[Try, ...], float]:  # noqa: ARG001  # one query, whatever is configured
    return (Try(0.0, 0),), limits.TIMEOUT_S


WIRE = "wire"

STUBS: Mapping[str, Stub] = MappingProxyType(
    {
        stub.name: stub
        for stub in (
            Stub(WIRE, _once, keeps_socket=True, on_error=OnError.FINAL),
            Stub("glibc", _in_turn(5.0, 2), keeps_socket=True, on_error=OnError.NEXT),
            Stub("musl", _musl, keeps_socket=True, on_error=OnError.ASK_AGAIN, hears_icmp=False),
            Stub("systemd-resolved", _resolved, keeps_socket=True, on_error=OnError.OTHER_SERVER),
            Stub("android", _in_turn(5.0, 2), keeps_socket=True, on_error=OnError.NEXT),
            Stub("apple", _apple, keeps_socket=True, on_error=OnError.OTHER_SERVER),
            Stub("windows", _windows, keeps_socket=False, on_error=OnError.FINAL),
        )
    }
)
