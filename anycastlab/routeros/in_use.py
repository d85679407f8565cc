"""Does the router use the rows it was given? One may be inactive for a moment after a write, so it is seen again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.limits import ROWS_SETTLE_S, VERIFY_INTERVAL_S
from anycastlab.routeros.plan import Router
from anycastlab.routeros.reading import Reading, read
from anycastlab.routeros.row import STRICT, Row, describe, tag_of
from anycastlab.routeros.rows_fallback import ROUTE, ROUTE6
from anycastlab.routeros.values import is_true

#: The blackhole is a way of last choice: not to be active is its rule.
_MAY_BE_INACTIVE = frozenset({ROUTE, ROUTE6})


def unused(desired: Sequence[Row], actual: Router) -> list[str]:
    """Own rows that the router took but does not use, in words."""
    return [text for row, flags, text in _flagged(desired, actual) if flags - _harmless(row.menu)]


def doubtful(desired: Sequence[Row], actual: Router) -> list[str]:
    """Firewall rules that are called invalid: routers say so of rules that work, too, so it is only worth a note."""
    return [text for row, flags, text in _flagged(desired, actual) if row.menu in STRICT and "invalid" in flags]


def settled(
    connection: Connection, desired: Sequence[Row], clock: Callable[[], float], sleep: Callable[[float], None]
) -> Reading:
    """The router's rows once all are in use, or as they are after `ROWS_SETTLE_S`."""
    end = clock() + ROWS_SETTLE_S
    while True:
        reading = read(connection)
        if not unused(desired, reading.menus) or clock() >= end:
            return reading
        sleep(VERIFY_INTERVAL_S)


def _harmless(menu: str) -> set[str]:
    return {"invalid"} if menu in STRICT else {"inactive"} if menu in _MAY_BE_INACTIVE else set()


def _flagged(desired: Sequence[Row], actual: Router) -> Iterator[tuple[Row, set[str], str]]:
    for row in desired:
        for candidate in actual.get(row.menu, ()):
            if row.tag and tag_of(candidate) == row.tag:
                flags = [flag for flag in ("invalid", "inactive") if is_true(candidate.get(flag))]
                if flags:
                    yield row, set(flags), f"{row.menu} {describe(candidate)} is {' and '.join(flags)}"
