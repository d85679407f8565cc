"""Does the router do what it is for? Each thing that is wrong is named with its cause, within `VERIFY_TIMEOUT_S`.

A thin loop: observe, judge (`judge.py`), until all is well or time is over. Only then the rows are read for causes
(`causes.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anycastlab.errors import MOST
from anycastlab.outside_text import one_line
from anycastlab.routeros.assessment import Finding, assess
from anycastlab.routeros.connection import Connection
from anycastlab.routeros.diagnosis import bfd_cause, bgp_cause
from anycastlab.routeros.errors import VerifyError
from anycastlab.routeros.in_use import doubtful, settled, unused
from anycastlab.routeros.limits import VERIFY_INTERVAL_S, VERIFY_TIMEOUT_S
from anycastlab.routeros.look_around import look_around
from anycastlab.routeros.observe import Observation, observe
from anycastlab.routeros.obstacles import Obstacle
from anycastlab.routeros.reading import Reading, read
from anycastlab.routeros.row import Row
from anycastlab.routeros.rows import desired_rows
from anycastlab.site.model import Site
from anycastlab.site.parts import Node

Asker = Callable[[str, bool], str | None]
"""Asks through the service address by `udp` or `tcp` from where a client is; None when a node answered, else what
happened. The second argument says whether the last resort is on: then an answer of the router's is as good."""

Explain = Callable[[Node], str | None]
"""The node's own view of a session that is not there (the last error its bgpd saw), or None. The router shows nothing
of a session that never came up, such as one refused for its AS number."""


@dataclass(frozen=True)
class Verification:
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.ok and finding.required)

    @property
    def ok(self) -> bool:
        return not self.failures

    def with_household(self, sentence: str, complaints: Sequence[str]) -> Verification:
        """These findings, and what a household's questions came to: a router in order is no help where names fail."""
        names = tuple(Finding("household", "names", False, text) for text in complaints)
        return Verification((*self.findings, *(names or (Finding("household", "names", True, sentence),))))

    def lines(self) -> list[str]:
        """For a person: `ok`, `FAIL`, or `note` for what is wrong but was not asked for."""
        marks = {(True, True): "ok  ", (True, False): "ok  ", (False, True): "FAIL", (False, False): "note"}
        return [
            one_line(
                f"{marks[f.ok, f.required]}  {f.subject} {f.check}: {f.text}" + (f" {f.hint}" if f.hint else ""), MOST
            )
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
    multipath = reading.shares_load(site)
    end = clock() + timeout_s
    while True:
        observation = observe(connection, site)
        findings = tuple(assess(site, observation, multipath, names))
        if Verification(findings).ok or clock() >= end:
            break
        sleep(VERIFY_INTERVAL_S)
    if not Verification(findings).ok:
        reading = read(connection)
        findings = tuple(_with_cause(finding, site, observation, reading, explain) for finding in findings)
    desired = desired_rows(site, reading.device)
    rows = _rows(desired, settled(connection, desired, clock, sleep))
    around = look_around(site, reading)
    answers = _answers(ask, observation.redirect_active, around) if ask else ()
    return Verification((*_obstacles(around), *findings, *rows, *answers))


def _obstacles(around: Sequence[Obstacle]) -> Iterator[Finding]:
    """What of a person's is in the way comes first: it is the cause of whatever else is wrong."""
    for obstacle in around:
        text = f"{obstacle.where}: {obstacle.means}"
        yield Finding("router", "in the way", False, text, obstacle.hint, obstacle.weight != "may")


def _with_cause(
    finding: Finding, site: Site, observation: Observation, reading: Reading, explain: Explain | None
) -> Finding:
    kind = finding.check.split()[0]
    if finding.ok or kind not in {"bgp", "bfd"} or finding.hint:
        return finding
    node = site.node(finding.subject)
    ipv6 = finding.check != kind
    cause, hint = (bgp_cause if kind == "bgp" else bfd_cause)(site, node, observation, reading, ipv6)
    if kind == "bgp" and explain is not None and (view := explain(node)):
        cause += f"; {node.name} says: {view}"
    return Finding(finding.subject, finding.check, False, f"{finding.text}: {cause}.", hint, finding.required)


def _rows(desired: Sequence[Row], reading: Reading) -> Iterator[Finding]:
    problems = unused(desired, reading.menus)
    yield Finding(
        "router",
        "rows",
        not problems,
        "; ".join(problems) or "all in use",
        "The router cannot use these rows as they are written." if problems else "",
    )
    for text in doubtful(desired, reading.menus):
        hint = "Routers say so of rules that work, too; look at it only if something does not."
        yield Finding("router", "firewall", False, f"{text}.", hint, required=False)


def _answers(ask: Asker, last_resort: bool, around: Sequence[Obstacle]) -> Iterator[Finding]:
    hint = f"Look at {around[0].where}." if around else ""
    for protocol in ("udp", "tcp"):
        problem = ask(protocol, last_resort)
        check = f"answer over {protocol.upper()}"
        yield Finding("service", check, problem is None, problem or "answered", hint if problem else "")
