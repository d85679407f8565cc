"""`anycastlab status`: what the home looks like now."""

from __future__ import annotations

import json

import click
from rich.console import Console

from anycastlab.cli import OK, PENDING
from anycastlab.commands.options import data_option, inventory_option, json_option, parse_data


@click.command()
@inventory_option
@data_option
@json_option
def status(inventory: str, data: tuple[str, ...], as_json: bool) -> int:
    """Show nodes, router and service as they are now. Exit 0: healthy, 2: not."""
    from anycastlab.fleet import Fleet
    from anycastlab.status.gather import gather
    from anycastlab.status.router import read_router
    from anycastlab.status.table import render

    found = gather(Fleet(inventory, parse_data(data)), read_router)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        Console(highlight=False).print(render(found))
    return PENDING if found.complaints() else OK
