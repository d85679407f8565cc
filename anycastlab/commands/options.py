"""Options that several subcommands share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import click

from anycastlab.same_sudo_password import CHOSEN
from anycastlab.stored import parse_json

DEFAULT_INVENTORY = "inventory/lab.py"

_Command = TypeVar("_Command", bound=Callable[..., Any])


def inventory_option(command: _Command) -> _Command:
    """`--inventory`, and with it how its machines are reached: the password for sudo, asked for once."""
    inventory = click.option(
        "-i",
        "--inventory",
        default=DEFAULT_INVENTORY,
        show_default=True,
        help="The pyinfra inventory file of the home or lab.",
    )
    same_sudo_password = click.option(
        "--same-sudo-password",
        is_flag=True,
        expose_value=False,
        callback=_choose_sudo_password,
        help="Ask once for the password of sudo, for all machines.",
    )
    return inventory(same_sudo_password(command))


def _choose_sudo_password(context: click.Context, _parameter: click.Parameter, chosen: bool) -> None:
    context.meta[CHOSEN] = chosen


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
    if parsed:
        from anycastlab.site.settings import refuse_secrets

        refuse_secrets(parsed)
    return parsed


def _without_end(text: str) -> float:
    """NaN and the infinities, as pyinfra reads them: a type refuses them by name. ValueError for anything else."""
    if text not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(text)
    return float(text)


def _parsed(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    # JSON knows no "007" and no "+1", which are numbers to pyinfra.
    for read in (int, parse_json, _without_end):
        with contextlib.suppress(ValueError):
            value: object = read(text)
            return value
    return text
