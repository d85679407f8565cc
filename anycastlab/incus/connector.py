"""The `@incus` connector: pyinfra on an Incus instance, through the server's API.

    @incus/node01            an instance on this machine
    @incus/attic:node01      one on the server that `incus remote` calls attic

The project comes from the host's data (`incus_project`), else from the lab (`ANYCASTLAB_LAB`).

Invariants:
- Connecting asks the server and changes nothing; instances are created by `operations.instance` alone.
- While pyinfra prepares, an instance that is not there (or not running, or about to be rebuilt) looks like an empty
  machine: every fact takes its default and the plan is complete. While it executes, it is an error of that host.
- Everything the server refuses becomes a sentence in the command's stderr, so one host fails and not the whole run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from io import IOBase
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, cast

from pyinfra import logger
from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.exceptions import ConnectError, InventoryError
from pyinfra.api.output import echo
from pyinfra.api.util import get_file_io
from pyinfra.connectors.base import BaseConnector, DataMeta
from pyinfra.connectors.util import (
    CommandOutput,
    OutputLine,
    execute_command_with_sudo_retry,
    extract_control_arguments,
    make_unix_command_for_host,
)
from typing_extensions import TypedDict, Unpack, override

from anycastlab.incus.spec import Lab

from . import files
from .errors import IncusError, MissingError, NotRunningError
from .exec import flush
from .facts import ApiQuery
from .instances import check_architecture
from .remotes import LOCAL, find_server
from .rest import Rest, connect
from .session import Session

if TYPE_CHECKING:
    from pyinfra.api.arguments import ConnectorArguments

# Incus' own rule for instance names: a DNS label that does not begin with a digit.
_INSTANCE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")

# $1 new file, $2 its place. An existing file keeps its owner and mode, a symbolic link its target's place: what an
# upload over SSH does, and what pyinfra's file operations expect before they chmod and chown.
_REPLACE = """
set -e
target=$(readlink -f -- "$2") || target=$2
if [ -e "$target" ]; then
  chown "$(stat -c %u:%g -- "$target")" "$1"
  chmod "$(stat -c %a -- "$target")" "$1"
