"""`anycastlab report RUN…`: read runs, show the table, and write page and tables where asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anycastlab.report import html, reading, tables
from anycastlab.report.run import ReportError

FORMATS = ("table", "markdown", "csv")
# What `--out` writes, beside the timelines.
PAGE, MARKDOWN, CSV = "report.html", "report.md", "report.csv"


def report(paths: Sequence[Path], console: Console, out: Path | None = None, form: str = "table") -> list[Path]:
    """Show the runs below `paths` in `form`; with `out`, write page, Markdown and CSV there. Returns what was written.

    Raises ReportError. Exit code 0 is right whatever the runs say: a report of a failed run is a good report.
    """
    # In the order in which they were made; repeats find each other by name.
    groups = tables.group(
        sorted((reading.read(folder) for folder in reading.find(paths)), key=lambda one: one.start_utc)
    )
    try:
        _print(groups, console, form)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ReportError(f"Cannot print the report: {error.strerror}.") from None
    return [] if out is None else write(groups, out)


def _print(groups: Sequence[tables.Group], console: Console, form: str) -> None:
    if form == "markdown":
        console.print(tables.markdown(groups), end="", markup=False, highlight=False, soft_wrap=True)
    elif form == "csv":
        console.print(tables.csv_text(groups), end="", markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(tables.outcome(groups), markup=False, highlight=False)
        console.print(tables.terminal(groups, console.width))
        for reason in tables.reasons(groups):
            console.print(reason, markup=False, highlight=False)


def write(groups: Sequence[tables.Group], out: Path) -> list[Path]:
    """The page and the tables in the folder `out`, or the page alone when `out` ends in .html."""
    texts = {out: html.page(groups)} if out.suffix == ".html" else {
        out / PAGE: html.page(groups),
        out / MARKDOWN: tables.markdown(groups),
        out / CSV: tables.csv_text(groups),
    }  # fmt: skip
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Whole or not at all: on a full disk, half a page would look like a report.
            fresh = path.with_name(f".{path.name}.new")
            try:
                fresh.write_text(text, encoding="utf-8")
                fresh.replace(path)
            finally:
                fresh.unlink(missing_ok=True)
    except OSError as error:
        raise ReportError(f"Cannot write {error.filename or out}: {error.strerror}.") from None
    return list(texts)
