"""Facts about a router, read whole and once."""

from __future__ import annotations

import json
from typing import Any

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import override

from anycastlab.routeros.reading import VERSION_COMMAND, reading_commands
from anycastlab.routeros.wire import Reply
from anycastlab.stored import parse_json


class RouterVersion(FactBase[str | None]):
    """Version text as the router prints it (`7.22.3 (stable)`); None while the router does not exist."""

    @override
    def command(self) -> str:
        return json.dumps(list(VERSION_COMMAND))

    @override
    def process(self, output: list[str]) -> str | None:
        rows = [_json(line) for line in output]
        version = rows[0].get("version") if rows and isinstance(rows[0], dict) else None
        if not isinstance(version, str):
            raise FactProcessError("The router does not tell its version.")
        return version


class RouterMenus(FactBase[list[list[Reply] | None] | None]):
    """Answers to `reading.reading_commands(version)`, in order; None while the router does not exist.

    `reading.reading_from(version, answers)` makes a `Reading` of it.
    """

    @override
    def command(self, version: str) -> str:
        return json.dumps([list(words) for words in reading_commands(version)])

    @override
    def process(self, output: list[str]) -> list[list[Reply] | None] | None:
        answers = [_json(line) for line in output]
        if not all(answer is None or isinstance(answer, list) for answer in answers):
            raise FactProcessError("The router's answers are not lists of rows.")
        return answers


def _json(line: str) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise FactProcessError(f"The router's answer cannot be read: {error}.") from error
