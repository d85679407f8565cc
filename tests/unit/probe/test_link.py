"""The service link through the kernel of this machine; nothing of it is changed."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from anycastlab.probe.link import Link
from anycastlab.probe.loop import Loop


@dataclass
class Told:
    seen: list[bool | None] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@pytest.fixture
def loop() -> Iterator[Loop]:
    running = Loop()
    yield running
    running.close()


def test_a_link_that_is_there_is_seen(loop: Loop) -> None:
    told = Told()
    Link(loop, "lo", told.seen.append, told.failed.append)
    loop.turn()
    assert len(told.seen) == 1
    assert told.failed == []


def test_a_link_that_is_not_there_is_just_that(loop: Loop) -> None:
    told = Told()
    link = Link(loop, "not-a-link", told.seen.append, told.failed.append)
    loop.turn()
    link.refresh()
    link.read()
    assert told.seen == [None, None]
    # It may come; nothing is to be held against it then
    assert told.failed == []


def test_a_refused_order_is_told_until_one_is_obeyed(loop: Loop) -> None:
    told = Told()
    link = Link(loop, "lo", told.seen.append, told.failed.append)
    for code in (errno.EPERM, 0):
        # As the kernel says it: nlmsghdr of NLMSG_ERROR with the order's number, and the error
        link._orders[77] = "set lo up"
        link._take(struct.pack("=IHHIIi", 20, 2, 0, 77, 0, -code))
    assert told.failed == ["set lo up: Operation not permitted", ""]
