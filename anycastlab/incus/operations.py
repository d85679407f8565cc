"""pyinfra operations: an instance is as described, is gone, or a whole lab is gone.

Each looks, tells what it would do, and only then yields. The work itself is a plain function that
pyinfra calls while it executes; what fails in it is one sentence and a failed host.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from pyinfra import host, logger, state
from pyinfra.api import FunctionCommand, operation

from anycastlab import tell
from anycastlab.errors import AnycastlabError
from anycastlab.host import ports
from anycastlab.incus.spec import InstanceSpec, Lab

from . import desired, instances, labs
from .connector import IncusConnector
from .desired import Plan
from .errors import IncusError
from .facts import IncusAlias, IncusInstance, IncusNetwork, IncusProject
from .rest import Rest, connect

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

Commands = Generator[FunctionCommand, None, None]

_VERBS = {"recreate": "remake the half-made", "rebuild": "delete and recreate"}


@operation()
def instance(spec: InstanceSpec, image: str, lab: Lab, rebuild: bool = False) -> Commands:
    """The instance exists as `spec` says and runs, booted; project and bridges are made on the way.

    + spec: name, interfaces with addresses, limits, proxies, files of the first boot
    + image: alias of an image on the server, in project `default`
    + lab: whose project and bridges
    + rebuild: delete it and make it anew, whatever it is

    What can be changed while it runs is changed so (limits, interfaces, proxies). What cannot is refused with a
    sentence that names `rebuild`. An instance this lab did not make is never touched.
    """
    actual = host.get_fact(IncusInstance, instance=spec.name, project=lab.project)
    alias = host.get_fact(IncusAlias, alias=image)
    fingerprint = str(alias["target"]) if alias else None
    todo = desired.plan(spec, lab, actual, rebuild=rebuild, fingerprint=fingerprint)
    connector = host.connector
    if todo.step in ("create", "recreate", "rebuild") and isinstance(connector, IncusConnector):
        connector.see_empty()

    # A refusal that is carried out speaks for itself.
    if tell.first_look() and (words := todo.notice or ("" if state.is_executing else todo.blocked)):
        host.log(words, logger.warning)
    if todo.blocked:
        yield _command(_refuse, todo.blocked)
        return
    if not todo.is_change:
        host.noop(f"instance {spec.name} is as described")
        return
    networks = list(dict.fromkeys(nic.network for nic in spec.nics))
    tell.change(f"{_VERBS.get(todo.step, todo.step)} the container", lambda: _details(spec, image, lab, networks, todo))
    yield _command(_carry_out, spec, image, lab, networks, todo)


@operation()
def absent(instance: str, lab: Lab) -> Commands:
    """The instance does not exist; one this lab did not make is refused."""
    actual = host.get_fact(IncusInstance, instance=instance, project=lab.project)
    if actual is None:
        host.noop(f"instance {instance} does not exist")
        return
    if not labs.owned(actual, lab):
        yield _command(_refuse, f"The instance {instance} was not made by lab {lab.name}; it is left alone.")
        return
    tell.change(f"delete the container {instance}")
    yield _command(_delete, instance, lab)


@operation()
def remove_lab(lab: Lab, images: bool = False, pool: bool = False) -> Commands:
    """Nothing of the lab is left: instances, bridges, project; what it did not make stays.

    + images: also the base images anycastlab built (other labs may use them)
    + pool: also its storage pool, once nothing uses it
    """
    try:
        there = labs.survey(_rest(host, lab), lab, images=images, pool=pool)
    except AnycastlabError as error:
        yield _command(_refuse, str(error))
        return
    if there.empty and there.foreign:
        yield _command(_refuse_error, labs.left_alone(lab, there.foreign))
        return
    if there.empty:
        host.noop(f"nothing is left of lab {lab.name}")
        return
    tell.change(f"remove the lab {lab.name}", there.lines)
    yield _command(_clear, lab, images, pool)


def require_possible(spec: InstanceSpec, lab: Lab, rebuild: bool = False) -> None:
    """Raises IncusError for what `instance` would refuse half-way through a run: somebody else's bridge, project or
    instance in the place of ours, a port that another program holds, and what only a rebuild can change."""
    rest = _rest(host, lab)
    for error in labs.foreign(rest, lab):
        raise error
    actual = host.get_fact(IncusInstance, instance=spec.name, project=lab.project)
    if blocked := desired.plan(spec, lab, actual, rebuild=rebuild).blocked:
        raise IncusError(blocked)
    if rest.server.is_local and (actual is None or actual.get("status") != "Running"):
        for _, listen, _ in spec.proxies:
            ports.require_free(int(listen.rpartition(":")[2]))


# What is done while pyinfra executes ---------------------------------------------------------------------------------


def _command(work: Callable[..., None], *arguments: object) -> FunctionCommand:
    return FunctionCommand(_succeeds, (work, *arguments), {})


# pyinfra passes `state` and `host`, and heeds the answer, only for a function with parameters of these names.
def _succeeds(state: State, host: Host, work: Callable[..., None], *arguments: object) -> bool:  # noqa: ARG001
    """Runs `work(host, *arguments)`; an error of ours is a sentence, not a traceback."""
    try:
        work(host, *arguments)
    except AnycastlabError as error:
        host.log_styled(str(error), fg="red", log_func=logger.error)
        return False
    return True


def _carry_out(host: Host, spec: InstanceSpec, image: str, lab: Lab, networks: list[str], todo: Plan) -> None:
    rest = _rest(host, lab)
    if isinstance(host.connector, IncusConnector):
        host.connector.session.close()  # it would not survive, and find out late
    if todo.step in ("create", "recreate", "rebuild"):
        instances.check_image(rest, image)  # before anything is deleted that could then not be made again
    labs.ensure_lab_networks(rest, lab, networks)
    if todo.step in ("recreate", "rebuild"):
        instances.delete(rest, spec.name)
    if todo.step in ("create", "recreate", "rebuild"):
        instances.create(rest, spec, lab, image)
    if todo.step == "update":
        instances.update(rest, spec, lab)
    if todo.step != "update" or todo.start_too:
        instances.start(rest, spec.name)
        instances.wait_booted(rest, spec.name)


def _delete(host: Host, name: str, lab: Lab) -> None:
    instances.delete(_rest(host, lab), name)


def _clear(host: Host, lab: Lab, images: bool, pool: bool) -> None:
    there = labs.clear_lab(_rest(host, lab), lab, images=images, pool=pool)
    if there.foreign:
        raise labs.left_alone(lab, there.foreign)
    tell.outcome(f"the lab {lab.name} is removed")


def _refuse(_: Host, sentence: str) -> None:
    raise IncusError(sentence)


def _refuse_error(_: Host, error: IncusError) -> None:
    raise error


# Looking and telling --------------------------------------------------------------------------------------------------


def _rest(host: Host, lab: Lab) -> Rest:
    """The lab's project on the host's own server; for other kinds of host, on this machine."""
    connector = host.connector
    if isinstance(connector, IncusConnector):
        return connector.rest.in_project(lab.project)
    return connect(None, lab.project)


def _missing_ground(lab: Lab, networks: list[str] | tuple[str, ...]) -> list[str]:
    missing = [] if host.get_fact(IncusProject, project=lab.project) else [f"project {lab.project}"]
    return missing + [f"bridge {name}" for name in networks if not host.get_fact(IncusNetwork, network=name)]


def _details(spec: InstanceSpec, image: str, lab: Lab, networks: list[str], todo: Plan) -> list[str]:
    lines = list(map(str, todo.changes))
    if todo.step not in ("create", "recreate", "rebuild"):
        return lines
    ground = [f"+ {thing}" for thing in _missing_ground(lab, networks)]
    return [*ground, f"+ instance {spec.name}: project {lab.project}, image {image}", *lines]
