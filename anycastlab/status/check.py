"""pyinfra operations that change nothing: what a household asks is answered, or the run has failed.

They are no-ops wherever the answers come at once, so a run that changes nothing shows no change. Where they do not come
yet (sessions that are just coming up) they wait. A plan does not ask.

Nodes are asked from another machine: what a node answers to itself has not passed its firewall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from pyinfra import context, host, inventory, logger
from pyinfra.api import FunctionCommand, operation
from pyinfra.api.exceptions import ConnectError, NoHostError

from anycastlab import tell
from anycastlab.node import web_page
from anycastlab.shell_fact import run_on
from anycastlab.site import Node, Site
from anycastlab.status.asking import LAB_CLIENT, ask_from, ask_household
from anycastlab.status.household import Household, node_questions

# Seconds until the first answer must have come: BGP's start-up delay in FRR (5 s), the probe's and the router's turn.
FIRST_ANSWER_LIMIT_S = 30.0
# Seconds that everything else gets after it, and a node that has just answered itself: a resolver gives a dead upstream
# up twice after `upstream_timeout_ms`, and a first question over TLS needs a handshake.
ALL_ANSWERS_LIMIT_S = 8.0
POLL_S = 0.25


@operation()
def household_is_answered(site: Site) -> Generator[FunctionCommand, None, None]:
    """Every kind of name resolves through the service address, and every node answers other machines."""
    if not context.state.is_executing:
        return  # what is planned may not be there yet, and a check is no change
    found = _household(site)
    if found is not None and found.ok:
        _tell(site, found)
        host.noop(found.sentence())
        return
    yield FunctionCommand(_wait_for_household, (site,), {})


@operation()
def answers_others(site: Site, node: Node) -> Generator[FunctionCommand, None, None]:
    """Another machine gets an answer from the node, and internet names resolve there as they do elsewhere.

    So a mistake ends the run at the first node that it makes useless. Where nobody can ask yet, nothing is said.
    """
    if not context.state.is_executing:
        return
    if not complaints_of(site, node):
        host.noop(f"{node.name} answers other machines")
        return
    yield FunctionCommand(_wait_for_node, (site, node), {})


def _tell(site: Site, found: Household) -> None:
    tell.outcome(f"{found.service} answered by {found.answered_by}")
    sentence = found.sentence()
    tell.closing(f"{sentence[0].upper()}{sentence[1:]}.")
    if page := web_page.sentence(site):
        tell.closing(page)


def _household(site: Site) -> Household | None:
    """What came of all questions; None when nobody could ask."""
    found, problem = ask_household(site, on_client)
    return None if problem else found


def complaints_of(site: Site, node: Node) -> list[str]:
    """What another machine has to say against one node; nothing where nobody could ask."""
    others = [q for other in site.nodes if other != node for q in node_questions(site, other) if q.kind == "internet"]
    asked = [*node_questions(site, node), *others]
    answers, problem = ask_from(site, on_client, [question.wire for question in asked])
    return [] if problem else Household.of(site, asked, answers).complaints_of(node.name)


def on_client(argv: Sequence[str]) -> tuple[bool, str]:
    """Run a command on the lab's client, during any machine's operation, and also if `--limit` left it out."""
    try:
        client = inventory.get_host(f"@incus/{LAB_CLIENT}")
        client.connect(show_errors=False, raise_exceptions=True)
    except (NoHostError, ConnectError) as error:
        return False, str(error)
    return run_on(client, argv)


# pyinfra passes `state` and `host`, and heeds the answer, only for a function with parameters of these names.
def _wait_for_household(state: Any, host: Any, site: Site) -> bool:  # noqa: ARG001
    found: Household | None = None

    def looked() -> Household | None:
        nonlocal found
        found = _household(site)
        return found

    _until(lambda: (seen := looked()) is not None and seen.answered_by is not None, FIRST_ANSWER_LIMIT_S)
    if found is None or found.answered_by is None:
        sentence = f"The service address {site.service.address} gave no answer within {FIRST_ANSWER_LIMIT_S:g} s."
        return failed(host, [f"{sentence} `anycastlab status` says more."])
    if not _until(lambda: (seen := looked()) is not None and seen.ok, ALL_ANSWERS_LIMIT_S):
        return failed(host, found.complaints() if found else ["Nobody could ask the service address any more."])
    _tell(site, found)
    return True


def _wait_for_node(state: Any, host: Any, site: Site, node: Node) -> bool:  # noqa: ARG001
    if _until(lambda: not complaints_of(site, node), ALL_ANSWERS_LIMIT_S):
        return True
    complaints = complaints_of(site, node)
    return not complaints or failed(host, complaints)


def _until(holds: Callable[[], bool], limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def failed(host: Any, sentences: Sequence[str]) -> bool:
    """Say what is wrong, as the last words of an operation that has failed."""
    for sentence in sentences:
        host.log_styled(sentence, fg="red", log_func=logger.error)
    return False
