"""What the instruments wrote, as the run has it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from anycastlab.phone.records import Outcome
from anycastlab.report.run import Announcement
from anycastlab.scenarios.actions import On
from anycastlab.scenarios.recorder import Recorder, announcements, asked
from anycastlab.scenarios.stage import CLIENT, ROUTER
from tests.unit.node.homes import home
from tests.unit.scenarios.doubles import FakeStage, queries_at


def lines(*states: tuple[int, list[str]]) -> str:
    return "".join(json.dumps({"time_ns": at, "hops": hops}) + "\n" for at, hops in states)


def test_routes_become_announcements_of_nodes() -> None:
    text = lines(
        (10, ["10.1.2.11", "10.1.2.12", "10.1.2.13"]),
        (20, ["10.1.2.11", "10.1.2.13"]),
        (30, []),
        (40, ["10.1.2.12", "203.0.113.53"]),
    )
    assert announcements(text, home()) == (
        Announcement(10, "node01", True),
        Announcement(10, "node02", True),
        Announcement(10, "node03", True),
        Announcement(20, "node02", False),
        Announcement(30, "node01", False),
        Announcement(30, "node03", False),
        Announcement(40, "node02", True),
    )


def test_a_node_that_is_not_announced_at_first_says_so() -> None:
    assert announcements(lines((10, ["10.1.2.11", "10.1.2.12"])), home())[2] == Announcement(10, "node03", False)
    assert announcements("", home()) == ()


def test_the_end_of_the_schedule_that_was_never_reached_is_left_out() -> None:
    queries = list(queries_at(range(10)))
    queries[4] = replace(queries[4], sent_ns=None, outcome=Outcome.SKIPPED)  # the phone's failure, and it stays
    queries[7:] = [replace(record, sent_ns=None, outcome=Outcome.OPEN) for record in queries[7:]]
    assert [record.query for record in asked(tuple(queries))] == [0, 1, 2, 3, 4, 5, 6]
    # … at the end as well: there it would be the only trace of a phone that had no socket left
    queries[7] = replace(queries[7], outcome=Outcome.SKIPPED)
    assert [record.query for record in asked(tuple(queries))] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_what_the_guardian_does_for_a_killed_runner_leaves_nothing_of_the_instruments() -> None:
    """A phone that was stopped early is a failed unit, and its files are in memory: neither may stay."""
    stage = FakeStage()
    recorder = Recorder(stage, rest=None)  # type: ignore[arg-type]
    ends = [(action.machine, *action.argv) for action in recorder.stops if isinstance(action, On)]
    assert [machine for machine, *_ in ends] == [CLIENT, ROUTER]
    for _, *command in ends:
        assert re.fullmatch(r"systemctl stop (\S+); systemctl reset-failed \1; rm -f /run/\S+-\*", command[-1])
    # The runner itself ends them in the same way.
    recorder.clean()
    assert [(machine, *argv) for machine, argv in stage.log] == ends
