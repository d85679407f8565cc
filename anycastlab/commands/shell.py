"""`anycastlab shell`: a look inside any machine of the lab."""

from __future__ import annotations

import click

from anycastlab.commands.options import inventory_option


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@inventory_option
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(inventory: str, name: str, command: tuple[str, ...]) -> int:
    """Run COMMAND, or a shell without one, on the machine NAME. Its exit code is passed on."""
    from anycastlab.fleet import Fleet
    from anycastlab.incus.shell import run_shell

    # click keeps the `--` that ends our own options.
    return run_shell(Fleet(inventory).host(name), command[1:] if command[:1] == ("--",) else command)
