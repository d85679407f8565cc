"""The state of a home as `anycastlab status` reports it, and what "healthy" means. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from anycastlab.site import Site

# What a BGP session does in each state of RFC 4271 but Established.
_SESSION_WORDS = {
    "Idle": "is down, and nothing is tried at the moment",
    "Connect": "is not up: the node is trying to connect",
    "Active": "is not up: no connection succeeded, and the node waits for the next try",
    "OpenSent": "is not up: the node is connected and waits for the router's OPEN message",
    "OpenConfirm": "is not up yet: both sides have introduced themselves",
}


@dataclass(frozen=True)
class NodeStatus:
    """One node. A field is None when it could not be found out; `problem` then says why."""

    name: str
    address: str
    architecture: str | None = None
    resolver: str | None = None
    version: str | None = None
    bgp: str | None = None  # RFC 4271 state of the session to the router, such as "Established"
    bfd: str | None = None  # RFC 5880 state, such as "up"
    announced: bool = False
    answers: bool = False
    drained: bool = False
    drain_wanted: bool = False  # a person took it out of service; else a deploy that did not finish
    problem: str | None = None
    address6: str | None = None  # where it has the IPv6 session; None without an IPv6 service address
    wan: bool | None = None  # whether the probe's last internet names resolved; None: not known
    wan_age_s: float | None = None  # how old that is
    sharing: tuple[str, ...] = ()  # other programs that listen on its port 53
    peers_problem: str | None = None  # why the probe cannot talk to the other nodes' probes
    internet: bool | None = None  # whether one resolved through it just now, asked from outside; None: not asked


def session_words(state: str | None) -> str:
    """What a session that is not Established does: the end of a sentence."""
    if state is None:
        return "is not configured"
    words = _SESSION_WORDS.get(state)
    return f"{words} (BGP state {state})" if words else f"is in state {state}"


@dataclass(frozen=True)
class RouterStatus:
    address: str
    version: str | None = None
    next_hops: tuple[str, ...] = ()  # active next hops of the service prefix
    redirect_active: bool | None = None  # the last resort answers instead of the nodes
    problem: str | None = None
    next_hops6: tuple[str, ...] = ()  # of the IPv6 service prefix
    standing_by: tuple[str, ...] = ()  # next hops kept ready where BGP uses one at a time, such as below 7.22
    standing_by6: tuple[str, ...] = ()
    netwatch: str | None = None  # what the entry of the last resort says: up, down, unknown, off or missing
    redirect_wrong: bool = False  # the redirect is not as netwatch wants it

    @property
    def ready(self) -> frozenset[str]:
        """Nodes' addresses the router sends to, or would at once."""
        return frozenset((*self.next_hops, *self.next_hops6, *self.standing_by, *self.standing_by6))

    def last_resort_complaints(self) -> list[str]:
        mend = "`anycastlab up` puts it right."
        if self.redirect_wrong and self.redirect_active:
            return [f"The last resort is on although netwatch gets answers from the nodes. {mend}"]
        if self.redirect_wrong:
            return [f"The last resort is off although netwatch gets no answer: nobody answers the household. {mend}"]
        if self.netwatch in ("off", "missing"):
            state = "disabled" if self.netwatch == "off" else "missing"
            return [f"The entry in /tool/netwatch is {state}: nothing would switch the last resort on. {mend}"]
        if self.redirect_active:
            return ["The last resort is on: the router answers itself because no node does."]
        return []


@dataclass(frozen=True)
class ServiceStatus:
    address: str
    answers: bool = False
    answered_by: str | None = None  # node name, or "router" when the last resort answered
    problem: str | None = None


@dataclass(frozen=True)
class Status:
    """`problem`: why nothing could be looked at, such as a lab that is not built; everything else is unknown then."""

    nodes: tuple[NodeStatus, ...]
    router: RouterStatus
    service: ServiceStatus
    problem: str | None = None
    service6: ServiceStatus | None = None  # the IPv6 service address, if there is one
    notes: tuple[str, ...] = ()  # what a person should know that is no fault, such as other settings than the files'
    household: tuple[str, ...] = ()  # what is wrong for those who ask, see `household.Household.complaints`

    @classmethod
    def unknown(cls, site: Site, problem: str) -> Status:
        """What the inventory says, and of everything else that it could not be found out."""
        nodes = tuple(NodeStatus(n.name, str(n.address), resolver=n.resolver, problem=problem) for n in site.nodes)
        router = RouterStatus(str(site.router.router_id), problem=problem)
        return cls(nodes, router, ServiceStatus(str(site.service.address), problem=problem), problem)

    @property
    def router_gone(self) -> bool:
        """The router answers neither us nor any node."""
        return self.router.problem is not None and not any(node.bgp == "Established" for node in self.nodes)

    def complaints(self) -> list[str]:
        """One sentence for each thing that is not as it should be; empty: healthy."""
        if self.problem:
            return [self.problem]
        found: list[str] = []
        without_router = self.router_gone
        for node in self.nodes:
            if node.problem:
                found.append(f"{node.name}: {node.problem}")
                continue
            if node.drained and node.drain_wanted:
                continue  # out of service because a person wanted it so
            if node.drained:
                found.append(
                    f"{node.name} was taken out of service by a deploy that has not put it back; `anycastlab up` does."
                )
                continue
            if node.sharing:
                found.append(f"{node.name}: port 53 is also held by {' and '.join(node.sharing)}; stop it there.")
            if node.peers_problem:
                found.append(f"{node.name}: {node.peers_problem}; so no fault that all share is told from its own.")
            if without_router:
                continue  # its sessions end at the router: nothing of that is the node's fault
            if node.bgp != "Established":
                found.append(f"{node.name}: the BGP session to the router {session_words(node.bgp)}.")
            elif node.bfd != "up":
                found.append(f"{node.name}: BFD is {node.bfd or 'not configured'}, so a frozen node is noticed late.")
            if not node.announced:
                found.append(f"{node.name} does not announce the service address.")
            elif self.router.problem is None and node.address not in self.router.ready:
                found.append(f"{node.name} announces, but the router has no active route through it.")
            elif self.router.problem is None and node.address6 and node.address6 not in self.router.ready:
                found.append(f"{node.name}: the router has no active IPv6 route through it.")
        if self.router.problem:
            found.append(f"The router: {self.router.problem}")
            if without_router:
                found.append("No node has a session with the router: what depends on it can be judged when it is back.")
                return found
        else:
            found += self.router.last_resort_complaints()
        if self.service.problem:
            found.append(f"Nobody could ask the service address: {self.service.problem}")
        elif self.service6 is not None and not self.service6.answers:
            found.append(f"The service address {self.service6.address} gives no answer.")
        return [*found, *self.household]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
