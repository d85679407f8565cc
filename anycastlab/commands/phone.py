"""`anycastlab phone`: the phone has its own options, for it also runs where click is not."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def phone(arguments: tuple[str, ...]) -> int:
    """Ask DNS like a household, on a fixed schedule. Exit 0: measured, 1: error, 2: late or skipped, 130: stopped."""
    from anycastlab.phone.__main__ import main

    return main(arguments)
