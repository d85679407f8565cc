"""Whether a command is to ask for the password of sudo: said by an option, asked by whatever reaches machines."""

from __future__ import annotations

from typing import Final

import click

CHOSEN: Final = "anycastlab.same_sudo_password"  # where the option is kept while the command runs


def sudo_password_chosen() -> bool:
    """Whether the running command was given `--same-sudo-password`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(CHOSEN))
