"""Where own rows have to be put in an ordered menu. Pure.

RouterOS tells no index that would stay true, so a place is always "before the row with this id". Foreign rows never
move. Rows the router made itself (dynamic, builtin) are no anchors: nothing can be put before the leading ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from anycastlab.routeros.row import BLOCKING, Place, Row, describe, is_static, tag_of

Actual = Mapping[str, str]


@dataclass(frozen=True)
class Before:
    """Before a row that exists (`row_id`) or before an own row (`tag`) that stands or is put there first."""

    row_id: str = ""
    tag: str = ""
    about: str = field(default="", compare=False)
    """The row in words, for the person reading the plan."""


@dataclass(frozen=True)
class Placement:
    """An own row that must be added or moved; `before` None means last in the menu."""

    row: Row
    before: Before | None


def placements(desired: Sequence[Row], actual: Sequence[Actual], present: Mapping[str, str]) -> list[Placement]:
    """The fewest additions and moves that bring one menu's own rows into order, in the order to execute them.

    `present` maps the tags that stay on the router to their ids. `actual` is the menu without rows that will go.
    """
    position = {row.get(".id", ""): index for index, row in enumerate(actual)}
    result: list[Placement] = []
    for chain in dict.fromkeys(row.chain for row in desired):
        group = [row for row in desired if row.chain == chain]
        anchors = _anchors(chain, actual)
        kept = _kept(group, anchors, present, position)
        following: Before | None = None
        following_position = len(actual)
        # From the last row to the first, so that the row to stand before is always there already.
        for row in reversed(group):
            if row.tag in kept:
                following, following_position = Before(tag=row.tag), position[present[row.tag]]
                continue
            anchor = anchors[row.place]
            if anchor is not None and position[anchor] < following_position:
                following_position = position[anchor]
                about = describe(actual[following_position])
                result.append(Placement(row, Before(row_id=anchor, about=about)))
            else:
                result.append(Placement(row, following))
            following = Before(tag=row.tag)
    return result


def _anchors(chain: str, actual: Sequence[Actual]) -> dict[Place, str | None]:
    """For each place the id of the first foreign row that must come later; None when there is none."""

    def first(fits: Callable[[Actual], bool]) -> str | None:
        for row in actual:
            if (row.get("chain") or "") == chain and is_static(row) and not tag_of(row) and fits(row):
                return row.get(".id", "")
        return None

    return {
        Place.FIRST: first(lambda _: True),
        Place.BEFORE_BLOCKING: first(lambda row: row.get("action") in BLOCKING),
        Place.LAST: None,
    }


def _kept(
    group: Sequence[Row],
    anchors: Mapping[Place, str | None],
    present: Mapping[str, str],
    position: Mapping[str, int],
) -> set[str]:
    """Tags of the rows that can stay: the longest run already in order among those before their anchors."""
    candidates = []
    for row in group:
        if row.tag not in present:
            continue
        here, anchor = position[present[row.tag]], anchors[row.place]
        if anchor is None or here < position[anchor]:
            candidates.append((here, row.tag))
    tails: list[int] = []  # smallest last position of a run of each length
    chain_ends: list[int] = []  # index into candidates of that last row
    previous: list[int] = []
    for index, (here, _) in enumerate(candidates):
        length = bisect_left(tails, here)
        previous.append(chain_ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(here)
            chain_ends.append(index)
        else:
            tails[length] = here
            chain_ends[length] = index
    kept: set[str] = set()
    index = chain_ends[-1] if chain_ends else -1
    while index >= 0:
        kept.add(candidates[index][1])
        index = previous[index]
    return kept
