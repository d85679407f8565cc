"""`anycastlab phone`: the phone alone, against any resolver. Its options are its own: anycastlab.phone.__main__."""

from __future__ import annotations

import click


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def phone(arguments: tuple[str, ...]) -> int:
    """Ask DNS like a household, on a fixed schedule. Exit 0: measured, 1: error, 2: late, 130: stopped."""
    from anycastlab.phone.__main__ import main

    return main(arguments)
