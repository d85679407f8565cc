"""Is the redirect of the last resort on exactly while netwatch gets no answer? And putting it right where it is not.

On the router a script after each of netwatch's tests holds it so (`rows_fallback.holding`). Where that script does not
run, or is not there yet, a plan says so and a deploy mends it; so does the end of a roll-back, because safe mode undoes
every change since it was taken, also those netwatch's scripts made meanwhile.

The rows are set directly: netwatch made to ask anew would need its start delay first, and answers nothing while it is
`unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import NoSuchItem
from anycastlab.routeros.plan import Actual, Change, Property, Router
from anycastlab.routeros.row import Row, tag_of
from anycastlab.routeros.rows_fallback import NAT, NETWATCH, NETWATCH_TAG, REDIRECT_TAG
from anycastlab.routeros.values import is_true

CONNECTION = "/ip/firewall/connection"

#: What netwatch says → must the redirect be on? Anything else (`unknown`) leaves it as it is.
_WANTED: Mapping[str, bool] = {"down": True, "up": False}


def netwatch_status(rows: Sequence[Actual]) -> str:
    """`up`, `down` or `unknown`; `off` for an entry that is disabled, `missing` without one."""
    entries = [row for row in rows if tag_of(row) == NETWATCH_TAG]
    if not entries:
        return "missing"
    if is_true(entries[0].get("disabled")):
        return "off"
    return entries[0].get("status") or "unknown"


def redirects(rows: Sequence[Actual]) -> list[Actual]:
    """The redirects of /ip/firewall/nat."""
    return [row for row in rows if tag_of(row).startswith(f"{REDIRECT_TAG}:")]


def redirect_active(rows: Sequence[Actual]) -> bool:
    """Whether any redirect is switched on."""
    return any(not is_true(row.get("disabled")) for row in redirects(rows))


def wrong(netwatch: Sequence[Actual], nat: Sequence[Actual]) -> list[Actual]:
    """The redirects that are not as netwatch wants them."""
    wanted = _WANTED.get(netwatch_status(netwatch))
    if wanted is None:
        return []
    return [row for row in redirects(nat) if is_true(row.get("disabled")) == wanted]


def mends(desired: Sequence[Row], menus: Router) -> list[Change]:
    """The steps of a plan that put wrong redirects right."""
    netwatch = menus.get(NETWATCH, ())
    rows = {row.tag: row for row in desired if row.menu == NAT}
    answers = netwatch_status(netwatch) == "up"
    reason = f"netwatch gets {'answers' if answers else 'no answer'} from the nodes"
    return [
        Change(replace(rows[tag_of(row)], reason=reason), row[".id"], (_switched(row),))
        for row in wrong(netwatch, menus.get(NAT, ()))
        if tag_of(row) in rows
    ]


def is_switch(step: Change) -> bool:
    """Does this step switch a redirect?"""
    return step.row.menu == NAT and any(changed.name == "disabled" for changed in step.properties)


def flush(connection: Connection, service: str) -> None:
    """Forgets the tracked connections to the service address, in either form that versions show them in."""
    words = (f"?dst-address={service}", f"?dst-address={service}:53", "?#|")
    for row in connection.print(CONNECTION, [".id"], *words):
        try:
            connection.remove(CONNECTION, row[".id"])
        except NoSuchItem:
            continue  # it ended by itself


def realign(connection: Connection) -> bool:
    """After a roll-back: True when the redirect was not as netwatch wants it, and was set right. Two round trips."""
    netwatch = connection.print(NETWATCH, [".id", "comment", "status", "disabled"])
    found = wrong(netwatch, connection.print(NAT, [".id", "comment", "disabled", "dst-address"]))
    for row in found:
        connection.set(NAT, row[".id"], {"disabled": _switched(row).new})
    for service in {row["dst-address"] for row in found if row.get("dst-address")}:
        flush(connection, service)
    return bool(found)


def _switched(row: Actual) -> Property:
    off = is_true(row.get("disabled"))
    return Property("disabled", "yes" if off else "no", "no" if off else "yes")
