"""The ground a lab stands on: its Incus project and its bridges. Made on demand, removed without a trace.

Several hosts of one run start at the same moment, and several runs may: so nothing is assumed between looking and
creating. Whoever loses the race waits until the winner's work is usable.

Bridges carry no address, no NAT, no DHCP and no IPv6 of the host. Everything is tagged `user.anycastlab=<lab>`; what
has no such tag is never changed or removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from anycastlab.image.definition import is_own_alias
from anycastlab.image.overlay import DIGEST_PROPERTY
from anycastlab.incus.spec import Lab

from . import limits
from .desired import OWNER_KEY
from .errors import ExistsError, IncusError, MissingError, UnreachableError
from .rest import Rest

BRIDGE_CONFIG = {
    "ipv4.address": "none",
    "ipv6.address": "none",
    "ipv4.nat": "false",
    "ipv6.nat": "false",
}
PROJECT_CONFIG = {
    "features.images": "false",  # the base image is shared by all labs
    "features.profiles": "true",  # an empty default profile of its own: instances get everything from us
    "features.networks": "false",
    "features.storage.volumes": "true",
}


@dataclass(frozen=True)
class _Thing:
    """A project or network: where the API lists it, its name, and what to POST for it."""

    kind: str
    collection: str
    name: str
    body: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        return f"{self.collection}/{quote(self.name)}"


def _ground(lab: Lab, networks: Iterable[str]) -> list[_Thing]:
    description = f"anycastlab: lab {lab.name}"
    project = {"name": lab.project, "description": description, "config": {**PROJECT_CONFIG, OWNER_KEY: lab.name}}
    things = [_Thing("project", "/projects", lab.project, project)]
    for name in networks:
        config = {**BRIDGE_CONFIG, OWNER_KEY: lab.name}
        body = {"name": name, "type": "bridge", "description": description, "config": config}
        things.append(_Thing("network", "/networks", name, body))
    return things


def ensure_lab_networks(rest: Rest, lab: Lab, networks: Iterable[str] | None = None) -> None:
    """Makes the lab's project and bridges (all, or just `networks`) unless they are there, and waits until usable."""
    server = rest.in_project(None)
    for thing in _ground(lab, lab.bridges if networks is None else networks):
        _ensure(server, thing, lab)


def _ensure(server: Rest, thing: _Thing, lab: Lab) -> None:
    deadline = time.monotonic() + limits.READY_TIMEOUT_S
    while True:
        found = server.find(thing.path)
        if found is None:
            with suppress(ExistsError):  # somebody was faster; look again
                server.run("post", thing.collection, thing.body)
        else:
            _require_ours(found, thing, lab)
            if _is_usable(server, thing):
                return
            time.sleep(limits.READY_POLL_S)
        if time.monotonic() > deadline:
            raise IncusError(f"The Incus {thing} did not become usable within {limits.READY_TIMEOUT_S:g} s.")


def _require_ours(found: dict[str, Any], thing: _Thing, lab: Lab) -> None:
    if owned(found, lab):
        return
    if not found.get("managed", True):
        raise IncusError(
            f"This host has an interface called {thing.name} that Incus did not make.",
            "Rename it, or choose another lab name (ANYCASTLAB_LAB).",
        )
    raise IncusError(
        f"The Incus {thing} exists and was not made by lab {lab.name}; it is left alone.",
        "Choose another lab name (ANYCASTLAB_LAB), or remove it yourself.",
    )


def foreign(rest: Rest, lab: Lab) -> list[IncusError]:
    """What stands where the lab's project and bridges belong and is not the lab's, each as the error it would cause."""
    server, found = rest.in_project(None), []
    for thing in _ground(lab, lab.bridges):
        try:
            if (there := server.find(thing.path)) is not None:
                _require_ours(there, thing, lab)
        except UnreachableError:
            raise
        except IncusError as error:
            found.append(error)
    return found


def _is_usable(server: Rest, thing: _Thing) -> bool:
    if thing.kind != "network":
        return True
    state = server.find(f"{thing.path}/state")
    return state is not None and state.get("state") == "up"


def owned(found: dict[str, Any], lab: Lab) -> bool:
    """Whether an object of the API is tagged as this lab's."""
    return (found.get("config") or {}).get(OWNER_KEY) == lab.name


# Removal -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inventory:
    """What of a lab can be removed from a server, and what `foreign` things are in the way."""

    instances: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    project: bool = False
    images: tuple[str, ...] = ()  # fingerprints
    pool: bool = False
    foreign: tuple[str, ...] = ()  # instances that are not ours, and our bridges that they use

    @property
    def empty(self) -> bool:
        return not (self.instances or self.networks or self.project or self.images or self.pool)

    def lines(self) -> list[str]:
        return [
            *(f"- instance {name}" for name in self.instances),
            *(f"- bridge {name}" for name in self.networks),
            *(["- project"] if self.project else []),
            *(f"- image {fingerprint[:12]}" for fingerprint in self.images),
            *(["- storage pool"] if self.pool else []),
        ]


