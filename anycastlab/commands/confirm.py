"""The question before something is destroyed: one for all commands.

Shown first is what will be gone. A script has no terminal and must say `--yes`; without it nothing is done.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, will: Sequence[str], *, yes: bool) -> None:
    """Show the lines of `will`, ask `question`, and return when the answer is yes.

    With `yes` nothing is shown or asked. Raises ClickException (exit 1) when the answer is no, and when there is no
    terminal to ask on.
    """
    if yes:
        return
    for line in will:
        click.echo(line, err=True)
    if not sys.stdin.isatty():
        raise click.ClickException("There is no terminal to ask on, so nothing was changed. Add -y if this is meant.")
    if not click.confirm(question, err=True):
        raise click.ClickException("Nothing was changed.")
