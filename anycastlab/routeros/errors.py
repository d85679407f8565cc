"""What can go wrong with a router, each as one sentence and a hint.

AnycastlabError
└── RouterError            the router or its API; `host` names it
    ├── RouterUnreachable  no TCP, no API service, a name that does not resolve, TLS that does not fit
    ├── RouterDenied       wrong user or password, or a policy is missing
    │   └── NoCredentials  no password is known for it
    ├── RouterLost         the session broke while a call was under way: its outcome is unknown
    ├── RouterRefused      the router understood and said no (`!trap`); `message` is its own text
    │   ├── NoSuchCommand  this version has no such menu or command
    │   ├── NoSuchItem     the row vanished between reading and writing
    │   └── NotPermitted   the user lacks a policy
    ├── PlanError          the plan cannot be made: two rows with one tag, a contradiction with foreign rows
    ├── ApplyError         applying failed; says whether the router is as before
    └── VerifyError        applied, but not working
"""

from __future__ import annotations

import re

from anycastlab.errors import AnycastlabError
from anycastlab.outside_text import one_line


class RouterError(AnycastlabError):
    """Base of all; `host` is the address the person gave."""

    def __init__(self, problem: str, hint: str = "", host: str = "") -> None:
        self.host = host
        super().__init__(problem, hint)


class RouterUnreachable(RouterError):  # noqa: N818  the house's errors read as sentences
    """Nothing that speaks the API answers there."""


class RouterDenied(RouterError):  # noqa: N818
    """The router answers but does not let this user in."""


class NoCredentials(RouterDenied):
    """There is no password to log in with."""


class RouterLost(RouterError):  # noqa: N818
    """The session ended inside a call. A write under way may or may not have happened."""


class RouterRefused(RouterError):  # noqa: N818
    """A `!trap`. `message` and `category` are the router's, `command` what was asked (values left out)."""

    def __init__(self, problem: str, hint: str = "", host: str = "", *, message: str, category: str, command: str):
        self.message = message
        self.category = category
        self.command = command
        super().__init__(problem, hint, host)


class NoSuchCommand(RouterRefused):
    """The menu or verb does not exist in this version."""


class NoSuchItem(RouterRefused):
    """The addressed row is gone."""


class NotPermitted(RouterRefused):
    """The user's group lacks a policy."""


class PlanError(RouterError):
    """The desired state cannot be planned on this router."""


class ApplyError(RouterError):
    """Applying did not end well. `restored` is True when the router was checked to be as before."""

    def __init__(self, problem: str, hint: str = "", host: str = "", *, restored: bool) -> None:
        self.restored = restored
        super().__init__(problem, hint, host)


class VerifyError(RouterError):
    """The rows are there but the service does not work as it must."""


def refused(message: str, category: str, command: str, host: str) -> RouterRefused:
    """The sentence for a trap. Texts differ between versions, so they are matched loosely (case, position)."""
    text = one_line(message.strip()) or "no reason given"
    low = text.lower()
    verb = command.rsplit("/", 1)[-1]
    facts = {"message": text, "category": category, "command": command}
    if "no such command" in low or "bad command" in low:
        return NoSuchCommand(
            f"Router {host} does not know {command}: {text}.",
            "Its RouterOS version or its packages lack this menu.",
            host,
            **facts,
        )
    if "no such item" in low:
        return NoSuchItem(
            f"Router {host}: the row for {command} is gone: {text}.",
            "Somebody else is changing the router; run again.",
            host,
            **facts,
        )
    if "not enough permission" in low or "permission denied" in low:
        policy = _policy(command, verb)
        return NotPermitted(
            f"The user may not run {command} on router {host}: {text}.",
            f"Its group needs the policy {policy}: /user/group set <group> policy=api,read,write,test,sensitive.",
            host,
            **facts,
        )
    return RouterRefused(f"Router {host} refused {command}: {text}.", _hint(low), host, **facts)


def _policy(command: str, verb: str) -> str:
    """The policy a command needs (MikroTik manual, "User", policies)."""
    if verb in {"print", "getall", "get", "find"}:
        return "read"
    return "write and read" if command.startswith(("/safe-mode", "/user")) else "write"


_INTERFACE = re.compile(r"does not match any value of (?:in-|out-)?(interface(?:-list)?)\b")


def _hint(low: str) -> str:
    if interface := _INTERFACE.search(low):
        what = interface[1].replace("-", " ")
        menu = "/interface/list" if what.endswith("list") else "/interface"
        return f"The router has no {what} of that name, {menu}/print lists them: correct wan_interface."
    if "unknown parameter" in low or "does not match any value" in low or "invalid value" in low:
        return "This RouterOS version has no such property or value; say which version it is when you report it."
    if "out of range" in low:
        return "Change the value in group_data to lie inside that range."
    if "already have" in low:
        return "A row of yours already does this; remove it, or give it our comment to hand it over."
    return ""
