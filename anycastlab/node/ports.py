"""Who holds the ports a node needs. Judged by process and address, never by a unit's name. Pure.

An address that is not ours may be held by anybody: a person's unbound on 127.0.0.1:5335 is somebody's upstream. What
holds a port of ours is refused by name before anything is written, with two exceptions: resolvers that an earlier
deploy started, and the stub of systemd-resolved, which a drop-in switches off (see `render`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from anycastlab.node import layout
from anycastlab.node.errors import NodeError
from anycastlab.outside_text import name as plain
from anycastlab.site import Node, Site

Protocol = Literal["udp", "tcp"]

DNS_PORT: Final = 53
TLS_PORT: Final = 853
_EVERYWHERE: Final = frozenset({"*", "0.0.0.0", "::"})
# systemd-resolved's stub listens there and nowhere else, systemd-resolved.service(8).
_STUB: Final = frozenset({"127.0.0.53", "127.0.0.54"})
_RESOLVED: Final = "systemd-resolved"
# Daemons of FRR's own, whose configuration a deploy replaces.
_FRR: Final = frozenset({"bgpd", "bfdd"})
_USER = re.compile(r'\("([^"]*)",pid=(\d+)')


@dataclass(frozen=True)
class Need:
    """A port that a node must have. `address` empty: on every address."""

    port: int
    protocols: tuple[Protocol, ...]
    purpose: str
    address: str = ""


@dataclass(frozen=True)
class Holder:
    """A process that listens. `unit` and `program` are empty where they cannot be told."""

    protocol: str
    address: str
    port: int
    process: str
    pid: int
    unit: str = ""
    program: str = ""

    @property
    def is_stub(self) -> bool:
        return self.program.rpartition("/")[2] == _RESOLVED and self.address in _STUB

    @property
    def is_our_adguard(self) -> bool:
        # The same program may also be a person's second one, started by hand, with another file.
        return self.program == layout.ADGUARD_PROGRAM and self.unit == layout.resolver_unit("adguardhome")

    def show(self) -> str:
        """`unbound (unbound.service) on 127.0.0.1`: the name a person knows it by."""
        distributions = self.program.startswith("/usr/") and not self.program.startswith("/usr/local/")
        elsewhere = "" if distributions else self.program
        about = ", ".join(part for part in (self.unit, elsewhere) if part)
        return f"{self.process}{f' ({about})' if about else ''} on {self.address}"


def needs(site: Site, node: Node) -> tuple[Need, ...]:
    """The ports of `node`, the most important first."""
    own = str(node.address)
    both: tuple[Protocol, ...] = ("udp", "tcp")
    return (
        Need(DNS_PORT, both, "where the resolver answers"),
        *([Need(TLS_PORT, ("tcp",), "for DNS over TLS")] if site.resolver.dot else []),
        *(
            [
                Need(port, ("tcp",), "for AdGuard Home's web page", own)
                for port in (layout.ADGUARD_API_PORT, layout.ADGUARD_HTTPS_PORT)
            ]
            if node.resolver == "adguardhome"
            else []
        ),
        Need(layout.PROBE_PORT, ("udp",), "where the health probes talk", own),
        Need(layout.BGP_PORT, ("tcp",), "for BGP", own),
        Need(layout.BFD_PORT, ("udp",), "for BFD", own),
    )


def script() -> str:
    """Shell lines that print every listener on ports of ours, and its process's unit and program."""
    pages = (layout.ADGUARD_API_PORT, layout.ADGUARD_HTTPS_PORT)
    wanted = (DNS_PORT, TLS_PORT, *pages, layout.PROBE_PORT, layout.BGP_PORT, layout.BFD_PORT)
    ports = " or ".join(f"sport = :{port}" for port in wanted)
    return f"""\
held=$(ss -H -lntup '( {ports} )' 2>/dev/null)
printf '%s\\n' "$held" | while IFS= read -r line; do [ -z "$line" ] || say socket "$line"; done
for p in $(printf '%s\\n' "$held" | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -un); do
  unit=$(grep -oE '[^/]+[.](service|scope)' /proc/$p/cgroup 2>/dev/null | head -n1)
  say holder "$p ${{unit:--}} $(readlink /proc/$p/exe 2>/dev/null)"
done"""


def parse(sockets: Iterable[str], holders: Iterable[str]) -> tuple[Holder, ...]:
    """What `script` printed under `socket` and `holder`. Raises ValueError for anything else."""
    about: dict[int, tuple[str, str]] = {}
    for entry in holders:
        pid, unit, program = [*entry.split(" ", 2), ""][:3]
        about[int(pid)] = ("" if unit == "-" else unit, program.removesuffix(" (deleted)"))
    found = []
    for line in sockets:
        words = line.split()
        address, _, port = words[4].rpartition(":")
        address = address.partition("%")[0].strip("[]")
        for process, pid in _USER.findall(line) or [("an unknown program", "0")]:
            unit, program = about.get(int(pid), ("", ""))
            if pid != "0" and not program:
                continue  # it ended while it was looked at, as a resolver does that cannot start
            found.append(Holder(words[0], address, int(port), plain(process), int(pid), plain(unit), program))
    return tuple(found)


def stub_is_in_the_way(held: Collection[Holder]) -> bool:
    """Whether systemd-resolved answers on port 53 of this machine."""
    return any(holder.is_stub and holder.port == DNS_PORT for holder in held)


def strangers(held: Sequence[Holder], wanted: Sequence[Need], ours: Collection[str]) -> Iterator[tuple[Need, Holder]]:
    """Who else holds what is needed. `ours`: units of resolvers that are this deploy's or an earlier one's."""
    for need in wanted:
        for holder in held:
            at_it = holder.port == need.port and holder.protocol in need.protocols
            if at_it and _overlap(need.address, holder.address) and not _is_ours(holder, ours):
                yield need, holder


def require_free(site: Site, node: Node, held: Sequence[Holder], started: Collection[str]) -> None:
    """Raises NodeError if a port of `node` is held by anybody else. `started`: units that earlier deploys started."""
    ours = set(started)
    if node.resolver == "unbound":
        ours.add(layout.resolver_unit("unbound"))  # the distribution's own gets our configuration
    found = list(strangers(held, needs(site, node), ours))
    if not found:
        return
    need = found[0][0]
    who = list(dict.fromkeys(holder.show() for each, holder in found if each == need))
    first = found[0][1]
    how = f" (`systemctl disable --now {first.unit}`)" if first.unit.endswith(".service") else ""
    other = " or set its `resolver` to unbound," if first.unit == layout.resolver_unit("unbound") else ""
    raise NodeError(
        f"{node.name}: port {need.port}, {need.purpose}, is held by {' and '.join(who)}.",
        f"Stop it there{how},{other} or have it listen elsewhere; nothing was changed.",
    )


def _is_ours(holder: Holder, ours: Collection[str]) -> bool:
    if holder.is_our_adguard or holder.is_stub:
        return True
    program = holder.program.rpartition("/")[2]
    if program == "unbound" or (not holder.program and holder.process == "unbound"):
        return holder.unit in ours
    if holder.process in _FRR or program in _FRR:
        return True
    return holder.unit == layout.PROBE_UNIT


def _overlap(needed: str, held: str) -> bool:
    return not needed or held in _EVERYWHERE or held == needed
