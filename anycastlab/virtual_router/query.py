"""Query words of `print`: a little stack machine over one row (MikroTik documentation, API, Queries).

    ?name      row has the property          ?name=x  ?=name=x   equal
    ?-name     row lacks it                  ?<name=x ?>name=x   smaller, greater
    ?#ops      from left to right: `!` not, `&` and, `|` or; a number N copies the Nth from the top (0 is the top),
               at the end of the word it replaces all values; `.` after a number does nothing, elsewhere copies the top

The stack starts with endless `true` values; the row matches when no `false` is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from anycastlab.virtual_router.times import parse_ms

Row = Mapping[str, str]

_TOKEN = re.compile(r"(\d+)(\.?)|([!&|.])")
_BOOLEANS = {"yes": "true", "no": "false"}


class QueryError(Exception):
    """A query word that cannot be understood."""


class _Stack:
    """Booleans over an endless ground of equal ones."""

    def __init__(self) -> None:
        self.ground = True
        self.values: list[bool] = []

    def pop(self) -> bool:
        return self.values.pop() if self.values else self.ground

    def push(self, value: bool) -> None:
        self.values.append(value)

    def peek(self, index: int) -> bool:
        return self.values[-1 - index] if index < len(self.values) else self.ground

    def replace_all(self, value: bool) -> None:
        self.values, self.ground = [], value


_Step = Callable[[_Stack, Row], None]


class Query:
    """Compiled query words."""

    def __init__(self, words: Sequence[str]) -> None:
        """Raises QueryError."""
        self._steps = [_compile(word) for word in words]

    def matches(self, row: Row) -> bool:
        stack = _Stack()
        for step in self._steps:
            step(stack, row)
        return stack.ground and all(stack.values)


def _compile(word: str) -> _Step:
    body = word.removeprefix("?")
    if body.startswith("#"):
        return _operations(body[1:])
    if body.startswith("-"):
        return _test(word, body[1:], lambda name, _, row: name not in row)
    if body[:1] in ("<", ">"):
        greater = body[0] == ">"
        return _test(word, body[1:], lambda name, value, row: name in row and _ordered(row[name], value, greater), True)
    if body.startswith("="):
        return _test(word, body[1:], _is_equal, True)
    if "=" in body:
        return _test(word, body, _is_equal)
    return _test(word, body, lambda name, _, row: name in row)


def _test(word: str, body: str, test: Callable[[str, str, Row], bool], value_needed: bool = False) -> _Step:
    name, equals, value = body.partition("=")
    if not name or (value_needed and not equals):
        raise QueryError(f"query word {word} is not complete")
    return lambda stack, row: stack.push(test(name, value, row))


def _is_equal(name: str, value: str, row: Row) -> bool:
    return name in row and _equal(row[name], value)


def _equal(actual: str, wanted: str) -> bool:
    """Values are compared, not spellings: yes is true, 90s is 1m30s, a host address may carry /32."""
    if actual in (wanted, _BOOLEANS.get(wanted)):
        return True
    if not actual[:1].isdigit() or not wanted[:1].isdigit() or actual.isdigit():
        return False
    if actual.removesuffix("/32") == wanted.removesuffix("/32"):
        return True
    try:
        return parse_ms(actual) == parse_ms(wanted)
    except ValueError:
        return False


def _ordered(actual: str, wanted: str, greater: bool) -> bool:
    """Numbers and times by size, everything else by text."""
    try:
        size = parse_ms(actual) - parse_ms(wanted)
    except ValueError:
        size = (actual > wanted) - (actual < wanted)
    return size > 0 if greater else size < 0


def _operations(text: str) -> _Step:
    steps: list[_Step] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise QueryError(f"query operation #{text} is not understood")
        at = match.end()
        if operator := match[3]:
            steps.append(_OPERATORS[operator])
        else:
            steps.append(_index(int(match[1]), last=at == len(text) and not match[2]))

    def run(stack: _Stack, row: Row) -> None:
        for step in steps:
            step(stack, row)

    return run


def _index(index: int, last: bool) -> _Step:
    def run(stack: _Stack, _row: Row) -> None:
        value = stack.peek(index)
        if last:
            stack.replace_all(value)
        else:
            stack.push(value)

    return run


def _and(stack: _Stack, _row: Row) -> None:
    right, left = stack.pop(), stack.pop()
    stack.push(left and right)


def _or(stack: _Stack, _row: Row) -> None:
    right, left = stack.pop(), stack.pop()
    stack.push(left or right)


_OPERATORS: dict[str, _Step] = {
    "!": lambda stack, _row: stack.push(not stack.pop()),
    "&": _and,
    "|": _or,
    ".": lambda stack, _row: stack.push(stack.peek(0)),
}
