"""Our rows on a router that somebody names: taken, shown as sent, undone, removed; nothing else changes.

`make test-router` runs them against it; `tests/contract/test_real_router_suite.py` against the virtual router.
"""

from __future__ import annotations

import pytest

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.errors import ApplyError, RouterError
from anycastlab.routeros.plan import Change, Property
from anycastlab.routeros.row import tag_of
from tests.real.borrowed import Loan


def test_rows_are_taken_and_shown_as_they_were_sent(loan: Loan) -> None:
    before = loan.foreign()
    assert loan.plan().changes
    loan.deploy()
    assert not loan.plan().changes
    assert loan.foreign() == before


def test_removal_leaves_everything_as_before(loan: Loan) -> None:
    loan.deploy()
    assert "/routing/bgp/connection" in loan.not_as_before()
    loan.remove()
    assert loan.not_as_before() == []
    assert not loan.removal().changes


def test_a_failed_check_leaves_the_router_as_before(loan: Loan) -> None:
    def failing(session: Connection) -> None:
        assert any(tag_of(row) for row in session.print("/routing/bgp/connection"))
        raise RouterError("this check fails.")

    with pytest.raises(ApplyError) as caught:
        loan.deploy(check=failing)
    assert caught.value.restored
    assert "this check fails." in caught.value.problem
    assert loan.not_as_before() == []


def test_a_session_that_dies_half_way_leaves_the_router_as_before(loan: Loan) -> None:
    def dying(session: Connection) -> None:
        session.close()
        raise RouterError("the session died.")

    with pytest.raises(ApplyError) as caught:
        loan.deploy(check=dying)
    assert caught.value.restored
    assert loan.not_as_before() == []


def test_a_hand_edit_is_shown_and_healed_alone(loan: Loan) -> None:
    menu = "/routing/bgp/connection"
    loan.deploy()
    row = next(row for row in loan.read().menus[menu] if tag_of(row) == "anycastlab:connection:node02")
    loan.connection.set(menu, row[".id"], {"hold-time": "30s"})
    (step,) = loan.plan().plan.steps
    assert isinstance(step, Change)
    assert step.row.tag == "anycastlab:connection:node02"
    (changed,) = step.properties
    assert isinstance(changed, Property)
    assert changed.name == "hold-time"
    loan.deploy()
    assert not loan.plan().changes


def test_a_node_that_goes_takes_its_rows_along(loan: Loan) -> None:
    loan.deploy()
    loan.deploy(nodes=1)
    tags = [tag_of(row) for rows in loan.read().menus.values() for row in rows if tag_of(row)]
    assert "anycastlab:connection:node01" in tags
    assert not [tag for tag in tags if "node02" in tag or "node03" in tag]
