"""A terminal, or one command, on an instance: hands over to Incus' own client, which knows terminals and signals."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from .connector import IncusConnector
from .errors import IncusError, MissingError, NotRunningError
from .rest import Rest

if TYPE_CHECKING:
    from pyinfra.api.host import Host

# bash where it is installed, as a login shell so that /etc/profile is read.
LOGIN_SHELL = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l")

# Incus says "Command not found" and not which; a shell names it, and is gone once it has found it.
_NAMING = ("sh", "-c", 'exec "$@"', "sh")


def run_shell(
    host: Host, command: Sequence[str], replace_process: Callable[[str, list[str]], object] = os.execvp
) -> int:
    """Becomes `incus exec` of `command` (a login shell when empty) on the instance of an `@incus` host.

    Standard input, output and the exit code are those of the command. Returns only when `replace_process` does.
    """
    connector = host.connector
    if not isinstance(connector, IncusConnector):
        raise IncusError(f"{host.name} is no Incus instance.", "Log in to it the way you always do (ssh).")
    _require_running(connector.rest, connector.instance)
    if shutil.which("incus") is None:
        raise IncusError("Incus' client is not installed on this machine.", "Install incus-client.")
    argv = client_command(connector.rest, connector.instance, [*_NAMING, *command] if command else LOGIN_SHELL)
    sys.stdout.flush()
    sys.stderr.flush()
    replace_process(argv[0], argv)
    return 0


def client_command(rest: Rest, instance: str, command: Sequence[str]) -> list[str]:
    """The `incus exec` command line; the remote is always named, for the user's default may be another."""
    project = ["--project", rest.project] if rest.project else []
    return ["incus", "exec", *project, f"{rest.server.name}:{instance}", "--", *command]


def _require_running(rest: Rest, instance: str) -> None:
    found = rest.find(f"/instances/{quote(instance)}")
    if found is None:
        raise MissingError(
            f"There is no instance {instance} in project {rest.project} on {rest.server}.", "`anycastlab up` makes it."
        )
    if found["status"] != "Running":
        raise NotRunningError(f"{instance} is {found['status'].lower()}.", "`anycastlab up` starts it.")
