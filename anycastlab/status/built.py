"""Which instances of the embedded lab exist: whether it is built at all, and which of them its inventory forgot.

Asked of this machine's Incus server alone, where the lab is. A real home has no such question.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

from anycastlab import probe_control
from anycastlab.errors import AnycastlabError
from anycastlab.incus import instances
from anycastlab.incus.errors import IncusError, MissingError
from anycastlab.incus.exec import execute
from anycastlab.incus.labs import owned
from anycastlab.incus.rest import Rest, connect
from anycastlab.incus.spec import Lab
from anycastlab.site import Site
from anycastlab.site.load import HostLike


class NotBuiltError(AnycastlabError):
    """The lab does not exist (yet), so there is nothing to look at."""


def own_instances(lab: Lab) -> list[str]:
    """Names of the instances that this lab made, in order; empty when it is not built. Raises IncusError."""
    rest = connect(None, lab.project)
    if rest.in_project(None).find(f"/projects/{quote(lab.project)}") is None:
        return []
    return sorted(found["name"] for found in rest.get("/instances", recursion="1") if owned(found, lab))


def require_built(site: Site) -> None:
    """Raises NotBuiltError for a lab that has no instance, IncusError when that cannot be asked."""
    if site.lab is not None and not own_instances(Lab(site.lab)):
        raise NotBuiltError(f"The lab {site.lab} is not built.", "Run `make lab`, or `anycastlab up`.")


def names_in(hosts: Collection[HostLike]) -> set[str]:
    """The machines of an inventory by every name that an instance of theirs may have."""
    tails = {host.name.rpartition("/")[2].rpartition(":")[2] for host in hosts}
    return tails | {str(name) for host in hosts if (name := host.data.get("node_name"))}


def forgotten(lab: Lab, inventory: Collection[str]) -> list[str]:
    """Instances that this lab made and that `inventory` (see `names_in`) does not name any more."""
    return [name for name in own_instances(lab) if name not in inventory]


def reminder(name: str) -> str:
    """What a deploy says about a forgotten instance."""
    return f"{name} is no longer in the inventory; its container is still there: `anycastlab down {name}` removes it."


def require_forgotten(lab: Lab, name: str, inventory: Collection[str]) -> None:
    """Raises MissingError or IncusError for a name that is still in the inventory or not this lab's."""
    _forgotten(lab, name, inventory)


def remove_forgotten(lab: Lab, name: str, inventory: Collection[str]) -> None:
    """Delete one forgotten instance; a node leaves service first, so that nobody asks it any more.

    Raises MissingError or IncusError for a name that is still in the inventory or not this lab's.
    """
    rest, found = _forgotten(lab, name, inventory)
    if found["status"] == "Running":
        _withdraw(rest, name)
    instances.delete(rest, name)


def _forgotten(lab: Lab, name: str, inventory: Collection[str]) -> tuple[Rest, dict[str, Any]]:
    if name in inventory:
        raise IncusError(f"{name} is in the inventory.", "Take its line out first, or run `anycastlab down` for all.")
    rest = connect(None, lab.project)
    found = rest.find(f"/instances/{quote(name)}")
    if found is None:
        raise MissingError(f"The lab {lab.name} has no instance {name}.")
    if not owned(found, lab):
        raise IncusError(f"The instance {name} was not made by lab {lab.name}; it is left alone.")
    return rest, found


def _withdraw(rest: Rest, name: str) -> None:
    """As a drained node; a machine that is no node, or does not obey, goes all the same."""

    def run(node: str, argv: Sequence[str]) -> tuple[int | None, str]:
        try:
            result = execute(rest, node, argv, timeout_s=probe_control.DRAIN_WAIT_S)
        except (IncusError, TimeoutError):
            return None, ""
        return result.exit_code, result.text

    if run(name, ["sh", "-c", f"test -e {shlex.quote(probe_control.STATE_PATH)}"])[0] != 0:
        return
    try:
        probe_control.drain(run, [name], name, force=True)
    except AnycastlabError:
        return
