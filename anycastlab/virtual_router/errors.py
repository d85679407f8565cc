"""RouterOS's refusals, in its own words.

Texts and categories come from the MikroTik documentation (API, `!trap`), from published reports of clients, and from a
survey that others made of a 7.23 CHR; `value of X out of range (a..b)` is that survey's wording. What no RouterOS would
say starts with "not emulated: ".
"""

from __future__ import annotations

from collections.abc import Iterable

from anycastlab.virtual_router.dataplane.api import CommandRefused

MISSING_ITEM_OR_COMMAND = 0
ARGUMENT_VALUE = 1
INTERRUPTED = 2


class SessionEnded(Exception):  # noqa: N818 - the end of a session is not always an error
    """The connection is closed after a `!fatal` with this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def no_such_command() -> CommandRefused:
    return CommandRefused("no such command", MISSING_ITEM_OR_COMMAND)


def no_such_command_prefix() -> CommandRefused:
    return CommandRefused("no such command prefix", MISSING_ITEM_OR_COMMAND)


def no_such_item(by_id: bool = True) -> CommandRefused:
    """By id the lookup fails inside the menu (4); by name it fails in the console already."""
    return CommandRefused("no such item (4)") if by_id else CommandRefused("no such item", MISSING_ITEM_OR_COMMAND)


def unknown_parameter(name: str) -> CommandRefused:
    return CommandRefused(f"unknown parameter {name}")


def missing_id() -> CommandRefused:
    return CommandRefused("missing =.id=")


def missing_arguments(names: Iterable[str]) -> CommandRefused:
    return CommandRefused(f"missing value(s) of argument(s) {' '.join(names)}")


def no_match(name: str) -> CommandRefused:
    return CommandRefused(f"input does not match any value of {name}", ARGUMENT_VALUE)


def invalid_value(name: str) -> CommandRefused:
    return CommandRefused(f"invalid value for argument {name}", ARGUMENT_VALUE)


def out_of_range(name: str, low: str, high: str) -> CommandRefused:
    return CommandRefused(f"value of {name} out of range ({low}..{high})", ARGUMENT_VALUE)


def too_long(name: str, limit: int) -> CommandRefused:
    return CommandRefused(f"value of {name} should not be longer than {limit}", ARGUMENT_VALUE)


def failure(text: str) -> CommandRefused:
    return CommandRefused(f"failure: {text}")


def builtin(verb: str) -> CommandRefused:
    return failure(f"cannot {verb} builtin")


def not_enough_permissions() -> CommandRefused:
    return CommandRefused("not enough permissions (9)")


def invalid_login() -> CommandRefused:
    return CommandRefused("invalid user name or password (6)")


def not_emulated(what: str) -> CommandRefused:
    return CommandRefused(f"not emulated: {what}")


def interrupted() -> CommandRefused:
    return CommandRefused("interrupted", INTERRUPTED)
