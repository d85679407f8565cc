"""Colours of a difference. Imports little: commands that only print need no pyinfra."""

from __future__ import annotations

import click

_COLOURS = {"+": "green", "-": "red", "~": "yellow", "@": "cyan", ">": "cyan"}


def coloured(line: str) -> str:
    """The line in a diff's usual colours (click takes them off where the output is no terminal)."""
    colour = _COLOURS.get(line.lstrip(" ")[:1])
    return click.style(line, fg=colour) if colour else line
