"""What the data plane wants of a routing daemon, and what it sees of one: BGP, BFD and routes, whoever runs them.

Two real ones play the router, BIRD (`bird*.py`) and FRR (`frr*.py`): independent implementations, so that what the lab
shows does not hang on the habits of one. Addresses are canonical text, as `ipaddress` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from anycastlab.virtual_router.dataplane.api import Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.peers import Bgp, Notes
from anycastlab.virtual_router.version import Version

RESETS = ("clear", "refresh", "resend")
"""Verbs of /routing/bgp/session: tear down, ask the neighbour for its routes again, send ours again."""

EBGP_DISTANCE, IBGP_DISTANCE = 20, 200
"""RouterOS's distances of BGP routes."""
TOP_DISTANCE = 255
"""A route with this distance is never used."""


@dataclass(frozen=True)
class Rendered:
    """A daemon's configuration, what it is made of, and what could not be put in."""

    text: str
    bgp: Bgp | None
    notes: Notes


@dataclass(frozen=True)
class Neighbor:
    """One BGP neighbour. What a daemon does not tell is None, and its property is then not shown."""

    address: str
    established: bool
    was_established: bool
    """Whether there ever was a session; one that never was has no row."""
    remote_as: int | None = None
    remote_id: str = ""
    local_address: str = ""
    local_id: str = ""
    families: tuple[int, ...] = ()
    hold_s: float | None = None
    keepalive_s: float | None = None
    prefixes: int = 0
    """Routes accepted from it."""
    messages_received: int | None = None
    messages_sent: int | None = None
    uptime_s: int = 0
    last_error: str = ""


@dataclass(frozen=True)
class BfdPeer:
    """One BFD session (RFC 5880). Intervals in milliseconds; the remote ones as the peer last said them."""

    address: str
    state: str
    """`up`, `down`, `init` or `admin-down`."""
    local_address: str = ""
    multihop: bool = False
    tx_ms: int = 0
    rx_ms: int = 0
    multiplier: int = 0
    remote_tx_ms: int = 0
    remote_rx_ms: int = 0
    remote_multiplier: int = 0
    uptime_s: int = 0
    packets_received: int | None = None
    packets_sent: int | None = None
    changes: int | None = None


@dataclass(frozen=True)
class BgpPath:
    """One path to a prefix in the BGP table, used or not."""

    next_hops: tuple[str, ...]
    """The announced one first; for IPv6 the link-local one that came along may follow."""
    valid: bool = True
    external: bool = True
    as_path: str = ""
    origin: str = ""
    med: int | None = None
    local_pref: int | None = None


@dataclass(frozen=True)
class Hop:
    """One next hop of a route: `address` is empty for a connected one; `live` when the kernel forwards to it."""

    address: str = ""
    device: str = ""
    live: bool = True
    blackhole: bool = False


@dataclass(frozen=True)
class Route:
    """One route to a prefix. `protocol` is `bgp`, `connected`, `static` (a row of the router) or `kernel` (others')."""

    protocol: str
    hops: tuple[Hop, ...]
    distance: int = 0
    active: bool = True


@dataclass(frozen=True)
class Look:
    """One look at a daemon. Empty where it did not answer. Paths and routes by prefix."""

    neighbors: tuple[Neighbor, ...] = ()
    bfd: tuple[BfdPeer, ...] = ()
    paths: Mapping[str, tuple[BgpPath, ...]] = field(default_factory=dict)
    routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)


class RoutingDaemon(Protocol):
    """A real routing daemon of this machine."""

    name: str
    """As people write it."""

    @property
    def problem(self) -> str | None:
        """Why the last configuration is not in effect; None when it is."""
        ...

    @property
    def last(self) -> Look:
        """The last look, without a new one."""
        ...

    def render(self, snapshot: Snapshot, version: Version, interfaces: Interfaces, hostname: str) -> Rendered:
        """The whole configuration for one snapshot of rows. Pure."""
        ...

    async def apply(self, rendered: Rendered) -> None:
        """Brings the daemon to it and sets `problem`; starts it where it does not run. What did not change stays up."""
        ...

    async def look(self, fresh: bool = False) -> Look:
        """What the daemon is doing; readers within READ_CACHE_S share one answer."""
        ...

    async def reset(self, address: str, verb: str) -> None:
        """Does one of `RESETS` to the session with the neighbour `address`."""
        ...
