"""The router without pyinfra: what `anycastlab router plan | apply | restore | verify` call.

Each opens one API session with the credentials of `credentials.py` and closes it. All raise RouterError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anycastlab.paths import state_dir
from anycastlab.routeros import backup as backups
from anycastlab.routeros import originals
from anycastlab.routeros.apply import Applied, Log, apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.credentials import credentials
from anycastlab.routeros.errors import RouterError
from anycastlab.routeros.limits import VERIFY_TIMEOUT_S
from anycastlab.routeros.planning import Planned, plan_removal, plan_restore, plan_site
from anycastlab.routeros.reading import read
from anycastlab.routeros.record import PROPERTY, recorded
from anycastlab.routeros.rows_fallback import NETWATCH
from anycastlab.routeros.verify import Asker, Explain, Verification, verify
from anycastlab.site.model import Site
from anycastlab.site.parts import Router


@contextmanager
def router_session(router: Router) -> Iterator[Connection]:
    """A logged-in session with the site's router, closed at the end."""
    host = router.api_host
    user, password = credentials(router.credentials or host, router.user, state_dir())
    target = Target(host, router.api_port, user, password, router.tls, router.tls_fingerprint)
    connection = Connection(target)
    try:
        connection.open()
        yield connection
    finally:
        connection.close()


def plan_router(site: Site) -> Planned:
    """What a deploy would change on the router. Writes nothing; show it with `render.render_text` or `render_json`."""
    with router_session(site.router) as connection:
        return plan_site(site, read(connection), originals.load(state_dir(), connection.host))


def plan_removal_router(site: Site) -> Planned:
    """What a removal would take from the router. Writes nothing."""
    with router_session(site.router) as connection:
        return plan_removal(site, read(connection), originals.load(state_dir(), connection.host))


def plan_restore_router(site: Site, path: Path) -> Planned:
    """What putting back that backup would change."""
    saved = backups.load(path)
    with router_session(site.router) as connection:
        return plan_restore(saved, read(connection), originals.load(state_dir(), connection.host))


def restore_router(site: Site, path: Path, log: Log = lambda _: None, shown: Planned | None = None) -> Applied | None:
    """Puts a backup back, as carefully as any change; None when the router already is like that.

    `shown` is what a person agreed to: anything else is not done.
    """
    saved = backups.load(path)
    with router_session(site.router) as connection:
        planned = plan_restore(saved, read(connection), originals.load(state_dir(), connection.host))
        if shown is not None and planned.plan != shown.plan:
            raise RouterError(
                f"Router {connection.host} was changed by somebody else since the plan was shown.",
                "Nothing was changed. Run again, so that the plan is shown as it is now.",
                connection.host,
            )
        if not planned.changes:
            return None
        originals.remember(state_dir(), planned)
        applied = apply(connection, planned, state_dir(), log=log)
        originals.settle(state_dir(), planned)
        return applied


def deployed_with(site: Site) -> dict[str, Any]:
    """What the router says it was deployed with; empty where it says nothing, or cannot be asked."""
    try:
        with router_session(site.router) as connection:
            return recorded(connection.print(NETWATCH, ["comment", PROPERTY]))
    except RouterError:
        return {}


def verify_router(
    site: Site,
    *,
    required: Collection[str] | None = None,
    ask: Asker | None = None,
    explain: Explain | None = None,
    timeout_s: float = VERIFY_TIMEOUT_S,
) -> Verification:
    """Whether sessions, BFD, routes and answers are as they must be; see `verify.verify`."""
    with router_session(site.router) as connection:
        return verify(connection, site, required=required, ask=ask, explain=explain, timeout_s=timeout_s)
