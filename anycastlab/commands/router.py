"""`anycastlab router`: the router alone."""

from __future__ import annotations

import json
from pathlib import Path

import click

from anycastlab.commands.confirm import confirm, yes_option
from anycastlab.commands.options import data_option, inventory_option, json_option, parse_data
from anycastlab.exit_codes import OK, PENDING


@click.group()
def router() -> None:
    """The router alone: plan, verify, restore a backup."""


@router.command()
@inventory_option
@data_option
@json_option
def plan(inventory: str, data: tuple[str, ...], as_json: bool) -> int:
    """Show what a deploy would change on the router, row by row. Exit 0: nothing, 2: something."""
    from anycastlab.fleet import Fleet
    from anycastlab.routeros.control import plan_router
    from anycastlab.routeros.render import render_json, render_text

    fleet = Fleet(inventory, parse_data(data))
    fleet.require_built()
    site = fleet.site
    planned = plan_router(site)
    if as_json:
        click.echo(json.dumps(render_json(planned.plan, site.router.api_host), indent=2))
    else:
        click.echo(render_text(planned.plan, site.router.api_host))
    return PENDING if planned.changes else OK


@router.command()
@inventory_option
@data_option
@json_option
def verify(inventory: str, data: tuple[str, ...], as_json: bool) -> int:
    """Check sessions, BFD, routes and answers, and name the cause of what is wrong. Exit 0: all well, 2: not."""
    from anycastlab.fleet import Fleet
    from anycastlab.routeros.control import verify_router
    from anycastlab.status.asking import ask_household, service_asker
    from anycastlab.status.session_view import explainer

    fleet = Fleet(inventory, parse_data(data))
    fleet.require_built()
    for sentence in fleet.look_as_deployed():
        click.echo(sentence, err=as_json)
    explain = explainer(lambda node, argv: fleet.run(node.name, argv).stdout)
    found = verify_router(fleet.site, ask=service_asker(fleet.site, fleet.run_on_client), explain=explain)
    household, problem = ask_household(fleet.site, fleet.run_on_client)
    if not problem:  # else it is said already
        found = found.with_household(household.sentence(), household.complaints())
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else "\n".join(found.lines()))
    return OK if found.ok else PENDING


@router.command()
@inventory_option
@data_option
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry", is_flag=True, help="Only show what would change.")
@yes_option
def restore(inventory: str, data: tuple[str, ...], file: Path, dry: bool, yes: bool) -> int:
    """Put a backup that a deploy made back, as carefully as any change. Shows it first, and asks."""
    from anycastlab.fleet import Fleet
    from anycastlab.routeros.control import plan_restore_router, restore_router
    from anycastlab.routeros.render import render_text, render_warning
    from anycastlab.run_lock import take_run_lock

    fleet = Fleet(inventory, parse_data(data))
    fleet.require_built()
    site = fleet.site
    if not dry:
        take_run_lock(site)
    planned = plan_restore_router(site, file)
    click.echo(render_text(planned.plan, site.router.api_host))
    if dry:
        return PENDING if planned.changes else OK
    if planned.changes:
        confirm("Restore this backup?", render_warning(planned.plan), yes=yes)
        restore_router(site, file, click.echo, shown=planned)
    return OK
