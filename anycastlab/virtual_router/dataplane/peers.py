"""BGP and BFD rows of one RouterOS version, understood: which peers there are and what each wants. Pure.

Version cliffs: before 7.20 a connection carries `router-id` and the AS itself, from 7.20 its instance does; `afi` was
`address-families` before 7.19; BGP ECMP exists from 7.22 (`multipath` of the instance).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router.dataplane import timing
from anycastlab.virtual_router.dataplane.api import Row, Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.rows import enabled, host, is_host, items, network, seconds, truth

INSTANCES = Version(7, 20)
MULTIPATH = Version(7, 22, stage=0)  # from its first pre-release
AFI = Version(7, 19)

CONNECTION = "/routing/bgp/connection"
INSTANCE = "/routing/bgp/instance"
TEMPLATE = "/routing/bgp/template"
BFD = "/routing/bfd/configuration"

Notes = dict[tuple[str, str], dict[str, str]]
"""(menu, row id) to runtime properties laid over that row."""

_NOT_EMULATED = {
    "input.accept-communities": (),
    "input.accept-ext-communities": (),
    "input.accept-large-communities": (),
    "input.accept-nlri": (),
    "input.filter-communities": (),
    "input.filter-ext-communities": (),
    "input.filter-large-communities": (),
    "input.filter-nlri": (),
    "input.add-path": (),
    "nexthop-choice": ("default",),
    "output.default-originate": ("never", "always"),
    "output.default-prepend": ("0",),
    "output.filter-select": (),
    "output.network": (),
    "output.add-path": (),
    "add-path-out": ("none",),
    "output.redistribute": ("bgp",),
    "remote.allowed-as": (),
    "remote.port": ("179",),
    "local.port": ("179",),
    "routing-table": ("main",),
    "save-to": (),
    "vrf": ("main",),
}
"""Properties of a connection or template that would change what happens, and the values that do not."""


@dataclass(frozen=True)
class BfdTimers:
    """What one end of a BFD session wants (RFC 5880: desired min TX, required min RX, detect mult)."""

    tx_ms: int = timing.DEFAULT_BFD_MS
    rx_ms: int = timing.DEFAULT_BFD_MS
    multiplier: int = timing.DEFAULT_BFD_MULTIPLIER


@dataclass(frozen=True)
class Peer:
    """One enabled, complete connection."""

    id: str
    name: str
    remote: str
    """An address, or a prefix from which any peer may connect."""
    local_as: int
    remote_as: int | None
    internal: bool
    reflector_client: bool
    families: tuple[int, ...]
    hold_s: int
    keepalive_s: int
    input_chain: str
    output_chain: str
    use_bfd: bool
    bfd: BfdTimers | None
    """None while BFD is off or forbidden for this peer."""
    multihop: bool = False
    passive: bool = False
    local_address: str = ""
    default_originate: bool = False
    allow_as_in: int = 0
    password: str = field(default="", repr=False)

    @property
    def is_range(self) -> bool:
        return not is_host(self.remote)


@dataclass(frozen=True)
class Bgp:
    """The one BGP process: all connections share a routing table."""

    asn: int
    router_id: str
    paths: int
    peers: tuple[Peer, ...]


def not_emulated(row: Row) -> str | None:
    """Which property of a connection or template is not emulated."""
    for name, harmless in _NOT_EMULATED.items():
        value = row.get(name, "")
        if value and value not in harmless:
            return f"{name}={value}"
    return None


def _effective(row: Row, templates: Mapping[str, Row]) -> dict[str, str]:
    """A connection with what its templates add; the connection's own word wins, then the first template's."""
    merged: dict[str, str] = {}
    for name in reversed(items(row.get("templates"))):
        merged |= {key: value for key, value in templates.get(name, {}).items() if value != ""}
    merged |= {key: value for key, value in row.items() if value != ""}
    return merged


def bfd_for(address: str, interface: str | None, snapshot: Snapshot) -> BfdTimers | None:
    """The first row of /routing/bfd/configuration that lists this peer; None: forbidden, which is also the default."""
    for row in enabled(snapshot, BFD):
        wanted = items(row.get("addresses"))
        if wanted and not any(_inside(address, prefix) for prefix in wanted):
            continue
        interfaces = items(row.get("interfaces"))
        if interfaces and "all" not in interfaces and interface not in interfaces:
            continue
        if truth(row, "forbid-bfd"):
            return None
        return BfdTimers(
            tx_ms=max(1, round(1000 * seconds(row.get("min-tx"), timing.DEFAULT_BFD_MS / 1000))),
            rx_ms=max(1, round(1000 * seconds(row.get("min-rx"), timing.DEFAULT_BFD_MS / 1000))),
            multiplier=int(row.get("multiplier") or timing.DEFAULT_BFD_MULTIPLIER),
        )
    return None


def _inside(address: str, prefix: str) -> bool:
    inner, outer = network(address), network(prefix)
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


class _Incomplete(Exception):  # noqa: N818 - a reason, caught three lines further
    """Why a connection stays inactive."""


def _router_id(row: Row, snapshot: Snapshot, interfaces: Interfaces) -> str | None:
    """An address as written, or the row of /routing/id it names, or the lowest own address."""
    value = row.get("router-id", "")
    if value and value[0].isdigit():
        return value
    for known in enabled(snapshot, "/routing/id"):
        if known.get("name") == (value or "main") and known.get("id"):
            return known["id"]
    return interfaces.lowest_ipv4()


def understand(snapshot: Snapshot, version: Version, interfaces: Interfaces) -> tuple[Bgp | None, Notes]:
    """Every usable connection as `Peer`; a note with `inactive=true` on each of the others."""
    notes: Notes = {}
    templates = {row["name"]: row for row in enabled(snapshot, TEMPLATE) if "name" in row}
    instances = {row["name"]: row for row in enabled(snapshot, INSTANCE) if "name" in row}
    found: list[Peer] = []
    process: tuple[int, str, int] | None = None
    remotes: set[str] = set()
    for row in enabled(snapshot, CONNECTION):
        merged = _effective(row, templates)
        try:
            if version >= INSTANCES:
                instance = instances.get(merged.get("instance", ""))
                if instance is None:
                    raise _Incomplete("its instance is missing or disabled")
                merged.setdefault("as", instance.get("as", ""))
                owner: Row = instance
            else:
                owner = merged
            peer = _peer(row, merged, snapshot, version, interfaces)
            if peer.remote in remotes:
                raise _Incomplete(f"another connection already has {peer.remote}")
            router_id = _router_id(owner, snapshot, interfaces)
            if router_id is None:
                raise _Incomplete("there is no router-id and no address to take one from")
            paths = int(owner.get("multipath") or 1) if version >= MULTIPATH else 1
        except (_Incomplete, ValueError) as reason:
            notes[CONNECTION, row.get(".id", "")] = {"inactive": "true", ".why": str(reason)}
            continue
        if process is None:
            process = (peer.local_as, router_id, paths)
        else:
            # There is one process: the first connection's instance names it, others join with their own AS.
            process = (process[0], process[1], max(process[2], paths))
        remotes.add(peer.remote)
        found.append(peer)
    if process is None:
        return None, notes
    return Bgp(process[0], process[1], process[2], tuple(found)), notes


def _peer(row: Row, merged: Row, snapshot: Snapshot, version: Version, interfaces: Interfaces) -> Peer:
    reason = not_emulated(merged)
    if reason:
        raise _Incomplete(f"{reason} is not emulated")
    for needed in ("name", "remote.address", "local.role", "as"):
        if not merged.get(needed):
            raise _Incomplete(f"{needed} is not set")
    remote = str(network(merged["remote.address"]))
    if is_host(remote):
        remote = host(remote)
    role = merged["local.role"]
    hold = (
        0 if merged.get("hold-time") == "infinity" else round(seconds(merged.get("hold-time"), timing.DEFAULT_HOLD_S))
    )
    keepalive = round(seconds(merged.get("keepalive-time"), hold // timing.KEEPALIVES_PER_HOLD))
    afi = items(merged.get("afi" if version >= AFI else "address-families")) or ["ip"]
    families = tuple({"ip": 4, "ipv6": 6}[word] for word in afi if word in ("ip", "ipv6"))
    if not families:
        raise _Incomplete(f"none of its address families is emulated: {','.join(afi)}")
    use_bfd = truth(merged, "use-bfd")
    first = str(network(remote).network_address)
    local = merged.get("local.address", "")
    device = interfaces.device(local) if local and not local[0].isdigit() and ":" not in local else None
    return Peer(
        id=row.get(".id", ""),
        name=merged["name"],
        remote=remote,
        local_as=int(merged["as"]),
        remote_as=int(merged["remote.as"]) if merged.get("remote.as") else None,
        internal=role.startswith("ibgp"),
        reflector_client=role == "ibgp-rr",
        families=families,
        hold_s=hold,
        keepalive_s=min(keepalive, hold) if hold else 0,
        input_chain=merged.get("input.filter", ""),
        output_chain=merged.get("output.filter-chain", ""),
        use_bfd=use_bfd,
        bfd=bfd_for(remote, interfaces.towards(first), snapshot) if use_bfd else None,
        multihop=truth(merged, "multihop"),
        passive=not truth(merged, "connect", default=True),
        local_address=device or local,
        default_originate=merged.get("output.default-originate") == "always",
        allow_as_in=int(merged.get("input.allow-as") or 0),
        password=merged.get("tcp-md5-key", ""),
    )
