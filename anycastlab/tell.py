"""What operations say about themselves: a change before it happens, and what a person should know at the end.

Under plain pyinfra these are lines of its log. A run of `anycastlab` puts a teller here that hands them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pyinfra import context, logger

from anycastlab.colours import coloured

# Deploy of the operations that only look and wait: what they do is no change.
CHECK = "Check"


class Teller(Protocol):
    """Hears what the operations of a run say."""

    def change(self, host: str, summary: str, details: list[str]) -> None:
        """`host` (pyinfra's name) is going to be changed: in one line, and in all."""

    def outcome(self, words: str) -> None:
        """What came of the run: the beginning of its last sentence."""

    def closing(self, sentence: str) -> None:
        """Something else to know at the end of the run."""


class _Log:
    """Plain pyinfra: lines of its log."""

    def change(self, host: str, summary: str, details: list[str]) -> None:  # noqa: ARG002
        context.host.log(f"Will {summary}")
        for line in details:
            context.host.log(coloured(line))

    def outcome(self, words: str) -> None:
        logger.info(words)

    def closing(self, sentence: str) -> None:
        logger.info(sentence)


_teller: Teller = _Log()


def listen(teller: Teller) -> None:
    """From now on `teller` hears what is told."""
    global _teller  # noqa: PLW0603
    _teller = teller


def change(summary: str, details: Callable[[], Iterable[str]] = tuple) -> None:
    """Say what is going to happen to this host: once, while preparing or, where that is skipped, right before it does.

    `details` is only asked for when they are to be seen (`--diff`); it may look at the machine.
    """
    if first_look():
        shown = list(details()) if context.state.config.DIFF else []
        _teller.change(context.host.name, summary, shown)


def outcome(words: str) -> None:
    """Say what came of the run, without a full stop: "10.1.9.53 answered by node03"."""
    _teller.outcome(words)


def closing(sentence: str) -> None:
    """Say something else that a person should read last."""
    _teller.closing(sentence)


def first_look() -> bool:
    """Whether this run of an operation's generator is the one whose words a person should see (it runs twice)."""
    return not context.state.is_executing or not context.state.should_check_for_changes()
