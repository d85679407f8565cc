"""Does the router do what it is for? Each thing that is wrong is named with its cause, within `VERIFY_TIMEOUT_S`.

Pure judging of an `Observation`, and a thin loop that observes until all is well or time is over. Only then the rows
are read for causes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from anycastlab.routeros.causes import bfd_cause, bgp_cause
from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import VerifyError
from anycastlab.routeros.limits import BFD_INTERVAL_TOLERANCE, VERIFY_INTERVAL_S, VERIFY_TIMEOUT_S
from anycastlab.routeros.observe import BfdSession, Observation, observe
from anycastlab.routeros.plan import unhealthy
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import Reading, read
from anycastlab.routeros.rows_bgp import connection_name
from anycastlab.site.model import Node, Site

Asker = Callable[[str], str | None]
"""Asks through the service address by `udp` or `tcp` from where a client is; None when answered, else what happened."""

Explain = Callable[[Node], str | None]
"""The node's own view of a session that is not there (the last error its bgpd saw), or None. The router shows nothing
of a session that never came up, such as one refused for its AS number."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `subject` is a node's name, `router` or `service`; `required`: counts against success."""

    subject: str
    check: str
    ok: bool
    text: str
    hint: str = ""
    required: bool = True


@dataclass(frozen=True)
class Verification:
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.ok and finding.required)

    @property
    def ok(self) -> bool:
        return not self.failures

    def lines(self) -> list[str]:
        """For a person: `ok`, `FAIL`, or `note` for what is wrong but was not asked for."""
        marks = {(True, True): "ok  ", (True, False): "ok  ", (False, True): "FAIL", (False, False): "note"}
        return [
            f"{marks[f.ok, f.required]}  {f.subject} {f.check}: {f.text}" + (f" {f.hint}" if f.hint else "")
            for f in self.findings
        ]

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "findings": [vars(finding) for finding in self.findings]}

    def raise_if_failed(self, host: str) -> None:
        if self.failures:
            first = self.failures[0]
            others = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
            raise VerifyError(f"{first.subject} {first.check}: {first.text}{others}", first.hint, host)


