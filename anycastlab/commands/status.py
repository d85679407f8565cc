"""`anycastlab status`: what the home looks like now."""

from __future__ import annotations

import json
from dataclasses import replace

import click

from anycastlab.commands.options import data_option, inventory_option, json_option, parse_data
from anycastlab.exit_codes import OK, PENDING


@click.command()
@inventory_option
@data_option
@json_option
def status(inventory: str, data: tuple[str, ...], as_json: bool) -> int:
    """Show nodes, router and service as they are now. Exit 0: healthy, 2: not."""
    from anycastlab.errors import AnycastlabError
    from anycastlab.fleet import Fleet
    from anycastlab.status.gather import gather
    from anycastlab.status.model import Status
    from anycastlab.status.router import read_router
    from anycastlab.status.table import console, render

    fleet = Fleet(inventory, parse_data(data))
    site = fleet.site  # what is wrong with it is an error, and not a state
    try:
        fleet.require_built()
    except AnycastlabError as error:
        found = Status.unknown(site, str(error))
    else:
        notes = fleet.look_as_deployed()
        found = replace(gather(fleet, read_router), notes=tuple(notes))
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        console().print(render(found))
    return PENDING if found.complaints() else OK
