"""What a person writes in Python, an inventory and `group_data/`: a mistake in it is a sentence with file and line.

Reading is pyinfra's. What pyinfra shows for a mistake is a traceback through its own modules, so the files are read
once before it does that: by `Fleet` for commands that look, by `config.py` for every run of pyinfra itself.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyinfra.api.exceptions import PyinfraError

from anycastlab.errors import AnycastlabError

if TYPE_CHECKING:
    from pyinfra.api import Inventory

_HINT = "Correct it; nothing was changed."


class InventoryFileError(AnycastlabError):
    """An inventory file, or a file of `group_data/`, cannot be read."""


def read(path: str, data: Mapping[str, Any] | None = None, folders: Iterable[str] = ()) -> Inventory:
    """The inventory in the file `path` with what `group_data/` says here, beside it and in `folders`.

    Raises InventoryFileError. Needs pyinfra's patched standard library: see `fleet`.
    """
    from pyinfra_cli.inventory import make_inventory

    try:
        inventory: Inventory = make_inventory(
            path, override_data=dict(data or {}), cwd=str(Path.cwd()), group_data_directories=list(folders)
        )
    except AnycastlabError:
        raise  # a sentence already
    except Exception as error:
        raise mistake(error, path) from None
    return inventory


def refuse_mistakes() -> None:
    """For config.py, which pyinfra reads first: ends the run with a sentence if its inventory cannot be read."""
    import click

    given = click.get_current_context().params
    if not Path(given["inventory"]).is_file():
        return  # host names, or pyinfra says that there is no such file
    try:
        read(given["inventory"], folders=given["group_data"] or ())
    except AnycastlabError as error:
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {error}", err=True)
        raise SystemExit(1) from None


def mistake(error: Exception, inventory: str) -> InventoryFileError:
    """What went wrong while pyinfra read `inventory` and its group_data, as an error with a sentence."""
    # pyinfra wraps what the code of a file raises, except a SyntaxError and its own errors.
    wrapped: object = getattr(error, "exception", None)
    cause = wrapped if isinstance(wrapped, Exception) else error
    if isinstance(cause, SyntaxError):
        return InventoryFileError(f"{_place(cause.filename or inventory, cause.lineno)}: {_said(cause)}.", _HINT)
    if cause is not error:
        file = str(getattr(error, "filename", inventory))
        stack = traceback.extract_tb(getattr(cause, "_traceback", None) or cause.__traceback__)
        # The last line of the file itself: what it calls may go deep into other modules.
        lines = [frame.lineno for frame in stack if frame.filename == file]
        return InventoryFileError(f"{_place(file, lines[-1] if lines else None)}: {_said(cause)}.", _HINT)
    if isinstance(cause, PyinfraError | OSError | UnicodeError):
        return InventoryFileError(f"The inventory {inventory} cannot be read: {_said(cause)}.", _HINT)
    return InventoryFileError(
        f"The inventory {inventory} cannot be read: {_said(cause)}.",
        "A group is a list of machines, each a name or a pair of a name and its settings: `(name, {...})`.",
    )


def _place(file: str, line: int | None) -> str:
    path = Path(file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}, line {line}" if line else str(shown)


def _said(error: Exception) -> str:
    """The error in a few words, without a full stop."""
    if isinstance(error, SyntaxError):
        return f"this is not Python: {error.msg}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    text = " ".join(str(error).split()).rstrip(".")
    # A KeyError's text is the key alone, and some have no text at all.
    return text if isinstance(error, NameError | ImportError | PyinfraError) and text else _named(error, text)


def _named(error: Exception, text: str) -> str:
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
