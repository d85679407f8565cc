"""Which rows of a menu may not be alike: the keys that are taken, kept as an index.

A disabled row takes no key. Adding rows one by one must not cost a look at all of them each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from anycastlab.virtual_router import defaults, errors

Shown = Mapping[str, str]
"""A row as the router prints it."""

Key = tuple[defaults.Unique, tuple[str | None, ...]]
"""A rule, and a row's values of its properties."""


class UniqueKeys:
    """The keys taken in each menu; `rows` gives a menu's rows when its index has to be made."""

    def __init__(self, rows: Callable[[str], Iterable[Shown]]) -> None:
        self._rows = rows
        self._taken: dict[str, set[Key]] = {}

    def check_new(self, menu: str, row: Shown) -> None:
        """Raises CommandRefused when a row like this is there."""
        if menu not in defaults.UNIQUE:
            return
        taken = self._index(menu)
        for key in _keys(menu, [row]):
            if key in taken:
                raise errors.failure(key[0].text)

    def check_changed(self, menu: str, changed: Iterable[Shown], after: Iterable[Shown]) -> None:
        """Raises CommandRefused when, in the rows `after` the change, a changed one is like another."""
        if menu not in defaults.UNIQUE:
            return
        count = Counter(_keys(menu, after))
        for key in _keys(menu, changed):
            if count[key] > 1:
                raise errors.failure(key[0].text)

    def added(self, menu: str, row: Shown) -> None:
        """A row came that `check_new` had allowed."""
        if menu in defaults.UNIQUE:
            self._index(menu).update(_keys(menu, [row]))

    def forget(self, menu: str | None = None) -> None:
        """Rows of this menu (or of any) changed in another way."""
        if menu is None:
            self._taken.clear()
        else:
            self._taken.pop(menu, None)

    def _index(self, menu: str) -> set[Key]:
        if menu not in self._taken:
            self._taken[menu] = set(_keys(menu, self._rows(menu)))
        return self._taken[menu]


def _keys(menu: str, rows: Iterable[Shown]) -> Iterator[Key]:
    for row in rows:
        if row.get("disabled") != "true":
            for rule in defaults.UNIQUE.get(menu, ()):
                yield rule, tuple(row.get(name) for name in rule.properties)
