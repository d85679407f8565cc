"""What an inventory file of the embedded lab is written with: one line per machine.

nodes = lab.nodes("node01", "node02", lab.node("node03", resolver="unbound"))
"""

from __future__ import annotations

import os
import re
from typing import Any

from anycastlab.errors import AnycastlabError
from anycastlab.incus.spec import Lab

Machine = tuple[str, dict[str, Any]]

_NUMBERED = re.compile(r"[a-z-]+(\d+)")
MOST_NODES = 64  # the virtual router's and RouterOS' own ECMP limits lie near here; a home needs three


class LabDataError(AnycastlabError):
    """The lab's inventory cannot be right."""


def current() -> Lab:
    """The lab that `ANYCASTLAB_LAB` names; `lab` without it."""
    try:
        return Lab(os.environ.get("ANYCASTLAB_LAB") or "lab")
    except ValueError as error:
        raise LabDataError(f"ANYCASTLAB_LAB is wrong: {error}.", "Choose another name.") from None


def node(name: str, **data: Any) -> Machine:
    """One node; `data` overrides any setting for it alone, such as `resolver="unbound"`."""
    return machine(name, **data)


def machine(name: str, **data: Any) -> Machine:
    """One Incus instance of the current lab; a number at the end of its name gives its address."""
    lab = current()
    numbered = _NUMBERED.fullmatch(name)
    values: dict[str, Any] = {"lab": lab.name, "incus_project": lab.project}
    if numbered:
        values["number"] = int(numbered.group(1))
    return f"@incus/{name}", {**values, **data}


def machines(*members: str | Machine) -> list[Machine]:
    """Several instances; a name that stands twice is an error (pyinfra would merge the two in silence)."""
    made = [member if isinstance(member, tuple) else machine(member) for member in members]
    seen: set[str] = set()
    for name, data in made:
        if name in seen:
            raise LabDataError(
                f"The inventory names {name.rpartition('/')[2]} twice.", "Give every machine its own name."
            )
        seen.add(name)
        if "number" in data and not 1 <= data["number"] <= MOST_NODES:
            raise LabDataError(
                f"{name.rpartition('/')[2]}: its number must be 1 to {MOST_NODES}; it gives the address."
            )
    return made


def nodes(*members: str | Machine) -> list[Machine]:
    """The nodes of the lab, in any order; they are always worked on by name."""
    return machines(*members)


def router_api() -> list[Machine]:
    """The router's API as the host reaches it: a proxy device on 127.0.0.1 (the bridges carry no host address)."""
    lab = current()
    return [
        (
            "@routeros/router",
            {
                "lab": lab.name,
                "router_api_host": "127.0.0.1",
                "router_api_port": lab.api_port,
                "router_credentials": lab.project,  # 127.0.0.1 may be the address of several labs
                "router_tls": False,  # it never leaves this machine
                "routeros_may_be_absent": True,  # a dry run on an empty lab plans against a fresh router
            },
        )
    ]
