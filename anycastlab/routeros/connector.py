"""pyinfra's way to a router: `@routeros/HOST`.

A command is JSON: one API command as a list of words (`["/ip/address/print", "=.proplist=address"]`), or a list of
readings, asked side by side. One command answers with a JSON object per row; several answer with one JSON list of rows
per command, `null` for a menu that does not exist. So facts about a router are ordinary facts. Operations write through
`connection`.

A real router must be there when pyinfra connects. The router of an empty lab is created by the same run: with
`routeros_may_be_absent` connecting never fails, and until the operations run, an unreachable router has empty facts.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from io import IOBase
from typing import TYPE_CHECKING, Any, TypeVar

from pyinfra import logger
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.output import echo
from pyinfra.api.state import StateStage
from pyinfra.connectors.base import BaseConnector, ConnectorData, DataMeta
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import Unpack, override

from anycastlab.outside_text import one_line
from anycastlab.paths import state_dir
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.credentials import credentials
from anycastlab.routeros.errors import NoCredentials, RouterError, RouterUnreachable
from anycastlab.routeros.limits import API_PORT, API_TLS_PORT, APPEAR_INTERVAL_S, APPEAR_TIMEOUT_S
from anycastlab.routeros.reading import read_many
from anycastlab.stored import parse_json

if TYPE_CHECKING:
    from pyinfra.api.arguments import ConnectorArguments
    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

T = TypeVar("T")

_SECRET_WORD = re.compile(r'("=(?:tcp-md5-key|password)=)(?:[^"\\]|\\.)*"')


class RouterOSData(ConnectorData, total=False):
    router_api_host: str | None
    router_api_port: int | None
    router_tls: bool
    router_tls_fingerprint: str | None
    router_user: str
    router_password: str | None
    router_credentials: str | None
    routeros_may_be_absent: bool


class RouterOSConnector(BaseConnector):
    """A RouterOS 7 router over its API."""

    __examples_doc__ = """
    .. code:: shell

        ANYCASTLAB_ROUTER_PASSWORD=… pyinfra @routeros/192.0.2.1 deploy.py --dry
    """

    handles_execution = True

    data_cls = RouterOSData
    data_meta = {  # noqa: RUF012  pyinfra's own shape
        "router_api_host": DataMeta("Address of the API; the name in the inventory if not given"),
        "router_api_port": DataMeta("Port of the API; 8729 with TLS, 8728 without"),
        "router_tls": DataMeta("Whether to use TLS (service api-ssl)", True),
        "router_tls_fingerprint": DataMeta("sha256 of a self-signed certificate, hex"),
        "router_user": DataMeta("API user", "anycastlab"),
        "router_password": DataMeta("For tests only; ANYCASTLAB_ROUTER_PASSWORD or the credentials file otherwise"),
        "router_credentials": DataMeta("Entry of the credentials file; the API's address if not given"),
        "routeros_may_be_absent": DataMeta("The run itself creates this router (lab)", False),
    }

    def __init__(self, state: State, host: Host) -> None:
        super().__init__(state, host)
        self._connection: Connection | None = None
        self._seen = False

    @override
    @staticmethod
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        if not name:
            raise RouterError("@routeros needs a host.", "Write @routeros/192.0.2.1.")
        yield f"@routeros/{name}", {"router_api_host": name}, ["@routeros"]

    @property
    def connection(self) -> Connection:
        """The API session of this host; opened when first used. Raises RouterDenied without credentials."""
        if self._connection is None:
            self._connection = Connection(self._target())
        return self._connection

    @override
    def connect(self) -> None:
        """Logs in, so that a wrong password or address is said before anything is planned."""
        if self.data["routeros_may_be_absent"]:
            return
        try:
            self.connection.open()
        except RouterError as error:
            raise ConnectError(str(error)) from error

    @override
    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @override
    def run_shell_command(
        self,
        command: StringCommand | str,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Unpack[ConnectorArguments],
    ) -> tuple[bool, CommandOutput]:
        del arguments  # sudo, shell, directory … mean nothing on a router
        text = command if isinstance(command, str) else command.get_raw_value()
        if print_input:
            shown = _SECRET_WORD.sub(r'\1***"', text)
            echo(f"{self.host.print_prefix}>>> {shown}", err=True)
        try:
            lines = self._run(*_parse(text))
        except RouterError as error:
            if self._absent_yet(error):
                logger.debug("%s does not exist yet", self.host)
                return True, CommandOutput([])
            return False, CommandOutput([OutputLine("stderr", str(error))])
        if print_output:
            for line in lines:
                echo(f"{self.host.print_prefix}{line}", err=True)
        return True, CommandOutput([OutputLine("stdout", line) for line in lines])

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
        raise RouterError(f"Files are not put on routers ({remote_filename}).", "Use routeros operations.")

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
        raise RouterError(f"Files are not read from routers ({remote_filename}).", "Use routeros facts.")

    # --- inside ------------------------------------------------------------------------------------------------------

    def _target(self) -> Target:
        data = self.data
        host = data["router_api_host"] or self.host.name.removeprefix("@routeros/")
        port = data["router_api_port"] or (API_TLS_PORT if data["router_tls"] else API_PORT)
        if data["router_password"] is not None:
            user, password = data["router_user"], data["router_password"]
        else:
            user, password = credentials(data["router_credentials"] or host, data["router_user"], state_dir())
        return Target(host, port, user, password, data["router_tls"], data["router_tls_fingerprint"])

    def _run(self, commands: list[list[str]], batch: bool) -> list[str]:
        if len(commands) == 1 and not batch:
            return [json.dumps(row) for row in self._patiently(lambda: self.connection.call(*commands[0]))]
        return [json.dumps(rows) for rows in self._patiently(lambda: read_many(self.connection, commands))]

    def _patiently(self, ask: Callable[[], T]) -> T:
        """The first command of a run may wait for a router that its own deploy has just started."""
        give_up = time.monotonic() + (APPEAR_TIMEOUT_S if self._may_appear() else 0)
        while True:
            try:
                answer = ask()
            except RouterUnreachable:
                if time.monotonic() >= give_up:
                    raise
                time.sleep(APPEAR_INTERVAL_S)
            else:
                self._seen = True
                return answer

    def _may_appear(self) -> bool:
        return bool(self.data["routeros_may_be_absent"]) and self._executing and not self._seen

    @property
    def _executing(self) -> bool:
        return self.state.current_stage >= StateStage.Execute

    def _absent_yet(self, error: RouterError) -> bool:
        """Before the operations run, no answer from a router that may not exist is an answer."""
        absent = isinstance(error, RouterUnreachable | NoCredentials)  # its password is made with it
        return absent and self.data["routeros_may_be_absent"] and not self._executing


def _parse(text: str) -> tuple[list[list[str]], bool]:
    """The commands, and whether they came as a list of commands."""
    try:
        parsed = parse_json(text)
    except ValueError as error:
        raise RouterError(
            f"{one_line(text, 60)} is no router command.", 'Write a JSON list: ["/ip/address/print"].'
        ) from error
    if _is_command(parsed):
        return [parsed], False
    if isinstance(parsed, list) and parsed and all(_is_command(one) for one in parsed):
        return parsed, True
    raise RouterError(
        "A router command is a JSON list of words, or a list of such lists.", 'Write ["/ip/address/print"].'
    )


def _is_command(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(word, str) for word in value)
        and value[0].startswith("/")
    )
