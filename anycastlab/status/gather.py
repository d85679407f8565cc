"""Finds out the `Status` of a home: one command per node, one session with the router, one round of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from anycastlab.node import layout, ports
from anycastlab.outside_text import name, one_line
from anycastlab.probe_control import PEERS_PROBLEM, parse_state
from anycastlab.site import Node, Site
from anycastlab.status.answer import Answer
from anycastlab.status.asking import ask_from
from anycastlab.status.household import Household, questions
from anycastlab.status.model import NodeStatus, RouterStatus, ServiceStatus, Status
from anycastlab.stored import Damaged, parse_json

# One script per node, so that one round trip tells everything: lines of a word, a tab and what was found out. A part
# that fails leaves its line empty, and `timeout` keeps a frozen daemon from holding up the rest. The resolver is the
# one that has port 53: after `up --data resolver=unbound` the inventory still names the other, and a person may run an
# unbound of their own on another port.
_NODE_SCRIPT = r"""
say() { printf '%s\t%s\n' "$1" "$(timeout 2 sh -c "$2" 2>/dev/null | tr -d '\n')"; }
say architecture 'cat /proc/sys/kernel/arch || uname -m'
kind=$1
systemctl -q is-active "$kind" || case "$(ss -H -lunp 'sport = :53')" in
*'"AdGuardHome"'*) kind=adguardhome;; *'"unbound"'*) kind=unbound;; esac
say resolver "echo $kind"
if [ "$kind" = adguardhome ]; then say version '/usr/local/lib/anycastlab/AdGuardHome --version'
else say version 'unbound -V | head -n 1'; fi
say bgp "vtysh -c 'show bgp summary json'"
say bfd "vtysh -c 'show bfd peers json'"
say advertised "vtysh -c 'show bgp ipv4 unicast neighbors $2 advertised-routes json'"
say drained 'test -e /var/lib/anycastlab/drained && echo "yes $(head -c 200 /var/lib/anycastlab/drained | head -n 1)"'
say probe 'head -c 65536 /run/anycastlab/probe.json'
say clock 'date +%s.%N'
say() { printf '%s\t%s\n' "$1" "$2"; }
""" + ports.script()


class RouterReader(Protocol):
    """Reads the router's side; the real one speaks the RouterOS API."""

    def __call__(self, site: Site) -> RouterStatus: ...


class Machines(Protocol):
    """A home's machines as they are asked here; `Fleet` is one."""

    @property
    def site(self) -> Site: ...
    def run_on_client(self, argv: Sequence[str]) -> tuple[bool, str]: ...
    def run_all(self, commands: Mapping[str, Sequence[str]]) -> dict[str, Answer]: ...


def gather(fleet: Machines, read_router: RouterReader) -> Status:
    """The state of the fleet's home. Never raises for a machine that is down: its part says what is wrong."""
    site = fleet.site
    asked = questions(site)
    twin = str(site.service.address6) if site.service.address6 else None
    wires = [*(question.wire for question in asked), *([[twin, site.service.identity_name, "TXT"]] if twin else [])]
    router = read_router(site)
    answers, problem = ask_from(site, fleet.run_on_client, wires)
    household = Household.of(site, asked, answers[: len(asked)])
    outputs = fleet.run_all(
        {node.name: ["sh", "-c", _NODE_SCRIPT, "status", node.resolver, str(node.gateway)] for node in site.nodes}
    )
    nodes = tuple(node_status(node, site, outputs[node.name], household) for node in site.nodes)
    by = household.answered_by
    return Status(
        nodes,
        router,
        ServiceStatus(household.service, by is not None, by, problem),
        service6=service_status(site, answers[-1], problem, twin) if twin else None,
        household=() if problem else tuple(household.complaints(wanted=_in_service(nodes))),
    )


def _in_service(nodes: Sequence[NodeStatus]) -> list[str]:
    """Those whom nothing else explains: not drained, and reached."""
    return [node.name for node in nodes if not node.drained and not node.problem]


def service_status(site: Site, answer: list[str] | None, problem: str | None, address: str) -> ServiceStatus:
    """What asking a service address for the identity says: its text, or no text when the router itself answered."""
    if answer is None:
        return ServiceStatus(address, problem=problem)
    return ServiceStatus(address, answers=True, answered_by=answer[0] if answer else site.router.name)


def node_status(node: Node, site: Site, output: Answer, household: Household) -> NodeStatus:
    """Pure: what one node's script printed, and what others heard from it."""
    base = NodeStatus(
        node.name,
        str(node.address),
        resolver=node.resolver,
        answers=household.answers(node.name),
        address6=str(node.address6) if site.service.address6 else None,
        internet=household.internet(node.name),
    )
    if output.code != 0:
        reason = output.stderr.strip().splitlines()[-1:] or ["it does not respond"]
        return replace(base, problem=f"cannot be reached: {one_line(reason[0])}")
    said = dict(line.split("\t", 1) for line in output.stdout.splitlines() if "\t" in line)
    said |= {key: name(said[key]) for key in ("architecture", "resolver", "version") if key in said}
    bgp = _json(said.get("bgp", ""), {}).get("ipv4Unicast", {}).get("peers", {})
    bfd = {peer.get("peer"): peer.get("status") for peer in _json(said.get("bfd", ""), [])}
    advertised = _json(said.get("advertised", ""), {}).get("advertisedRoutes", {})
    drained = said.get("drained", "")
    sharing = _sharing(node, site, output.stdout)
    probe = parse_state(node.name, [said.get("probe", ""), said.get("clock", "")])
    wan = probe.questions.get("wan")
    return replace(
        base,
        architecture=said.get("architecture") or None,
        resolver=said.get("resolver") or node.resolver,
        version=_version(said.get("version", "")),
        bgp=_word(bgp.get(str(node.gateway), {}).get("state")),
        bfd=_word(bfd.get(str(node.gateway))),
        announced=str(site.service.prefix) in advertised,
        drained=bool(drained),
        drain_wanted=layout.asked_for(drained.removeprefix("yes")),
        wan=None if wan is None or not wan.outcome else not wan.bad,
        wan_age_s=None if wan is None else wan.age_s,
        sharing=sharing,
        peers_problem=probe.problems.get(PEERS_PROBLEM),
    )


def _sharing(node: Node, site: Site, printed: str) -> tuple[str, ...]:
    """Other programs on the node's port 53: with SO_REUSEPORT they take a part of the questions in silence."""
    lines = [line.split("\t", 1) for line in printed.splitlines() if "\t" in line]
    try:
        held = ports.parse(*([value for key, value in lines if key == kind] for kind in ("socket", "holder")))
    except (ValueError, IndexError):
        return ()
    wanted = [need for need in ports.needs(site, node) if need.port == ports.DNS_PORT]
    found = ports.strangers(held, wanted, layout.RESOLVER_UNITS.values())
    return tuple(dict.fromkeys(holder.show() for _, holder in found))


def _word(value: object) -> str | None:
    return name(value) if isinstance(value, str) else None


def _version(text: str) -> str | None:
    """`v0.107.79` of `AdGuard Home, version v0.107.79`; `1.22.0` of `Version 1.22.0`."""
    return text.split()[-1] if text.strip() else None


def _json(text: str, empty: Any) -> Any:
    """The JSON in `text` if it is of the kind of `empty`, else `empty`: a daemon that is down prints an error line."""
    try:
        value = parse_json(text)
    except Damaged:
        return empty
    return value if isinstance(value, type(empty)) else empty
