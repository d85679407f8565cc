"""`anycastlab up`, `plan` and `down`: pyinfra with our deploy files, shown to a person (`anycastlab.run`)."""

from __future__ import annotations

import json
from pathlib import Path

import click

from anycastlab.colours import coloured
from anycastlab.commands.confirm import confirm, yes_option
from anycastlab.commands.options import data_option, inventory_option, parse_data
from anycastlab.exit_codes import ERROR, INTERRUPTED, OK, PENDING
from anycastlab.run import outside, show
from anycastlab.run.story import Machine, Story, closing, sentence
from anycastlab.same_sudo_password import sudo_password_chosen

DEPLOY, TEARDOWN = "deploy.py", "teardown.py"


@click.command()
@inventory_option
@data_option
@click.option("--limit", multiple=True, help="Only these machines or groups.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything that pyinfra says.")
def up(inventory: str, data: tuple[str, ...], limit: tuple[str, ...], verbose: bool) -> int:
    """Build the home or lab, or bring it to what the inventory says. Safe to run again."""
    story, code = _run(inventory, DEPLOY, data, limit, ["-y", *(["-v"] if verbose else [])], verbose=verbose)
    if code == OK:
        click.echo(closing(story))
        for text in story.closings:
            click.echo(text)
    return code


@click.command()
@inventory_option
@data_option
@yes_option
@click.option("-v", "--verbose", is_flag=True, help="Show everything that pyinfra says.")
@click.argument("names", nargs=-1)
def down(inventory: str, data: tuple[str, ...], yes: bool, verbose: bool, names: tuple[str, ...]) -> int:
    """Remove what `up` made, router objects included, and nothing else. Shows what will be gone, and asks.

    With NAMES: only these machines of the lab, whose lines were taken out of the inventory.
    """
    if names:
        return _down_forgotten(inventory, data, names, yes=yes)
    if not yes:
        from anycastlab.fleet import Fleet
        from anycastlab.status.removal import will_be_gone

        confirm("Remove this?", will_be_gone(Fleet(inventory, parse_data(data)).site), yes=yes)
    story, code = _run(inventory, TEARDOWN, data, (), ["-y", *(["-v"] if verbose else [])], verbose=verbose)
    if code == OK:
        changed = ", ".join(machine.name for machine in story.changed())
        removed = f"What was ours is removed from {changed}" if changed else "There was nothing to remove"
        for text in (sentence([story.outcome or removed]), *story.closings):
            click.echo(text)
    return code


def _down_forgotten(inventory: str, data: tuple[str, ...], names: tuple[str, ...], *, yes: bool) -> int:
    from anycastlab.fleet import Fleet
    from anycastlab.incus.spec import Lab
    from anycastlab.run_lock import take_run_lock
    from anycastlab.status import built

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
    take_run_lock(fleet.site)
    for name in names:
        built.remove_forgotten(lab, name, inventoried)
        click.echo(f"{name} is removed.")
    return OK


@click.command()
@inventory_option
@data_option
@click.option("--limit", multiple=True, help="Only these machines or groups.")
@click.option("--diff", is_flag=True, help="Every file line by line, and every row of the router; secrets masked.")
@click.option("--json", "as_json", is_flag=True, help="pyinfra's plan as JSON on standard output.")
def plan(inventory: str, data: tuple[str, ...], limit: tuple[str, ...], diff: bool, as_json: bool) -> int:
    """Show what `up` would change, changing nothing. Exit 0: nothing to do, 2: changes pending, 1: error."""
    # Without -y: that would skip the very look at what would change.
    story, code = _run(inventory, DEPLOY, data, limit, ["--dry", *(["--diff"] if diff else [])])
    if code != OK:
        return code
    if not story.machines:
        raise click.ClickException("No machine was looked at: --limit names none of the inventory's.")
    pending = story.pending()
    if as_json:
        assert story.planned is not None
        click.echo(json.dumps({"plan": story.planned.pyinfra, "results": None}))
    else:
        _show_plan(pending, len(story.machines), diff=diff)
    return PENDING if pending else OK


def _show_plan(pending: list[Machine], machines: int, *, diff: bool) -> None:
    """A summary per machine, then, if wanted, all of it."""
    if not pending:
        click.echo("Nothing to do.")
        return
    for line in show.summary(pending):
        click.echo(line)
    if diff:
        for machine in pending:
            click.echo(f"\n{machine.name}")
            for text in machine.details:
                click.echo(f"  {coloured(text)}")
        click.echo()
    more = "" if diff else " `--diff` shows every line of it."
    click.echo(f"{len(pending)} of {machines} machines would change.{more}")


def _run(
    inventory: str,
    deploy: str,
    data: tuple[str, ...],
    limit: tuple[str, ...],
    extra: list[str],
    *,
    verbose: bool = False,
) -> tuple[Story, int]:
    """A run to its end: what is known of it, with its errors and warnings shown, and its exit code."""
    story, work = Story(), outside.Working(_arguments(inventory, deploy, data, limit, extra))
    shown = show.shown(story, dry="--dry" in extra, verbose=verbose)
    try:
        for message in work.messages():
            story.take(message)
            shown.see(message)
    finally:
        shown.end()
    show.complaints(story, verbose=verbose)
    if work.stopped:
        again = "plan" if "--dry" in extra else "down" if deploy == TEARDOWN else "up"
        click.echo(f"Stopped. What was begun is completed by the next `anycastlab {again}`.", err=True)
        return story, INTERRUPTED
    if work.code < 0:  # killed by somebody else: it said nothing
        raise click.ClickException(f"The run was killed by signal {-work.code}. Run it again.")
    return story, OK if work.code == 0 and story.finished is not None and story.finished.ok else ERROR


def _arguments(
    inventory: str, deploy: str, data: tuple[str, ...], limit: tuple[str, ...], extra: list[str]
) -> list[str]:
    """pyinfra's command line."""
    if not Path(deploy).is_file():
        raise click.ClickException(f"There is no {deploy} in {Path.cwd()}. Run this in anycastlab's folder.")
    if not Path(inventory).is_file():  # pyinfra would go on with no machine at all, and report success
        raise click.ClickException(f"There is no inventory file {inventory}.")
    parse_data(data)  # pyinfra answers a value without "=" with a traceback
    options = [part for value in data for part in ("--data", value)]
    options += [part for value in limit for part in ("--limit", value)]
    options += ["--same-sudo-password"] if sudo_password_chosen() else []
    return [*options, *extra, inventory, deploy]
