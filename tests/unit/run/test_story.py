"""What is said at the end of a run, and how often."""

from __future__ import annotations

import pytest

from anycastlab.run import messages, show
from anycastlab.run.messages import (
    Begun,
    Change,
    Closing,
    Ended,
    Finished,
    Machines,
    Message,
    Outcome,
    Planned,
    Said,
    Stage,
)
from anycastlab.run.story import Story, closing

HOME = Machines(("upstream", "router", "node01", "node02", "client01"))


def told(*said: Message) -> Story:
    """A run of these messages, each as it arrives from the other process."""
    story = Story(clock=lambda: 0.0)
    for message in (HOME, *said):
        arrived = messages.decode(messages.encode(message).rstrip(b"\n"))
        assert arrived == message
        story.take(arrived)
    return story


def test_a_run_that_changes_nothing_is_one_sentence() -> None:
    story = told(
        Stage("work"),
        Begun("node01", "Node | Configure"),
        Ended("node01", "Node | Configure", True, False),
        Outcome("10.1.9.53 answered by node03"),
        Finished(True),
    )
    assert closing(story) == "10.1.9.53 answered by node03; nothing changed."
    assert story.failures() == []


def test_what_changed_is_named_in_the_order_of_the_table() -> None:
    story = told(
        Ended("node02", "Node | Configure", True, True),
        Closing("The rows as they were: FILE"),
        Ended("router", "Router | Configure", True, True),
        Outcome("10.1.9.53 answered by node01"),
    )
    assert closing(story) == "10.1.9.53 answered by node01; changed: router, node02."
    assert story.closings == ["The rows as they were: FILE"]


def test_without_an_answer_to_tell_of_the_sentence_still_begins_like_one() -> None:
    assert closing(told()) == "Nothing changed."


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (("node01",), "node01: The disk is full."),
        (("node01", "node02"), "node01, node02: The disk is full."),
        (HOME.names, "The disk is full."),
        (("",), "The disk is full."),
    ],
    ids=["one machine", "two", "all of them", "the run itself"],
)
def test_an_error_is_said_once_with_the_machines_it_happened_on(where: tuple[str, ...], said: str) -> None:
    twice = [Said("error", machine, "The disk is full.") for machine in where for _ in range(2)]
    assert told(*twice).failures() == [said]


def test_an_error_that_names_its_machine_does_not_name_it_twice() -> None:
    story = told(
        Said("error", "node01", "node01 did not come back."), Ended("node01", "Node | Configure", False, False)
    )
    assert story.failures() == ["node01 did not come back."]


def test_a_failure_without_a_word_is_still_an_error() -> None:
    assert told(Ended("node02", "Node | Configure", False, False)).failures() == [
        "node02: failed without a word; `-v` shows every step."
    ]


def test_a_warning_of_every_host_is_noted_once() -> None:
    text = "node04 is not in the inventory any more."
    assert told(*[Said("warning", "", text) for _ in range(7)]).warnings == [text]


def test_a_plan_is_a_summary_per_machine_in_order() -> None:
    story = told(
        Change("node02", "write 1 file", ("-a", "+b")),
        Change("router", "2 to add"),
        Planned(
            {"node02": ["Node | Configure"], "router": ["Router | Configure"], "upstream": ["Lab | Base image"]}, []
        ),
    )
    assert show.summary(story.pending()) == ["upstream  base image", "router    2 to add", "node02    write 1 file"]
    assert story.machine("node02").details == ["-a", "+b"]


def test_where_no_terminal_is_a_line_is_written_for_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    shown = show.shown(story, dry=False, verbose=False)
    for message in (
        Begun("node01", "Node | Configure"),
        Change("node01", "write 1 file; restart frr"),
        Said("info", "node01", "a step"),
        Said("info", "", "  packing …"),
        Ended("node01", "Node | Configure", True, True),
        Ended("node02", "Node | Configure", True, False),
    ):
        shown.see(message)
    shown.end()
    assert capsys.readouterr().err.splitlines() == [
        "node01: write 1 file; restart frr",
        "packing …",
        "node01: configuring: done",
    ]
