"""What a person writes in Python, an inventory and `group_data/`: a mistake in it is a sentence with file and line.

Reading is pyinfra's. What pyinfra shows for a mistake is a traceback through its own modules, so the files are executed
once before it does that: by `Fleet` for commands that look, by `config.py` for every run of pyinfra itself.
"""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyinfra.api.exceptions import PyinfraError

from anycastlab.errors import AnycastlabError
from anycastlab.site.settings import NOTHING_CHANGED, refuse_secrets

if TYPE_CHECKING:
    from pyinfra.api import Inventory

# Code that asks a person, who must not be asked twice, or (in group data) asks pyinfra about an inventory that is not
# there yet: only its syntax can be looked at.
_ASKS_A_PERSON = re.compile(r"\b(getpass|input)\b")
_ASKS_PYINFRA = re.compile(r"\bpyinfra\b")
_HINT = "Correct it; nothing was changed."
_DEPLOY = "deploy.py"
_OUR_DEPLOYS = {_DEPLOY, "teardown.py"}
_PROGRAM_OF_A_PERSON = "file:"  # how `adguardhome_source` names one


class InventoryFileError(AnycastlabError):
    """An inventory file, or a file of `group_data/`, cannot be read."""


def read(path: str, data: Mapping[str, Any] | None = None, folders: Sequence[str] | None = None) -> Inventory:
    """The inventory in the file `path` with what `group_data/` says, here, beside it and in `folders`.

    Raises InventoryFileError. Needs pyinfra's patched standard library: see `fleet`.
    """
    from pyinfra_cli.inventory import make_inventory

    check(path, folders or ())
    try:
        inventory: Inventory = make_inventory(
            path, override_data=dict(data or {}), cwd=str(Path.cwd()), group_data_directories=folders
        )
    except AnycastlabError:
        raise  # a sentence already
    except BaseException as error:  # whatever the code of a file raises
        _let_a_person_stop(error)
        raise mistake(error, path) from None
    return inventory


def refuse_mistakes() -> None:
    """For config.py, which pyinfra reads first: ends the run with a sentence before any machine is reached.

    For an inventory that cannot be read, secrets on the command line, and settings that a home cannot have.
    """
    import click

    from anycastlab import limit

    limit.install()
    given = click.get_current_context().params
    try:
        refuse_secrets(value.partition("=")[0] for value in given["data"])
        if not Path(given["inventory"]).is_file():
            return  # host names, or pyinfra says that there is no such file
        asks = check(given["inventory"], given["group_data"] or ())
        deploys = {Path(name).name for name in given["operations"]}
        if not asks and deploys & _OUR_DEPLOYS:
            _refuse_settings(given, {_DEPLOY} <= deploys)
    except AnycastlabError as error:
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {error}", err=True)
        raise SystemExit(1) from None


def _refuse_settings(given: Mapping[str, Any], deploys: bool) -> None:
    """The whole home is right, or the run ends here: a connector that gets a wrong setting ends with a traceback.

    `deploys`: what a deploy needs on this machine must be here, too.
    """
    from pyinfra_cli import cli as its

    from anycastlab.inventory_site import from_inventory
    from anycastlab.limit import chosen

    ssh = (given[f"ssh_{name}"] for name in ("user", "key", "key_password", "port", "password"))
    inventory = read(given["inventory"], its._set_override_data(given["data"], *ssh), given["group_data"])
    from_inventory(inventory)
    if deploys:
        _refuse_missing_programs(inventory.get_group("nodes", []))
    chosen(inventory, given["limit"] or (), "--limit")
    chosen(inventory, given["exclude"] or (), "--exclude")


def _refuse_missing_programs(nodes: Iterable[Any]) -> None:
    from anycastlab.limit import label

    for node in nodes:
        source = str(node.data.get("adguardhome_source") or "")
        path = Path(source.removeprefix(_PROGRAM_OF_A_PERSON))
        if not source.startswith(_PROGRAM_OF_A_PERSON) or node.data.get("resolver") == "unbound":
            continue
        if not path.is_file():
            raise InventoryFileError(
                f"adguardhome_source of {label(node)} names {path}, and there is no such file.", NOTHING_CHANGED
            )


