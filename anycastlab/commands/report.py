"""`anycastlab report`: tables and a page from recorded runs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from anycastlab.exit_codes import OK

FORMATS = ("table", "markdown", "csv")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the page here: a folder for page and tables, or FILE.html."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="What to print.")
def report(runs: tuple[Path, ...], out: Path | None, form: str) -> int:
    """Show recorded runs: RUNS are run directories, or directories above them."""
    from anycastlab.report.command import report as make

    for path in make(runs, Console(), out, form):
        click.echo(f"Written to {path}.", err=True)
    return OK
