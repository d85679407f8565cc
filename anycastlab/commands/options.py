"""Options that several subcommands share."""

from __future__ import annotations

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
    """`KEY=VALUE` options as pyinfra reads them: numbers, booleans, null and JSON lists become what they look like."""
    parsed: dict[str, object] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise click.ClickException(f"--data {value} is not KEY=VALUE.")
        from pyinfra_cli.util import parse_cli_arg

        parsed[key] = parse_cli_arg(text)
    return parsed
