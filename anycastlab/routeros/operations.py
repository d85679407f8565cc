"""pyinfra operations for the router: `configure(site)` and `remove(site)`.

Both read, plan, and yield one command that applies the whole plan, because it is one change: all of it or nothing.
The plan is told while pyinfra prepares, before the first yield, and nothing else happens then. In a dry run
nothing is ever written.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
from pyinfra import context, host, logger
from pyinfra.api import FunctionCommand, OperationError, operation
from pyinfra.api.state import StateStage

from anycastlab import tell
from anycastlab.exit_codes import INTERRUPTED
from anycastlab.paths import state_dir
from anycastlab.routeros import originals
from anycastlab.routeros.apply import Check, apply
from anycastlab.routeros.connection import Connection, router_label
from anycastlab.routeros.errors import NoCredentials, RouterError, RouterUnreachable
from anycastlab.routeros.facts import RouterMenus, RouterVersion
from anycastlab.routeros.newcomers import plan_newcomers
from anycastlab.routeros.observe import observe
from anycastlab.routeros.planning import Planned, plan_removal, plan_site
from anycastlab.routeros.reading import Reading, fresh, read, reading_from
from anycastlab.routeros.render import render_text, summary
from anycastlab.routeros.required_nodes import required_nodes
from anycastlab.routeros.verify import Asker, Explain, verify
from anycastlab.site.load import router_version
from anycastlab.site.model import Site

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State


@operation()
def configure(
    site: Site,
    check: bool = True,
    ask: Asker | None = None,
    explain: Explain | None = None,
    later: Collection[str] = (),
) -> Generator[FunctionCommand, None, None]:
    """Makes the router as `site` needs it.

    + site: everything about this home
    + check: before keeping the change, wait until sessions, BFD and routes are there; False checks only the rows
    + ask: asks through the service address as a client does, for that check
    + explain: a node's own view of a session that is not there, for the message
    + later: names of nodes that are set up after the router, and so need not serve yet
    """
    planned, refused = _made(lambda reading: plan_site(site, reading, originals.load(state_dir(), reading.host)))
    if planned is None:
        yield FunctionCommand(_fail, (refused,), {})
        return
    if not planned.changes:
        _tell_notes(planned)
        if context.state.is_executing and _in_the_way(planned):
            yield FunctionCommand(_fail, (_in_the_way(planned),), {})
            return
        host.noop(f"router {planned.reading.host} is as it should be")
        return
    _show(planned)
    yield FunctionCommand(_apply, (planned, site, check, ask, explain, later), {})


@operation()
def look_first(site: Site) -> Generator[FunctionCommand, None, None]:
    """Makes the router's plan and changes nothing: what the plan is refused for ends the run before a node changes.

    A router that is made by this very run is not there yet, and has nothing that could be refused.

    + site: everything about this home
    """
    host.noop("the router is only looked at")
    if context.state.is_executing and (told := _refusal(site)):
        yield FunctionCommand(_fail, (told,), {})


def _refusal(site: Site) -> str:
    """Why the router cannot become as planned, in a sentence; empty when it can."""
    try:
        connection = _connection(host)
        connection.open()
    except (RouterUnreachable, NoCredentials) as error:
        return "" if host.data.get("routeros_may_be_absent") else str(error)
    except RouterError as error:
        return str(error)
    try:
        reading = read(connection)
        planned = plan_site(site, reading, originals.load(state_dir(), reading.host))
    except RouterError as error:
        return f"{error} Nothing was changed."
    return f"{_in_the_way(planned)} Nothing was changed." if planned.changes and _in_the_way(planned) else ""


def _in_the_way(planned: Planned) -> str:
    """The first row of a person's because of which the service cannot work, and how many more there are."""
    found = [obstacle for obstacle in planned.obstacles if obstacle.weight == "breaks"]
    if not found:
        return ""
    more = f" (There are {len(found) - 1} more: `anycastlab router plan` names them.)" if len(found) > 1 else ""
    return f"Router {planned.reading.host}: {found[0]}{more}"


@operation()
def learn_newcomers(
    site: Site, ask: Asker | None = None, explain: Explain | None = None
) -> Generator[FunctionCommand, None, None]:
    """Makes a router that knows some of the nodes know the others, too, and waits until they serve; see `newcomers`.

    What it adds is part of `configure`'s plan, so that it is planned there alone.

    + site: everything about this home
    + ask, explain: as for `configure`
    """
    if not context.state.is_executing:
        return
    if host.get_fact(RouterVersion) is None:
        host.noop("no router is there yet")
        return
    planned, refused = _made(
        lambda reading: plan_newcomers(site, plan_site(site, reading, originals.load(state_dir(), reading.host)))
    )
    if planned is None:
        yield FunctionCommand(_fail, (refused,), {})
        return
    if not planned.changes:
        host.noop("no new nodes beside known ones")
        return
    yield FunctionCommand(_apply, (planned, site, True, ask, explain), {})


