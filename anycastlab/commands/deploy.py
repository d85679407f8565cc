"""`anycastlab up`, `plan` and `down`: pyinfra with our deploy files, and exit codes that a script can use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from anycastlab.cli import ERROR, INTERRUPTED, OK, PENDING
from anycastlab.commands.confirm import confirm, yes_option
from anycastlab.commands.options import data_option, inventory_option, parse_data

DEPLOY, TEARDOWN = "deploy.py", "teardown.py"


@click.command()
@inventory_option
@data_option
@click.option("--limit", multiple=True, help="Only these machines or groups.")
@click.option("-v", "--verbose", is_flag=True, help="Show every command's output.")
def up(inventory: str, data: tuple[str, ...], limit: tuple[str, ...], verbose: bool) -> int:
    """Build the home or lab, or bring it to what the inventory says. Safe to run again."""
    return _pyinfra(inventory, DEPLOY, data, limit, ["-y", *(["-v"] if verbose else [])])


@click.command()
@inventory_option
@data_option
@yes_option
@click.argument("names", nargs=-1)
def down(inventory: str, data: tuple[str, ...], yes: bool, names: tuple[str, ...]) -> int:
    """Remove what `up` made, router objects included, and nothing else. Shows what will be gone, and asks.

    With NAMES: only these machines of the lab, whose lines were taken out of the inventory.
    """
    if names:
        return _down_forgotten(inventory, data, names, yes=yes)
    if not yes:
        from anycastlab.fleet import Fleet
        from anycastlab.status.removal import will_be_gone

        confirm("Remove this?", will_be_gone(Fleet(inventory, parse_data(data)).site), yes=yes)
    return _pyinfra(inventory, TEARDOWN, data, (), ["-y"])


def _down_forgotten(inventory: str, data: tuple[str, ...], names: tuple[str, ...], *, yes: bool) -> int:
    from anycastlab.fleet import Fleet
    from anycastlab.lab.topology import Lab
    from anycastlab.status import built
    from anycastlab.turn import take_turn

    fleet = Fleet(inventory, parse_data(data))
    if fleet.site.lab is None:
        raise click.ClickException(
            f"{inventory} is no lab. A board is given back, before its line goes, with "
            f"`pyinfra {inventory} {TEARDOWN} --limit HOST`."
        )
    lab, inventoried = Lab(fleet.site.lab), built.names_in(list(fleet.inventory))
    for name in names:  # all of them, before the first is gone
        built.require_forgotten(lab, name, inventoried)
    will = [f"{name} will be deleted with everything in it." for name in names]
    confirm("Delete?", will, yes=yes)
    take_turn(fleet.site)
    for name in names:
        built.remove_forgotten(lab, name, inventoried)
        click.echo(f"{name} is removed.")
    return OK


@click.command()
@inventory_option
@data_option
@click.option("--limit", multiple=True, help="Only these machines or groups.")
@click.option("--json", "as_json", is_flag=True, help="pyinfra's plan as JSON on standard output.")
def plan(inventory: str, data: tuple[str, ...], limit: tuple[str, ...], as_json: bool) -> int:
    """Show what `up` would change, changing nothing. Exit 0: nothing to do, 2: changes pending, 1: error."""
    # Without -y: that would skip the very look at what would change.
    command = _command(inventory, DEPLOY, data, limit, ["--dry", "--diff", "--json"])
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        return ERROR
    planned = json.loads(result.stdout)
    if as_json:
        click.echo(result.stdout.rstrip())
    if not planned["plan"]:  # every machine takes part in the barriers
        raise click.ClickException("No machine was looked at: --limit names none of the inventory's.")
    pending = pending_operations(planned["plan"])
    if not as_json:
        for host, names in pending.items():
            click.echo(f"{host}: {len(names)} to change: {', '.join(names)}")
        total = sum(len(names) for names in pending.values())
        click.echo(f"{total} operations would change something." if total else "Nothing to do.")
    return PENDING if pending else OK


def pending_operations(plan: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Host → names of operations that would change it, from the `plan` list of pyinfra's `--json` output."""
    pending: dict[str, list[str]] = {}
    for operation in plan:
        for host in (*operation["hosts_with_change"], *operation["hosts_with_conditional_change"]):
            pending.setdefault(host, []).append(operation["name"])
    return dict(sorted(pending.items()))


def _command(inventory: str, deploy: str, data: tuple[str, ...], limit: tuple[str, ...], extra: list[str]) -> list[str]:
    if not Path(deploy).is_file():
        raise click.ClickException(f"There is no {deploy} in {Path.cwd()}. Run this in anycastlab's folder.")
    if not Path(inventory).is_file():  # pyinfra would go on with no machine at all, and report success
        raise click.ClickException(f"There is no inventory file {inventory}.")
    parse_data(data)  # pyinfra answers a value without "=" with a traceback
    options = [part for value in data for part in ("--data", value)]
    options += [part for value in limit for part in ("--limit", value)]
    return [sys.executable, "-m", "pyinfra", *options, *extra, inventory, deploy]


def _pyinfra(inventory: str, deploy: str, data: tuple[str, ...], limit: tuple[str, ...], extra: list[str]) -> int:
    # Ctrl-C reaches pyinfra by itself (same terminal); wait for it to put things back before saying so.
    process = subprocess.Popen(_command(inventory, deploy, data, limit, extra))
    interrupted = False
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            interrupted = True
            continue
        break
    if interrupted:
        return INTERRUPTED
    return OK if code == 0 else ERROR
