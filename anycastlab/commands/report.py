"""`anycastlab report`: tables and a page from recorded runs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from anycastlab.cli import OK


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--format", "form", type=click.Choice(["table", "markdown", "csv"]), default="table", show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write page, Markdown and CSV into this folder, or to FILE.html."
)
def report(runs: tuple[Path, ...], form: str, out: Path | None) -> int:
    """Show the runs in the folders RUNS, or below them. Exit 0 whatever they say: a bad result is a good report."""
    from anycastlab.report import command

    for path in command.report(runs, Console(), out, form):
        click.echo(f"Written to {path}.", err=True)
    return OK
