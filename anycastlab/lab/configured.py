"""The machines around the nodes (upstream, router, clients) have their files and run their services.

These serve nobody but the lab, so a change is simply made: files, then a restart of the machine's services. Last of
all comes a stamp of what the services were started with; a run that was killed before it is finished by the next.
"""

from __future__ import annotations

import hashlib
import io
import shlex
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyinfra import host, logger, state
from pyinfra.api import FileUploadCommand, FunctionCommand, StringCommand, operation
from pyinfra.api.exceptions import FactProcessError

from anycastlab import tell
from anycastlab.errors import AnycastlabError
from anycastlab.node.agent import FRESH
from anycastlab.node.managed import ManagedFile
from anycastlab.shell_fact import ShellFact, asked

STAMP = "/var/lib/anycastlab/started-with"


@dataclass(frozen=True)
class MachineState:
    """What lies on the machine: path → "SHA256 MODE OWNER:GROUP", active units, the stamp of the last start."""

    files: Mapping[str, str] = field(default_factory=dict)
    active: frozenset[str] = frozenset()
    stamp: str = ""


class MachineFact(ShellFact[MachineState]):
    """State of the given files and units; the default is a machine that does not exist yet."""

    @staticmethod
    def default() -> MachineState:
        return MachineState()

    def command(self, paths: Iterable[str], units: Iterable[str]) -> StringCommand:
        files = " ".join(shlex.quote(path) for path in paths)
        lines = [
            f"for f in {files}; do [ -f $f ] && echo file $f $(sha256sum < $f | cut -d' ' -f1)"
            " $(stat -c '%a %U:%G' $f); done",
            *(f"systemctl -q is-active {unit} && echo active {unit}" for unit in units),
            f"[ -f {STAMP} ] && echo stamp $(cat {STAMP})",
            "true",
        ]
        return asked("\n".join(lines))

    def read(self, output: list[str]) -> MachineState:
        files, active, stamp = {}, set(), ""
        for line in output:
            match line.split():
                case ["file", path, digest, mode, owner]:
                    files[path] = f"{digest} {mode} {owner}"
                case ["active", unit]:
                    active.add(unit)
                case ["stamp", text]:
                    stamp = text
                case _:
                    raise FactProcessError(f"cannot read the machine's state: {line!r}")
        return MachineState(files, frozenset(active), stamp)


def wanted(file: ManagedFile) -> str:
    """A file as MachineState describes it."""
    return f"{file.sha256} {file.mode:o} {file.owner}:{file.group}"


@operation(is_idempotent=False)
def at_hand(files: Callable[[bool], tuple[ManagedFile, ...]]) -> Generator[FunctionCommand, None, None]:
    """What a rebuilt machine gets can be made, secrets included; asked before the present one is deleted."""
    yield FunctionCommand(_made, (files,), {})


# pyinfra passes `state` and `host`, and heeds the answer, only for a function with parameters of these names.
def _made(state: Any, host: Any, files: Callable[[bool], tuple[ManagedFile, ...]]) -> bool:  # noqa: ARG001
    try:
        files(True)
    except AnycastlabError as error:
        host.log_styled(str(error), fg="red", log_func=logger.error)
        return False
    return True


@operation()
def configured(
    files: Callable[[bool], tuple[ManagedFile, ...]], units: tuple[str, ...] = ()
) -> Generator[FileUploadCommand | StringCommand, None, None]:
    """The files are as given and the units run, started with them.

    + files: called with whether secrets that do not exist yet may be made: not while planning
    + units: systemd services that use them
    """
    wanted_files = files(state.is_executing)
    actual = host.get_fact(MachineFact, paths=[f.path for f in wanted_files], units=list(units))
    stamp = hashlib.sha256("\n".join(f"{f.path} {wanted(f)}" for f in wanted_files).encode()).hexdigest()
    changed = [file for file in wanted_files if actual.files.get(file.path) != wanted(file)]
    stale = actual.stamp != stamp or not actual.active.issuperset(units)
    if not changed and not stale:
        host.noop("files and services are as described")
        return
    tell.change(
        _summary(len(changed), units), lambda: [_line(file, known=file.path in actual.files) for file in changed]
    )
    folders = sorted({shlex.quote(f.path.rpartition("/")[0]) for f in wanted_files} | {STAMP.rpartition("/")[0]})
    yield StringCommand(f"mkdir -p {' '.join(folders)}")
    for file in changed:
        # Beside it first: a run that is killed leaves the old file or the new one.
        beside, path = shlex.quote(f"{file.path}{FRESH}"), shlex.quote(file.path)
        yield FileUploadCommand(io.BytesIO(file.content), f"{file.path}{FRESH}")
        own = f"chown {file.owner}:{file.group} {beside} && chmod {file.mode:o} {beside}"
        yield StringCommand(f"{own} && mv -f {beside} {path}")
    start = [f"systemctl daemon-reload && systemctl enable -q {' '.join(units)} && systemctl restart {' '.join(units)}"]
    yield StringCommand(" && ".join([*(start if units else []), f"echo {stamp} > {STAMP}"]))


def _summary(files: int, units: tuple[str, ...]) -> str:
    parts = [f"write {files} file{'s' if files > 1 else ''}"] if files else []
    return "; ".join([*parts, *([f"restart {', '.join(units)}"] if units else [])]) or "note what was written"


def _line(file: ManagedFile, *, known: bool) -> str:
    return f"{'~' if known else '+'} {file.path} ({len(file.content)} bytes, {file.mode:o}, {file.owner}:{file.group})"
