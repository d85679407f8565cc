"""Options that several subcommands share."""

from __future__ import annotations

import contextlib
import json

import click

DEFAULT_INVENTORY = "inventory/lab.py"

inventory_option = click.option(
    "-i",
    "--inventory",
    default=DEFAULT_INVENTORY,
    show_default=True,
    help="The pyinfra inventory file of the home or lab.",
)
data_option = click.option(
    "--data", multiple=True, metavar="KEY=VALUE", help="Override a setting for this run; may be given several times."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


def parse_data(values: tuple[str, ...]) -> dict[str, object]:
    """`KEY=VALUE` options as pyinfra reads them: numbers, booleans, null and JSON lists become what they look like.

    Written here, because importing pyinfra's command line replaces the standard library's sockets and threads.
    """
    parsed: dict[str, object] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise click.ClickException(f"--data {value} is not KEY=VALUE.")
        parsed[key] = _parsed(text)
    return parsed


def _parsed(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    # JSON knows no "007" and no "+1", which are numbers to pyinfra.
    for read in (int, json.loads):
        with contextlib.suppress(ValueError):
            value: object = read(text)
            return value
    return text