def check(path: str, folders: Iterable[str] = ()) -> bool:
    """Execute the inventory and the files of `group_data/` as pyinfra will, in milliseconds; raises InventoryFileError.

    `folders`: more places with group data. Returns whether a file asks a person, and so was not executed.
    """
    from pyinfra_cli.util import exec_file

    groups: dict[str, Any] = {}
    asks = False
    for file in (path, *_group_data(path, folders)):
        try:
            text = Path(file).read_text(encoding="utf-8")
            asks |= _ASKS_A_PERSON.search(text) is not None
            if _ASKS_A_PERSON.search(text) or (file != path and _ASKS_PYINFRA.search(text)):
                compile(text, file, "exec")
            elif file == path:
                groups = exec_file(file, return_locals=True)
            else:
                exec_file(file)
        except AnycastlabError:
            raise
        except BaseException as error:
            _let_a_person_stop(error)
            raise mistake(error, file) from None
    _refuse_shapes(path, groups)
    return asks


def _group_data(path: str, folders: Iterable[str]) -> list[str]:
    places = dict.fromkeys([Path.cwd() / "group_data", Path(path).parent.resolve() / "group_data", *map(Path, folders)])
    return [str(file) for place in places for file in ([place] if place.is_file() else sorted(place.glob("*.py")))]


def _refuse_shapes(path: str, groups: Mapping[str, Any]) -> None:
    """A machine is a name, or a pair of a name and its settings; pyinfra meets anything else with a traceback."""
    for group, value in groups.items():
        members = value[0] if isinstance(value, tuple) and value else value
        if group.startswith("_") or not isinstance(members, list):
            continue
        seen: set[str] = set()
        for member in members:
            name, settings = member if isinstance(member, tuple) and len(member) == 2 else (member, {})
            if isinstance(member, tuple) and not (isinstance(name, str) and isinstance(settings, Mapping)):
                raise InventoryFileError(
                    f"{_place(path, None)}: {member!r} in the group {group!r} is no machine.",
                    'Write its name, or a pair of its name and its settings: ("name", {"setting": "value"}).',
                )
            if not str(name).strip():
                raise InventoryFileError(
                    f"{_place(path, None)}: a machine of the group {group!r} has no name.",
                    "Write its address or host name, such as 192.168.53.11.",
                )
            if name in seen:  # pyinfra would make one machine of the two, with the settings of both
                raise InventoryFileError(
                    f"{_place(path, None)}: {name} stands twice in the group {group!r}.", "Every machine has one line."
                )
            seen.add(name)


def _let_a_person_stop(error: BaseException) -> None:
    """Ctrl-C is Ctrl-C, unless this process has a handler of its own for it: then the file raised it itself."""
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise error


def mistake(error: BaseException, file: str) -> InventoryFileError:
    """What pyinfra raised while it read `file`, as an error with a sentence."""
    # pyinfra wraps what the code of a file raises, except a SyntaxError and its own errors.
    wrapped: object = getattr(error, "exception", None)
    cause: BaseException = wrapped if isinstance(wrapped, Exception) else error
    if isinstance(cause, SyntaxError):
        return InventoryFileError(f"{_place(cause.filename or file, cause.lineno)}: {_said(cause)}.", _HINT)
    if cause is error and isinstance(cause, Exception):
        return InventoryFileError(f"{_place(file, None)} cannot be read: {_said(cause)}.", _HINT)
    stack = traceback.extract_tb(getattr(cause, "_traceback", None) or cause.__traceback__)
    # The last line of the file itself: what it calls may go deep into other modules.
    lines = [frame.lineno for frame in stack if frame.filename == file]
    return InventoryFileError(f"{_place(file, lines[-1] if lines else None)}: {_said(cause)}.", _HINT)


def _place(file: str, line: int | None) -> str:
    path = Path(file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}, line {line}" if line else str(shown)


def _said(error: BaseException) -> str:
    """The error in a few words, without a full stop."""
    if isinstance(error, SystemExit):
        return "it ends the program (sys.exit), and a file that is read must not"
    if isinstance(error, SyntaxError):
        return f"this is not Python: {error.msg}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    text = " ".join(str(error).split()).rstrip(".")
    # A KeyError's text is the key alone, and some have no text at all.
    return text if isinstance(error, NameError | ImportError | PyinfraError) and text else _named(error, text)


def _named(error: BaseException, text: str) -> str:
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
