"""What a household wants of its DNS, asked for real: internet, local, reverse and blocked names, and each node. Pure.

`questions` says what to ask (with fresh names that no cache knows), `Household.of` what the answers mean. Who asks is
the caller's business: the lab's client, or the control machine in a real home. Both are machines other than the nodes,
so a firewall on one of them shows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any, Literal, Self

from anycastlab.site import Node, Site

Kind = Literal["identity", "internet", "local", "reverse", "blocked"]
Records = list[str] | None
"""Records of an answer as text, empty where there are none; None: no answer, or an error."""

_NO_ADDRESS = "0.0.0.0"  # what both resolvers say for a blocked name


@dataclass(frozen=True)
class Question:
    """One question. `node` is whom it is put to at its own address; empty: the service address is asked."""

    kind: Kind
    server: str
    name: str
    rdtype: str
    node: str = ""
    protocol: Literal["udp", "tcp"] = "udp"

    @property
    def wire(self) -> list[str]:
        """As `ask` wants it."""
        return [self.server, self.name, self.rdtype, self.protocol]


@dataclass(frozen=True)
class Asked:
    """A question and what came of it."""

    question: Question
    records: tuple[str, ...] | None

    @property
    def ok(self) -> bool:
        if self.records is None:
            return False
        if self.question.kind == "blocked":
            return self.records == (_NO_ADDRESS,)
        if self.question.kind == "identity" and self.question.node:
            return self.records[:1] == (self.question.node,)
        return True  # that there is no such name is an answer, too


@dataclass(frozen=True)
class Household:
    """What came of all questions. `ok`: everything is answered as it should be; else `complaints` has the sentences."""

    service: str
    upstreams: tuple[str, ...]
    router_dns: str
    asked: tuple[Asked, ...]
    nodes: tuple[str, ...] = ()
    """Names of all nodes; whoever else answers is a stranger."""

    @classmethod
    def of(cls, site: Site, asked: Sequence[Question], answers: Sequence[Records]) -> Self:
        """The answers in the order of the questions."""
        pairs = zip(asked, answers, strict=True)
        return cls(
            service=str(site.service.address),
            upstreams=site.resolver.upstreams,
            router_dns=str(site.resolver.router_dns),
            nodes=tuple(node.name for node in site.nodes),
            asked=tuple(Asked(question, None if answer is None else tuple(answer)) for question, answer in pairs),
        )

    @property
    def ok(self) -> bool:
        return not self.complaints()

    @property
    def answered_by(self) -> str | None:
        """Who answered the service address: a node, "router", or None when nobody did."""
        for asked in self.asked:
            if asked.question.kind == "identity" and not asked.question.node and asked.records is not None:
                return asked.records[0] if asked.records else "router"
        return None

    def answers(self, node: str) -> bool:
        """Whether `node` answers another machine at its own address, over everything that was tried."""
        found = [asked for asked in self.asked if asked.question.node == node and asked.question.kind == "identity"]
        return bool(found) and all(asked.ok for asked in found)

    def internet(self, node: str = "") -> bool | None:
        """Whether an internet name resolves through `node`, or through the service address; None: not asked."""
        return next((asked.ok for asked in self.asked if _is(asked, "internet", node)), None)

    def sentence(self) -> str:
        """What is well, for the last line of a run: `internet and local names are answered as they should be`."""
        kinds = [asked.question.kind for asked in self.asked if not asked.question.node and asked.ok]
        kinds = [kind for kind in kinds if kind != "identity"]
        return f"{_listed(kinds)} names are answered as they should be" if kinds else "no name was asked for"

    def complaints(self, wanted: Collection[str] | None = None) -> list[str]:
        """One sentence for each thing that is wrong, with what to do about it.

        `wanted`: nodes that must answer; None: all. Of the others nothing is said.
        """
        if wanted is not None:
            asked = tuple(asked for asked in self.asked if not asked.question.node or asked.question.node in wanted)
            return replace(self, asked=asked).complaints()
        if self.answered_by is None and any(_is(asked, "identity", "") for asked in self.asked):
            service = [f"The service address {self.service} gives no answer."]
        else:
            service = list(self._service())
        return [*self._nodes(), *self._internet(), *service]

    def complaints_of(self, node: str) -> list[str]:
        """What is wrong with one node alone: an internet name must resolve there only if it does elsewhere."""
        if not self.answers(node):
            return list(self._silent(node))
        elsewhere = any(a.ok for a in self.asked if a.question.kind == "internet" and a.question.node != node)
        return [self._no_internet(node)] if elsewhere and self.internet(node) is False else []

    def to_json(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "answered_by": self.answered_by,
            "ok": self.ok,
            "sentence": self.sentence(),
            "complaints": self.complaints(),
        }

    def _nodes(self) -> Iterator[str]:
        for name in dict.fromkeys(asked.question.node for asked in self.asked if asked.question.node):
            yield from self._silent(name)

    def _silent(self, name: str) -> Iterator[str]:
        bad = [asked for asked in self.asked if _is(asked, "identity", name) and not asked.ok]
        if silent := [asked for asked in bad if asked.records is None]:
            yield (
                f"{name} gives other machines no answer at {_where(silent)}. "
                "If it has a firewall, let DNS in there (with ufw: `ufw allow 53`)."
            )
        if others := [asked for asked in bad if asked.records is not None]:
            who = repr(others[0].records[0]) if others[0].records else "somebody"
            yield (
                f"Other machines are answered by {who} at {_where(others)}, and not by {name}. Look for a second "
                "resolver there (`ss -lnp 'sport = :53'`), and for a rule that sends DNS elsewhere."
            )

    def _internet(self) -> Iterator[str]:
        asked = [asked for asked in self.asked if asked.question.kind == "internet"]
        # A node that answers nobody is told so already.
        bad = [a for a in asked if not a.ok and (not a.question.node or self.answers(a.question.node))]
        if not bad or (self.answered_by is None and not any(a.question.node for a in bad)):
            return
        nodes = [a.question.node for a in bad if a.question.node]
        everywhere = not any(a.ok for a in asked)
        yield self._no_internet(self.service if everywhere or not nodes else _listed(nodes))

    def _no_internet(self, through: str) -> str:
        names = ", ".join(self.upstreams)
        return (
            f"No internet name resolves through {through}. "
            f"Look at upstreams ({names}): is each one right, and is the provider's line up?"
        )

    def _stranger(self) -> Iterator[str]:
        """An answer is one of a node's. With all nodes silent it is the last resort's, and they are the complaint."""
        who = self.answered_by
        if who is not None and self.nodes and who not in self.nodes and any(self.answers(name) for name in self.nodes):
            shown = "the router" if who == "router" else repr(who)
            yield (
                f"The service address {self.service} is answered by {shown}, not by a node, although nodes answer. "
                "`anycastlab router verify` says what is in the way."
            )

    def _service(self) -> Iterator[str]:
        yield from self._stranger()
        for asked in self.asked:
            question = asked.question
            if question.node or asked.ok:
                continue
            if question.kind == "local":
                yield (
                    f"No local name resolves through {self.service}. "
                    f"Look at router_dns ({self.router_dns}): does the router's resolver answer the nodes there?"
                )
            elif question.kind == "reverse":
                yield (
                    f"Addresses have no names through {self.service} (asked for {question.name}). "
                    f"Look at router_dns ({self.router_dns}) and reverse_zones."
                )
            elif question.kind == "blocked":
                yield (
                    f"{question.name} is in the blocklist, but {self.service} does not block it. "
                    "Look at the nodes' own settings: is blocking switched off there?"
                )


def questions(
    site: Site, nodes: Sequence[Node] | None = None, token: Callable[[], str] = lambda: secrets.token_hex(6)
) -> tuple[Question, ...]:
    """Every kind through the service address, and of each of `nodes` (all by default) at its own address who it is,
    over UDP and TCP, and an internet name. `token` makes labels that nobody has asked for before."""
    service = str(site.service.address)
    asked = [Question("identity", service, site.service.identity_name, "TXT")]
    asked.append(Question("internet", service, f"{token()}.{site.wan_probe_zone}", "A"))
    asked.append(Question("local", service, f"{token()}.{site.probe_zone}", "A"))
    if pointer := _pointer(site):
        asked.append(Question("reverse", service, pointer, "PTR"))
    if site.resolver.blocklist:
        asked.append(Question("blocked", service, site.resolver.blocklist[0], "A"))
    for node in site.nodes if nodes is None else nodes:
        asked += node_questions(site, node, token)
    return tuple(asked)


def node_questions(
    site: Site, node: Node, token: Callable[[], str] = lambda: secrets.token_hex(6)
) -> tuple[Question, ...]:
    """What another machine asks one node."""
    address, name = str(node.address), site.service.identity_name
    return (
        Question("identity", address, name, "TXT", node.name),
        Question("identity", address, name, "TXT", node.name, "tcp"),
        Question("internet", address, f"{token()}.{site.wan_probe_zone}", "A", node.name),
    )


def _pointer(site: Site) -> str | None:
    """The name of an address of the router's, if the router is asked for such names."""
    for address in (site.resolver.router_dns, site.router.router_id):
        pointer = ip_address(address).reverse_pointer
        if any(pointer.endswith(f".{zone}") for zone in site.resolver.reverse_zones):
            return pointer
    return None


def _where(asked: Sequence[Asked]) -> str:
    over = " and ".join(each.question.protocol.upper() for each in asked)
    return f"{asked[0].question.server}, port 53 over {over}"


def _is(asked: Asked, kind: Kind, node: str) -> bool:
    return (asked.question.kind, asked.question.node) == (kind, node)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
