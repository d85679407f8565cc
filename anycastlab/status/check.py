"""A pyinfra operation that changes nothing: the service address answers, or the run has failed.

It is a no-op wherever an answer comes at once, so a run that changes nothing shows no change. Where none comes yet
(sessions that are just coming up) it waits for one. A plan does not ask.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Generator
from typing import Any

from pyinfra import context, host, logger
from pyinfra.api import FactBase, FunctionCommand, StringCommand, operation

from anycastlab.run import tell
from anycastlab.site import Site
from anycastlab.status import ask
from anycastlab.status.asking import command

# Seconds until the first answer must have come: BGP's start-up delay in FRR (5 s), the probe's and the router's turn.
FIRST_ANSWER_LIMIT_S = 30.0
POLL_S = 0.25


class ServiceAnswer(FactBase[list[str] | None]):
    """What the identity name says, asked on this host through the service address; None: no answer."""

    @staticmethod
    def default() -> list[str] | None:
        return None

    def command(self, address: str, question: str) -> StringCommand:
        return StringCommand(shlex.join(command([[address, question, "TXT"]])))

    def process(self, output: list[str]) -> list[str] | None:
        return list(json.loads(output[-1])[0] or []) or None if output else None


@operation()
def service_answers(site: Site) -> Generator[FunctionCommand, None, None]:
    """The service address gives this host an answer."""
    if not context.state.is_executing:
        return  # what is planned may not be there yet, and a check is no change
    if answer := _answer(site):
        _tell(site, answer)
        host.noop(f"{site.service.address} answers")
        return
    yield FunctionCommand(_wait, (site,), {})


def _tell(site: Site, answer: list[str]) -> None:
    tell.closing(f"{site.service.address} answered by {', '.join(text.strip(chr(34)) for text in answer)}")


def _answer(site: Site) -> list[str] | None:
    address, name = str(site.service.address), site.service.identity_name
    if site.lab is None:
        return ask.ask(address, name, "TXT")
    found: list[str] | None = context.host.get_fact(ServiceAnswer, address=address, question=name)
    return found


# pyinfra passes `state` and `host`, and heeds the answer, only for a function with parameters of these names.
def _wait(state: Any, host: Any, site: Site) -> bool:  # noqa: ARG001
    end = time.monotonic() + FIRST_ANSWER_LIMIT_S
    while time.monotonic() < end:
        if answer := _answer(site):
            _tell(site, answer)
            return True
        time.sleep(POLL_S)
    sentence = f"The service address {site.service.address} gave no answer within {FIRST_ANSWER_LIMIT_S:g} s."
    host.log_styled(f"{sentence} `anycastlab status` says more.", fg="red", log_func=logger.error)
    return False