@operation()
def remove(site: Site) -> Generator[FunctionCommand, None, None]:
    """Removes everything of ours from the router and gives changed settings back.

    + site: everything about this home
    """
    planned, refused = _made(lambda reading: plan_removal(site, reading, originals.load(state_dir(), reading.host)))
    if planned is None:
        yield FunctionCommand(_fail, (refused,), {})
        return
    if not planned.changes:
        host.noop(f"router {planned.reading.host} has nothing of ours")
        return
    _show(planned)
    yield FunctionCommand(_remove, (planned,), {})


def _made(plan: Callable[[Reading], Planned]) -> tuple[Planned | None, str]:
    """The plan, or why there is none. While pyinfra prepares that is raised, which it tells as a sentence; while it
    executes, an exception would be told as a traceback.
    """
    try:
        return plan(_reading()), ""
    except RouterError as error:
        if not context.state.is_executing:
            raise
        return None, str(error)


def _reading() -> Reading:
    """From facts; a router that does not exist yet is a fresh one of the version in `router_version`."""
    name = router_label(
        host.data.get("router_api_host") or host.name.removeprefix("@routeros/"),
        host.data.get("router_api_port"),
        host.data.get("router_tls", True),
    )
    version = host.get_fact(RouterVersion)
    if version is None:
        if context.state.current_stage == StateStage.Execute or not host.data.get("routeros_may_be_absent"):
            raise OperationError(f"Router {name} could not be read.")
        return fresh(router_version(host.data.get("router_version") or "7.22.3"), name)
    answers = host.get_fact(RouterMenus, version=version)
    if answers is None:
        raise OperationError(f"Router {name} could not be read.")
    return reading_from(version, answers, name)


def _show(planned: Planned) -> None:
    """Tells the plan; with `--diff` row by row."""
    _tell_notes(planned)
    tell.change(summary(planned.plan), lambda: render_text(planned.plan, planned.reading.host).splitlines())


def _tell_notes(planned: Planned) -> None:
    if tell.first_look():
        for note in planned.plan.notes:
            host.log(note, logger.warning)


def _apply(
    state: State,
    host: Host,
    planned: Planned,
    site: Site,
    check: bool,
    ask: Asker | None,
    explain: Explain | None,
    later: Collection[str] = (),
) -> bool:
    del state
    connection = _connection(host)
    before: frozenset[str] = frozenset()

    def verified(session: Connection) -> None:
        required = required_nodes(planned, site, before) - frozenset(later)
        outcome = verify(session, site, required=required, ask=ask, explain=explain)
        for line in outcome.lines():
            host.log(line)
        outcome.raise_if_failed(session.host)

    def run() -> None:
        nonlocal before
        if check:
            before = _serving(connection, site)
        originals.remember(state_dir(), planned)
        _run(connection, planned, host, site, verified if check else None)
        originals.settle(state_dir(), planned)

    return _told(host, run)


def _remove(state: State, host: Host, planned: Planned) -> bool:
    del state
    connection = _connection(host)

    def run() -> None:
        _run(connection, planned, host, None, None)
        originals.forget(state_dir(), connection.host)

    return _told(host, run)


def _run(connection: Connection, planned: Planned, host: Host, site: Site | None, check: Check | None) -> Path:
    with _interruptible():
        applied = apply(connection, planned, state_dir(), site=site, check=check, log=host.log)
    tell.closing(f"The router's rows as they were before: {applied.backup}")
    for note in applied.notes:
        host.log(note)
    return applied.backup


def _connection(host: Host) -> Connection:
    connection: Any = getattr(host.connector, "connection", None)
    if not isinstance(connection, Connection):
        raise RouterError(f"{host.name} is no router.", "Use routeros operations on @routeros hosts only.")
    return connection


def _fail(state: State, host: Host, sentence: str) -> bool:
    del state
    host.log_styled(sentence, fg="red", log_func=logger.error)
    return False


def _serving(connection: Connection, site: Site) -> frozenset[str]:
    """Nodes that serve before the change; none when the router cannot say (a version without a menu)."""
    observation = observe(connection, site)
    return frozenset(
        node.name
        for node in site.nodes
        if (session := observation.bgp.get(str(node.address))) is not None and session.established
    )


def _told(host: Host, run: Callable[[], object]) -> bool:
    """pyinfra prints a traceback for an exception out of a function: say the sentence, and fail."""
    try:
        run()
    except RouterError as error:
        host.log_styled(str(error), fg="red", log_func=logger.error)
        return False
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    return True


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C becomes a KeyboardInterrupt inside this greenlet, so that the change is undone before the end is near.

    pyinfra's own handler would leave the process from wherever it is. Where signals cannot be had (another thread),
    the process's end closes the session, which undoes it, too.
    """
    greenlet = gevent.getcurrent()

    def interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once: a second one must not break what is being put back
        if isinstance(greenlet, gevent.Greenlet):
            greenlet.kill(KeyboardInterrupt, block=False)
        else:
            raise KeyboardInterrupt

    try:
        previous = signal.signal(signal.SIGINT, interrupt)
    except ValueError:  # not the main thread; threading cannot tell under gevent, where greenlets pass for threads
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
