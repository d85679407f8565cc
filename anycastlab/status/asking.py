"""Asking through the service address from where the household is: the lab's client, or this machine in a real home."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from anycastlab.outside_text import name, one_line
from anycastlab.site import Site
from anycastlab.status import ask
from anycastlab.status.household import Household, questions
from anycastlab.stored import parse_json

LAB_CLIENT = "client01"

# Records of one answer that are kept; an identity is one, a name of the household has a few.
MOST_RECORDS = 16

RunOnClient = Callable[[Sequence[str]], tuple[bool, str]]
"""Runs a command on the lab's client; whether it succeeded, and what it printed or why it failed."""


def command(questions: list[list[str]]) -> list[str]:
    """The command that asks `questions` (see `ask`) on a machine that has nothing of ours but Python and dnspython."""
    return ["python3", "-c", Path(ask.__file__).read_text(encoding="utf-8"), json.dumps(questions)]


def ask_from(site: Site, run: RunOnClient, wires: list[list[str]]) -> tuple[list[list[str] | None], str | None]:
    """The answers to `wires` (see `Question.wire`), and why there are none when the asking itself failed."""
    if site.lab is None:
        return [_answer(each) for each in ask.ask_all(wires)], None
    ok, output = run(command(wires))
    if not ok:
        reason = (output.strip().splitlines() or ["no response"])[-1]
        return [None] * len(wires), f"the lab's client cannot ask: {reason}"
    try:
        answers = parse_json((output.strip().splitlines() or [""])[-1])
    except ValueError:  # a machine that is planned and not there yet says nothing
        return [None] * len(wires), "the lab's client cannot ask: no response"
    return [_answer(each) for each in answers], None


def _answer(texts: list[str] | None) -> list[str] | None:
    """Whoever answered may have said anything: bounded, and fit to be shown."""
    return None if texts is None else [one_line(text) for text in texts[:MOST_RECORDS]]


def ask_household(site: Site, run: RunOnClient) -> tuple[Household, str | None]:
    """What came of everything that a household asks, and why nothing did when the asking itself failed."""
    asked = questions(site)
    answers, problem = ask_from(site, run, [question.wire for question in asked])
    return Household.of(site, asked, answers), problem


def stranger(site: Site, address: str, answer: Sequence[str]) -> str | None:
    """What is wrong with an answer to the identity question that comes from none of the nodes."""
    if any(list(answer[:1]) == [node.name] for node in site.nodes):
        return None
    if answer:
        return f"{address} is answered by {name(answer[0])!r}, which is none of the nodes"
    return f"{address} is answered by somebody who is none of the nodes, and the last resort is off"


def service_asker(site: Site, run: RunOnClient) -> Callable[[str, bool], str | None]:
    """Asks who answers the service address by `udp` or `tcp`; None when a node does, else what happened.

    Only an answer that names a node is one: a rule that sends all DNS elsewhere gets answers, too. With the last resort
    on (the second argument) the router's is as good.
    """

    def asker(protocol: str, last_resort: bool) -> str | None:
        asked = [str(address) for address in (site.service.address, site.service.address6) if address]
        identity = site.service.identity_name
        answers, problem = ask_from(site, run, [[address, identity, "TXT", protocol] for address in asked])
        if problem:
            return problem
        silent = [address for address, answer in zip(asked, answers, strict=True) if answer is None]
        if silent:
            return f"{' and '.join(silent)} gave no answer over {protocol.upper()}"
        strangers = (stranger(site, address, answer or []) for address, answer in zip(asked, answers, strict=True))
        return None if last_resort else next((told for told in strangers if told), None)

    return asker
