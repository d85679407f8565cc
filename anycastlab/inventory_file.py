"""What a person writes in Python, an inventory and `group_data/`: a mistake in it is a sentence with file and line.

Reading is pyinfra's. What pyinfra shows for a mistake is a traceback through its own modules, so the files are executed
once before it does that: by `Fleet` for commands that look, by `config.py` for every run of pyinfra itself.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyinfra.api.exceptions import PyinfraError

from anycastlab.errors import AnycastlabError

if TYPE_CHECKING:
    from pyinfra.api import Inventory

# Code that asks a person, who must not be asked twice, or (in group data) asks pyinfra about an inventory that is not
# there yet: only its syntax can be looked at.
_ASKS_A_PERSON = re.compile(r"\b(getpass|input)\b")
_ASKS_PYINFRA = re.compile(r"\bpyinfra\b")
_HINT = "Correct it; nothing was changed."


class InventoryFileError(AnycastlabError):
    """An inventory file, or a file of `group_data/`, cannot be read."""


def read(path: str, data: Mapping[str, Any] | None = None) -> Inventory:
    """The inventory in the file `path` with what `group_data/` says, here and beside it.

    Raises InventoryFileError. Needs pyinfra's patched standard library: see `fleet`.
    """
    from pyinfra_cli.inventory import make_inventory

    check(path)
    try:
        inventory: Inventory = make_inventory(path, override_data=dict(data or {}), cwd=str(Path.cwd()))
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
        check(given["inventory"], given["group_data"] or ())
    except AnycastlabError as error:
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {error}", err=True)
        raise SystemExit(1) from None


def check(path: str, folders: Iterable[str] = ()) -> None:
    """Execute the inventory and the files of `group_data/` as pyinfra will, in milliseconds; raises InventoryFileError.

    `folders`: more places with group data.
    """
    from pyinfra_cli.util import exec_file

    groups: dict[str, Any] = {}
    for file in (path, *_group_data(path, folders)):
        try:
            text = Path(file).read_text(encoding="utf-8")
            if _ASKS_A_PERSON.search(text) or (file != path and _ASKS_PYINFRA.search(text)):
                compile(text, file, "exec")
            elif file == path:
                groups = exec_file(file, return_locals=True)
            else:
                exec_file(file)
        except AnycastlabError:
            raise
        except Exception as error:
            raise mistake(error, file) from None
    _refuse_shapes(path, groups)


def _group_data(path: str, folders: Iterable[str]) -> list[str]:
    places = dict.fromkeys([Path.cwd() / "group_data", Path(path).parent.resolve() / "group_data", *map(Path, folders)])
    return [str(file) for place in places for file in ([place] if place.is_file() else sorted(place.glob("*.py")))]


def _refuse_shapes(path: str, groups: Mapping[str, Any]) -> None:
    """A machine is a name, or a pair of a name and its settings; pyinfra meets anything else with a traceback."""
    for group, value in groups.items():
        members = value[0] if isinstance(value, tuple) and value else value
        if group.startswith("_") or not isinstance(members, list):
            continue
        for member in members:
            name, settings = member if isinstance(member, tuple) and len(member) == 2 else (member, {})
            if isinstance(member, tuple) and not (isinstance(name, str) and isinstance(settings, Mapping)):
                raise InventoryFileError(
                    f"{_place(path, None)}: {member!r} in the group {group!r} is no machine.",
                    'Write its name, or a pair of its name and its settings: ("name", {"setting": "value"}).',
                )


def mistake(error: Exception, file: str) -> InventoryFileError:
    """What pyinfra raised while it read `file`, as an error with a sentence."""
    # pyinfra wraps what the code of a file raises, except a SyntaxError and its own errors.
    wrapped: object = getattr(error, "exception", None)
    cause = wrapped if isinstance(wrapped, Exception) else error
    if isinstance(cause, SyntaxError):
        return InventoryFileError(f"{_place(cause.filename or file, cause.lineno)}: {_said(cause)}.", _HINT)
    if cause is error:
        return InventoryFileError(f"{_place(file, None)} cannot be read: {_said(cause)}.", _HINT)
    stack = traceback.extract_tb(getattr(cause, "_traceback", None) or cause.__traceback__)
    # The last line of the file itself: what it calls may go deep into other modules.
    lines = [frame.lineno for frame in stack if frame.filename == file]
    return InventoryFileError(f"{_place(file, lines[-1] if lines else None)}: {_said(cause)}.", _HINT)


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