def left_alone(lab: Lab, strangers: Iterable[str]) -> IncusError:
    """What a removal could not remove, because somebody else's things are in it."""
    return IncusError(
        f"Not all of lab {lab.name} could be removed: {', '.join(strangers)} in or beside its project {lab.project} "
        "was not made by it and is left alone.",
        "Remove that yourself and run this again, if it is not needed.",
    )


def survey(rest: Rest, lab: Lab, *, images: bool = False, pool: bool = False) -> Inventory:
    """Everything that `remove_lab` would remove."""
    server, inside = rest.in_project(None), rest.in_project(lab.project)
    project = server.find(f"/projects/{quote(lab.project)}")
    ours: list[str] = []
    foreign: list[str] = []
    if project is not None:
        for instance in inside.get("/instances", recursion="1"):
            (ours if owned(instance, lab) else foreign).append(instance["name"])
    networks = []
    for network in server.get("/networks", recursion="1"):
        if network.get("managed") and owned(network, lab):
            users = {user.partition("?")[0].rpartition("/")[2] for user in network.get("used_by") or []}
            if strangers := users - set(ours):
                foreign.append(f"{network['name']} (used by {', '.join(sorted(strangers))})")
            else:
                networks.append(network["name"])
    found_images = []
    if images:
        for image in server.get("/images", recursion="1"):
            aliases = [alias["name"] for alias in image.get("aliases") or []]
            if DIGEST_PROPERTY in (image.get("properties") or {}) or any(map(is_own_alias, aliases)):
                found_images.append(image["fingerprint"])
    found_pool = None
    if pool:
        found_pool = server.find(f"/storage-pools/{quote(lab.pool)}")
    return Inventory(
        instances=tuple(ours),
        networks=tuple(networks),
        project=project is not None and owned(project, lab) and not foreign,
        images=tuple(found_images),
        pool=found_pool is not None and bool((found_pool.get("config") or {}).get(OWNER_KEY)),
        foreign=tuple(foreign),
    )


def clear_lab(
    rest: Rest, lab: Lab, *, images: bool = False, pool: bool = False, tell: Callable[[str], None] = lambda _: None
) -> Inventory:
    """Removes the lab's instances, bridges and project, and only those; returns what there was.

    `images` also removes the base images anycastlab built, `pool` its storage pool (only once nothing else uses it).
    """
    there = survey(rest, lab, images=images, pool=pool)
    server, inside = rest.in_project(None), rest.in_project(lab.project)
    for name in there.instances:
        tell(f"removing instance {name}")
    _delete_instances(inside, there.instances)
    for name in there.networks:
        tell(f"removing bridge {name}")
        _remove(server, f"/networks/{quote(name)}")
    for fingerprint in there.images:
        tell(f"removing image {fingerprint[:12]}")
        _remove(server, f"/images/{fingerprint}")
    if there.project:
        tell(f"removing project {lab.project}")
        _remove(server, f"/projects/{quote(lab.project)}")
    if there.pool and not server.get(f"/storage-pools/{quote(lab.pool)}").get("used_by"):
        tell(f"removing storage pool {lab.pool}")
        _remove(server, f"/storage-pools/{quote(lab.pool)}")
    return there


def _delete_instances(inside: Rest, names: Iterable[str]) -> None:
    """Stops and deletes all at once: the server works on each in the background."""
    names = list(names)
    stop = {"action": "stop", "force": True, "timeout": limits.STOP_TIMEOUT_S}
    stopping = []
    for name in names:
        with suppress(IncusError):  # stopped already, or gone
            stopping.append(inside.call("put", f"/instances/{quote(name)}/state", stop))
    for answer in stopping:
        with suppress(IncusError):  # deletion says what is wrong, if anything is
            inside.wait(answer["operation"], limits.OPERATION_TIMEOUT_S)
    deleting = []
    for name in names:
        with suppress(MissingError):
            deleting.append(inside.call("delete", f"/instances/{quote(name)}"))
    for answer in deleting:
        with suppress(MissingError):
            inside.wait(answer["operation"], limits.OPERATION_TIMEOUT_S)


def _remove(server: Rest, path: str) -> None:
    """Removes something; what is gone already is as good as removed.

    A bridge whose instances are only just gone may still have interfaces that vanish while the server lists them.
    """
    for left in reversed(range(limits.REMOVE_TRIES)):
        try:
            server.run("delete", path)
        except MissingError:
            return
        except IncusError as error:
            if not left or isinstance(error, UnreachableError):
                raise
            time.sleep(limits.REMOVE_PAUSE_S)
        else:
            return
