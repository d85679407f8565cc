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
