"""`anycastlab probe`, `drain` and `undrain`: the nodes' health probes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from anycastlab.commands.options import data_option, inventory_option, json_option, parse_data
from anycastlab.exit_codes import OK, PENDING

if TYPE_CHECKING:
    from anycastlab.fleet import Fleet


@click.command()
@inventory_option
@data_option
@json_option
def probe(inventory: str, data: tuple[str, ...], as_json: bool) -> int:
    """Show what each node's health probe thinks: state, since when, why, and its last answers. Exit 2: not healthy."""
    from anycastlab import narrow, probe_control
    from anycastlab.errors import AnycastlabError
    from anycastlab.fleet import in_parallel

    fleet, names = _fleet(inventory, data)
    problem = None
    try:
        fleet.require_built()
    except AnycastlabError as error:
        problem = str(error)
        states = [probe_control.NodeProbe(name, "unknown", reason=problem) for name in names]
    else:
        for sentence in fleet.look_as_deployed():
            click.echo(sentence, err=as_json)
        states = probe_control.probe_states(fleet.run_plain, names, in_parallel)
    if problem and not as_json:
        click.echo(f"! {problem}")
    elif as_json:
        click.echo(json.dumps([state.to_dict() for state in states], indent=2))
    else:
        click.echo(probe_control.table(states, narrow.columns()))
    return OK if probe_control.healthy(states) else PENDING


@click.command()
@inventory_option
@data_option
@click.argument("node")
@click.option("--force", is_flag=True, help="Even if no other node announces the service address.")
def drain(inventory: str, data: tuple[str, ...], node: str, force: bool) -> int:
    """Take NODE out of service; nothing is lost by it, and it stays out over a reboot."""
    from anycastlab import probe_control
    from anycastlab.fleet import in_parallel
    from anycastlab.run_lock import share_run_lock

    fleet, names = _built(inventory, data)
    share_run_lock(fleet.site)
    state = probe_control.drain(fleet.run_plain, names, node, force=force, each=in_parallel)
    click.echo(f"{node} is out of service: {state.reason}.")
    return OK


@click.command()
@inventory_option
@data_option
@click.argument("node")
def undrain(inventory: str, data: tuple[str, ...], node: str) -> int:
    """Put NODE back into service."""
    from anycastlab import probe_control
    from anycastlab.run_lock import share_run_lock

    fleet, names = _built(inventory, data)
    share_run_lock(fleet.site)
    state = probe_control.undrain(fleet.run_plain, names, node)
    click.echo(f"{node} is back in service: {state.reason}.")
    return OK


def _built(inventory: str, data: tuple[str, ...]) -> tuple[Fleet, list[str]]:
    """Like `_fleet`, for commands that make no sense where there is nothing."""
    fleet, names = _fleet(inventory, data)
    fleet.require_built()
    return fleet, names


def _fleet(inventory: str, data: tuple[str, ...]) -> tuple[Fleet, list[str]]:
    from anycastlab.fleet import Fleet

    fleet = Fleet(inventory, parse_data(data))
    return fleet, [node.name for node in fleet.site.nodes]