def verify(
    connection: Connection,
    site: Site,
    *,
    required: Collection[str] | None = None,
    ask: Asker | None = None,
    explain: Explain | None = None,
    timeout_s: float = VERIFY_TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Verification:
    """Waits until all is well or time is over. `required` names the nodes that must serve; None means all."""
    names = {node.name for node in site.nodes} if required is None else set(required)
    reading = read(connection)
    multipath = reading.capabilities.multipath
    end = clock() + timeout_s
    while True:
        observation = observe(connection, site)
        findings = tuple(judge(site, observation, multipath, names))
        if Verification(findings).ok or clock() >= end:
            break
        sleep(VERIFY_INTERVAL_S)
    if not Verification(findings).ok:
        reading = read(connection)
        findings = tuple(_with_cause(finding, site, observation, reading, explain) for finding in findings)
    rows = _rows(site, reading)
    return Verification((*findings, *rows, *(_answers(ask) if ask else ())))


def judge(site: Site, observation: Observation, multipath: bool, required: Collection[str]) -> Iterator[Finding]:
    """All findings about one observation. Pure."""
    service = str(site.service.prefix)
    hops = {route.gateway for route in observation.routes if route.prefix == service and route.active}
    for node in site.nodes:
        yield from _judge_node(site, node, observation, node.name in required)
    yield _judge_hops(site, observation, hops, multipath, required)
    allowed = {service, str(site.service.prefix6)}
    strange = sorted(
        {f"{r.prefix} from {r.gateway}" for r in observation.routes if r.prefix not in allowed and not r.filtered}
    )
    yield Finding(
        "router",
        "filter",
        not strange,
        f"accepted what no node may announce: {', '.join(strange)}."
        if strange
        else "nothing else accepted from the nodes",
        "The connection's input.filter is missing or another rule accepts it." if strange else "",
    )
    wrong = bool(hops) and observation.redirect_active
    yield Finding(
        "router",
        "redirect",
        not wrong,
        "the redirect is on although nodes announce the address." if wrong else "the redirect is as it must be",
        "Netwatch gets no answer through the service address, or has not asked yet." if wrong else "",
    )


def _judge_node(site: Site, node: Node, observation: Observation, required: bool) -> Iterator[Finding]:
    address = str(node.address)
    bgp = observation.bgp.get(address)
    established = bgp is not None and bgp.established
    yield Finding(node.name, "bgp", established, "established" if established else "no session", required=required)
    bfd = observation.bfd.get(address)
    if bfd is None or not bfd.up:
        state = "no BFD session" if bfd is None else f"BFD is {bfd.state}"
        yield Finding(node.name, "bfd", False, state, required=required)
    elif problem := _interval_problem(site, bfd):
        hint = f"Both ends must have interval {site.bfd.interval_ms} ms x {site.bfd.multiplier}."
        yield Finding(node.name, "bfd", False, problem, hint, required=required)
    else:
        yield Finding(node.name, "bfd", True, "up", required=required)
    service = str(site.service.prefix)
    mine = [route for route in observation.routes if route.prefix == service and route.gateway == address]
    if any(not route.filtered for route in mine):
        yield Finding(node.name, "route", True, "announced", required=required)
    elif mine:
        hint = f"Look at the chain the connection {connection_name(node)} names as input.filter."
        yield Finding(node.name, "route", False, f"{service} is rejected by the router's filter.", hint, required)
    else:
        hint = f"Is its resolver healthy, or is it drained? Look at the probe of {node.name}." if established else ""
        yield Finding(node.name, "route", False, f"{service} is not announced.", hint, required)


def _interval_problem(site: Site, bfd: BfdSession) -> str:
    wanted = site.bfd.interval_ms * 1000
    for name, actual, expected in (
        ("interval", bfd.transmit_us, wanted),
        ("detection time", bfd.hold_us, wanted * site.bfd.multiplier),
    ):
        if actual and abs(actual - expected) > expected * BFD_INTERVAL_TOLERANCE:
            return f"negotiated {name} is {actual / 1000:g} ms instead of {expected / 1000:g} ms"
    return ""


def _judge_hops(
    site: Site, observation: Observation, hops: set[str], multipath: bool, required: Collection[str]
) -> Finding:
    service = str(site.service.prefix)
    names = {str(node.address): node.name for node in site.nodes}
    shown = ", ".join(sorted(names.get(hop, hop) for hop in hops)) or "none"
    must = {str(node.address) for node in site.nodes if node.name in required}
    if not must:
        return Finding("service", "next hops", True, shown, required=False)
    if not hops:
        return Finding("service", "next hops", False, f"no active route to {service}.")
    if multipath and not must <= hops:
        missing = ", ".join(sorted(names[hop] for hop in must - hops))
        standing_by = {r.gateway for r in observation.routes if r.prefix == service and not r.filtered} - hops
        hint = "ECMP needs one BGP instance with multipath, and equal attributes from all nodes." if standing_by else ""
        return Finding("service", "next hops", False, f"{service} goes to {shown}; {missing} is left out.", hint)
    return Finding("service", "next hops", True, shown)


def _with_cause(
    finding: Finding, site: Site, observation: Observation, reading: Reading, explain: Explain | None
) -> Finding:
    if finding.ok or finding.check not in {"bgp", "bfd"} or finding.hint:
        return finding
    node = site.node(finding.subject)
    cause, hint = (bgp_cause if finding.check == "bgp" else bfd_cause)(site, node, observation, reading)
    if finding.check == "bgp" and explain is not None and (view := explain(node)):
        cause += f"; {node.name} says: {view}"
    return Finding(finding.subject, finding.check, False, f"{finding.text}: {cause}.", hint, finding.required)


def _rows(site: Site, reading: Reading) -> Iterator[Finding]:
    problems = unhealthy(plan_site(site, reading).desired, reading.menus)
    yield Finding(
        "router",
        "rows",
        not problems,
        "; ".join(problems) or "all in use",
        "The router cannot use these rows as they are written." if problems else "",
    )


def _answers(ask: Asker) -> Iterator[Finding]:
    for protocol in ("udp", "tcp"):
        problem = ask(protocol)
        yield Finding("service", f"answer over {protocol.upper()}", problem is None, problem or "answered")
