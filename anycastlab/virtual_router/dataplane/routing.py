"""BGP, BFD and routes as the data plane sees them, apart from BIRD's words for them (`bird*.py`).

BIRD is not what the nodes run: the lab shows two independent implementations speaking to each other. Addresses are
canonical text, as `ipaddress` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anycastlab.virtual_router.dataplane.peers import Bgp, Notes

RESETS = ("clear", "refresh", "resend")
"""Verbs of /routing/bgp/session: tear down, ask the neighbour for its routes again, send ours again."""

EBGP_DISTANCE, IBGP_DISTANCE = 20, 200
"""RouterOS's distances of BGP routes."""
TOP_DISTANCE = 255
"""A route with this distance is never used."""


@dataclass(frozen=True)
class Rendered:
    """The configuration, what it is made of, and what could not be put in."""

    text: str
    bgp: Bgp | None
    notes: Notes


@dataclass(frozen=True)
class Neighbor:
    """One BGP neighbour. What BIRD does not tell is None, and its property is then not shown."""

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
    """One look at BIRD. Empty where it did not answer. Paths and routes by prefix."""

    neighbors: tuple[Neighbor, ...] = ()
    bfd: tuple[BfdPeer, ...] = ()
    paths: Mapping[str, tuple[BgpPath, ...]] = field(default_factory=dict)
    routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
