"""What the Incus server knows, as pyinfra facts.

The command of each is an `ApiQuery`: spelt as `incus query PATH`, so any host with the Incus client can answer it (an
`@local` or `@ssh` hypervisor); the `@incus` connector recognises it and asks the server itself, also when the instance
it stands for does not exist. Something that is not there is None.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

from pyinfra.api import FactBase, QuoteString, StringCommand
from pyinfra.api.exceptions import FactProcessError

from anycastlab.outside_text import one_line
from anycastlab.stored import parse_json

Object = dict[str, Any]


class ApiQuery(StringCommand):
    """A GET on the Incus API; the answer is one line of JSON, or nothing when the thing does not exist."""

    def __init__(self, path: str, **parameters: str) -> None:
        self.path = path
        self.parameters = parameters
        url = f"/1.0{path}" + (f"?{urlencode(parameters)}" if parameters else "")
        super().__init__("incus", "query", QuoteString(url), "2>/dev/null", "||", "true")


class _ApiFact(FactBase[Object | None]):
    @staticmethod
    def default() -> Object | None:
        return None

    def process(self, output: Iterable[str]) -> Object | None:
        text = "\n".join(output)
        try:
            parsed = parse_json(text)
        except ValueError as error:
            raise FactProcessError(f"the Incus server did not answer with JSON but: {one_line(text, 80)}") from error
        return parsed if isinstance(parsed, dict) else None


class IncusServer(_ApiFact):
    """The server itself: `environment`, `api_extensions`, `config`."""

    def command(self) -> StringCommand:
        return ApiQuery("")


class IncusProject(_ApiFact):
    """One project: `config`, `used_by`."""

    def command(self, project: str) -> StringCommand:
        return ApiQuery(f"/projects/{quote(project)}")


class IncusNetwork(_ApiFact):
    """One network: `config`, `managed`, `status`, `used_by`."""

    def command(self, network: str) -> StringCommand:
        return ApiQuery(f"/networks/{quote(network)}")


class IncusAlias(_ApiFact):
    """An image alias of project `default`: `target` is the fingerprint it stands for."""

    def command(self, alias: str) -> StringCommand:
        return ApiQuery(f"/images/aliases/{quote(alias, safe='')}", project="default")


class IncusInstance(_ApiFact):
    """One instance: `status`, `architecture`, `config` (`volatile.base_image` is its image), `devices`."""

    def command(self, instance: str, project: str) -> StringCommand:
        return ApiQuery(f"/instances/{quote(instance)}", project=project)