fi
mv -fT -- "$1" "$target"
"""


class IncusConnectorData(TypedDict):
    incus_instance: str
    incus_remote: str
    incus_project: str


_DATA_META: dict[str, DataMeta] = {
    "incus_instance": DataMeta("Name of the instance"),
    "incus_remote": DataMeta("Server, as named by `incus remote`; `local` is this machine", LOCAL),
    "incus_project": DataMeta("Incus project of the instance; default: that of the lab"),
}


def default_lab() -> Lab:
    """The lab this process works on (`ANYCASTLAB_LAB`)."""
    return Lab(os.environ.get("ANYCASTLAB_LAB") or "lab")


class IncusConnector(BaseConnector):
    """Commands and files of one instance. See the module for the syntax and what must stay true."""

    handles_execution = True
    data_cls = IncusConnectorData
    data_meta = _DATA_META
    data: IncusConnectorData

    rest: Rest
    session: Session
    _seen_empty = False

    @override
    @staticmethod
    def make_names_data(name: str) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        remote, _, instance = (name or "").rpartition(":")
        if not _INSTANCE_NAME.fullmatch(instance):
            raise InventoryError(f"@incus/{name} names no Incus instance; write @incus/NAME or @incus/REMOTE:NAME.")
        yield f"@incus/{name}", {"incus_instance": instance, "incus_remote": remote or LOCAL}, ["@incus"]

    @property
    def instance(self) -> str:
        return self.data["incus_instance"]

    @override
    def connect(self) -> None:
        try:
            server = find_server(self.data["incus_remote"])
            project = self.data["incus_project"] or self._environment_project() or server.project
            self.rest = connect(server, project or default_lab().project)
            self.session = Session(self.rest, self.instance)
            found = self.rest.find(f"/instances/{self.instance}") if self.rest.info else None
            if found is not None:
                check_architecture(self.rest, str(found["architecture"]), f"The instance {self.instance}")
        except (IncusError, ValueError) as error:
            raise ConnectError(str(error)) from error
        if found is not None and found["status"] != "Running":
            self.host.log(
                f"{self.instance} is {found['status'].lower()}: what has to change in it is only seen once it runs",
                logger.warning,
            )

    @staticmethod
    def _environment_project() -> str | None:
        return default_lab().project if os.environ.get("ANYCASTLAB_LAB") else None

    @override
    def disconnect(self) -> None:
        self.session.close()
        flush(self.instance)

    def see_empty(self) -> None:
        """From now on and until execution, show an empty machine: the instance is going to be made anew."""
        self._seen_empty = True

    @override
    def run_shell_command(
        self,
        command: StringCommand,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Unpack[ConnectorArguments],
    ) -> tuple[bool, CommandOutput]:
        if isinstance(command, ApiQuery):
            return self._guarded(lambda: (0, self._ask(command)))
        control = extract_control_arguments(arguments)
        if control.get("_get_pty"):
            return False, _complaint(
                "The @incus connector gives commands no terminal (_get_pty); use `anycastlab shell`."
            )

        def run() -> tuple[int, CommandOutput]:
            unix_command = make_unix_command_for_host(self.state, self.host, command, **arguments)
            logger.debug("Running command on %s: %s", self.host.name, unix_command)
            if print_input:
                echo(f"{self.host.print_prefix}>>> {unix_command}", err=True)
            result = self.session.execute(
                ["sh", "-c", unix_command.get_raw_value()],
                stdin=stdin_bytes(control.get("_stdin")),
                timeout_s=control.get("_timeout"),
            )
            output = CommandOutput([*_lines("stdout", result.stdout), *_lines("stderr", result.stderr)])
            if print_output:
                for line in output:
                    echo(f"{self.host.print_prefix}{line.line}", err=True)
            return result.exit_code, output

        def run_as_asked() -> tuple[int, CommandOutput]:
            return execute_command_with_sudo_retry(self.host, arguments, run)

        if self._seen_empty and self._preparing:
            return True, CommandOutput([])
        return self._guarded(run_as_asked, control.get("_success_exit_codes"))

    @override
    def put_file(
        self,
        filename_or_io: str | IOBase,
        remote_filename: str,
        remote_temp_filename: str | None = None,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Unpack[ConnectorArguments],
    ) -> bool:
        other_user = arguments.get("_su_user") or arguments.get("_sudo_user")
        as_other = other_user or any(arguments.get(key) for key in ("_sudo", "_doas", "_dzdo"))
        temporary = remote_temp_filename if as_other and remote_temp_filename else files.beside(remote_filename)
        try:
            with get_file_io(cast("str | IO[Any]", filename_or_io)) as source:
                files.create(self.rest, self.instance, temporary, _content(source))
            if as_other:
                placed = self._copy_as_asked(temporary, remote_filename, other_user, arguments)
            else:
                result = self.session.execute(["sh", "-c", _REPLACE, "sh", temporary, remote_filename])
                placed = result.ok
                if not placed:
                    self.host.log(f"{remote_filename} could not be written: {result.complaint}", logger.error)
            if not placed or as_other:
                files.remove(self.rest, self.instance, temporary)
        except IncusError as error:
            self.host.log(f"{remote_filename} could not be written: {error}", logger.error)
            return False
        if placed and print_output:
            echo(f"{self.host.print_prefix}file uploaded: {remote_filename}", err=True)
        return placed

    def _copy_as_asked(
        self, temporary: str, remote_filename: str, user: str | None, arguments: ConnectorArguments
    ) -> bool:
        """Copies the upload to its place with the rights the operation asked for (sudo, su …)."""
        if user:
            owned = self.session.execute(["chown", "--", user, temporary])
            if not owned.ok:
                self.host.log(f"{remote_filename} could not be handed to {user}: {owned.complaint}", logger.error)
                return False
        ok, output = self.run_shell_command(
            StringCommand("cp", QuoteString(temporary), QuoteString(remote_filename)), **arguments
        )
        if not ok:
            self.host.log(f"{remote_filename} could not be written: {output.stderr}", logger.error)
        return ok

    @override
    def get_file(
        self,
        remote_filename: str,
        filename_or_io: str | IOBase,
        remote_temp_filename: str | None = None,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Unpack[ConnectorArguments],
    ) -> bool:
        # The server reads with its own rights, which are root's inside the instance: sudo adds nothing.
        try:
            pieces = files.stream(self.rest, self.instance, remote_filename)
            first = next(pieces, b"")  # whether it is there is known before the local file is touched
            with get_file_io(cast("str | IO[Any]", filename_or_io), "wb") as target:
                for piece in chain((first,), pieces):
                    target.write(piece)
        except IncusError as error:
            if not self._shows_empty(error):
                self.host.log(f"{remote_filename} could not be read: {error}", logger.error)
            return False
        if print_output:
            echo(f"{self.host.print_prefix}file downloaded: {remote_filename}", err=True)
        return True

    # ------------------------------------------------------------------------------------------------------------------

    def _guarded(
        self, run: Callable[[], tuple[int, CommandOutput]], success_exit_codes: Iterable[int] | None = None
    ) -> tuple[bool, CommandOutput]:
        try:
            code, output = run()
        except IncusError as error:
            if self._shows_empty(error):
                return True, CommandOutput([])
            return False, _complaint(str(error))
        return code in (success_exit_codes or (0,)), output

    @property
    def _preparing(self) -> bool:
        return not self.state.is_executing

    def _shows_empty(self, error: IncusError) -> bool:
        return self._preparing and isinstance(error, MissingError | NotRunningError)

    def _ask(self, query: ApiQuery) -> CommandOutput:
        parameters = dict(query.parameters)
        # The lab's own project may not exist yet; and what is asked of another one is the connection's to say.
        project = parameters.pop("project", self.rest.project)
        rest = self.rest if project == self.rest.project else self.rest.in_project(project)
        answer = rest.find(query.path or "/", **parameters)
        return CommandOutput([] if answer is None else [OutputLine("stdout", json.dumps(answer))])


def stdin_bytes(stdin: object) -> bytes | None:
    """pyinfra's `_stdin` as bytes: text and lines each end with a newline, bytes go as they are."""
    if stdin is None or stdin == "":
        return None
    if isinstance(stdin, bytes):
        return stdin
    if hasattr(stdin, "read"):
        content = stdin.read()
        return content if isinstance(content, bytes) else str(content).encode()
    lines = [stdin] if isinstance(stdin, str) else list(cast("Iterable[str]", stdin))
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).encode()


def _content(source: IO[Any]) -> bytes | IO[bytes]:
    """An open binary file is streamed; anything else is read."""
    if hasattr(source, "fileno") and "b" in getattr(source, "mode", ""):
        return source
    content = source.read()
    return content.encode() if isinstance(content, str) else content


def _lines(name: str, output: bytes) -> list[OutputLine]:
    if not output:
        return []
    # Lossless for text; bytes that are no UTF-8 stay visible and printable.
    text = output.decode("utf-8", "backslashreplace").removesuffix("\n")
    return [OutputLine(name, line) for line in text.split("\n")]


def _complaint(sentence: str) -> CommandOutput:
    return CommandOutput([OutputLine("stderr", sentence)])
