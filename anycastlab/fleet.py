"""The machines of an inventory, reached through pyinfra's connectors, for commands that look and do not deploy.

One way to every machine: the same connector, credentials and data as a deploy uses, so `status` cannot see another home
than `up` changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gevent
import pyinfra_cli  # noqa: F401  (patches the standard library for gevent, as pyinfra's own command does)
from pyinfra.api import Config, State
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.context import ctx_state

from anycastlab import first_moments
from anycastlab.errors import AnycastlabError
from anycastlab.inventory_file import read
from anycastlab.inventory_site import from_inventory, with_secrets
from anycastlab.limit import label
from anycastlab.node import layout
from anycastlab.routeros.control import deployed_with
from anycastlab.same_sudo_password import sudo_password_chosen
from anycastlab.shell_answer import ShellError, answer
from anycastlab.shell_fact import asked, way_to
from anycastlab.site import deployed
from anycastlab.site.load import machines_of, require_known_settings
from anycastlab.status import built
from anycastlab.status.answer import Answer
from anycastlab.status.asking import LAB_CLIENT

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from anycastlab.site import Site

T = TypeVar("T")

# Seconds one read-only command may take on a machine; a frozen container must not hang `status`.
READ_TIMEOUT_S = 5


class FleetError(AnycastlabError):
    """The inventory cannot be used, or a machine in it not be reached."""


class Fleet:
    """The hosts of one inventory file. Connections are made when a host is first used."""

    def __init__(self, inventory_file: str, data: Mapping[str, Any] | None = None) -> None:
        if not Path(inventory_file).is_file():
            raise FleetError(
                f"There is no inventory file {inventory_file}.",
                "Run this in the folder with deploy.py, or give --inventory.",
            )
        self._state = State()
        with ctx_state.use(self._state):
            inventory = read(inventory_file, data)
        require_known_settings(inventory)
        first_moments.over()  # what follows may have to be put back
        self._state.init(inventory, _config())
        self.inventory = inventory

    @cached_property
    def site(self) -> Site:
        return from_inventory(self.inventory)

    def look_as_deployed(self) -> list[str]:
        """From now on `site` has the settings that nodes and router were deployed with; says where the files differ.

        A home whose files would be no home with them stays as the files have it.
        """
        read = ["head", "-c", str(deployed.MOST_BYTES), layout.DEPLOYED]
        asked = gevent.spawn(deployed_with, self.site)  # beside the nodes: each may be one that does not answer
        answers = self.run_all({node.name: read for node in self.site.nodes})
        records = {name: deployed.parse(answer.stdout) for name, answer in answers.items() if answer.ok}
        router = asked.get()
        notes = deployed.notes(records, self.site, router)
        if notes:
            with suppress(AnycastlabError):
                self.site = with_secrets(deployed.as_deployed(machines_of(self.inventory), records, self.site, router))
        return notes

    def require_built(self) -> None:
        """Raises an error with one sentence for a lab that is not built, or whose server cannot be asked."""
        built.require_built(self.site)

    def host(self, name: str) -> Host:
        """The host called `name`, by short name (`node01`) or pyinfra's (`@incus/node01`); connected."""
        host: Host
        for host in self.inventory:
            if name in (host.name, label(host)) and not host.name.startswith("@routeros/"):
                try:
                    with ctx_state.use(self._state):
                        host.connect(show_errors=False, raise_exceptions=True)
                except ConnectError as error:
                    raise FleetError(str(error)) from None
                return host
        known = ", ".join(sorted(label(h) for h in self.inventory if not h.name.startswith("@routeros/")))
        raise FleetError(f"The inventory has no machine {name!r}.", f"It has {known}.")

    def run(self, name: str, argv: Sequence[str], timeout_s: float = READ_TIMEOUT_S) -> Answer:
        """Run `argv` on a machine; never raises for a machine that does not answer."""
        try:
            host = self.host(name)
            with ctx_state.use(self._state):
                ok, output = host.run_shell_command(
                    asked(shlex.join(argv)),
                    print_output=False,
                    print_input=False,
                    **{**way_to(host), "_timeout": int(timeout_s)},
                )
        except (ConnectError, PyinfraError, TimeoutError, gevent.Timeout, OSError) as error:
            return Answer(None, stderr=str(error))
        try:
            said = answer(output.stdout_lines, name)
        except ShellError as error:
            if host.name.startswith("@incus/") and not output.stdout_lines:
                # No login shell is in between: where nothing runs, the connector shows an empty machine.
                return Answer(None, stderr=output.stderr or f"The container {name} is not there, or does not run.")
            return Answer(None, stderr=output.stderr if not ok and output.stderr else str(error))
        return Answer(said.code, "\n".join(said.lines), output.stderr)

    def run_plain(self, name: str, argv: Sequence[str]) -> tuple[int | None, str]:
        """Like `run`: exit code and standard output; None and the reason when the machine does not answer."""
        said = self.run(name, argv)
        return said.code, said.stderr if said.code is None else said.stdout

    def run_on_client(self, argv: Sequence[str]) -> tuple[bool, str]:
        """Run `argv` on the lab's client: whether it succeeded, and what it printed or why it failed."""
        said = self.run(LAB_CLIENT, argv, timeout_s=2 * READ_TIMEOUT_S)
        return said.ok, said.stdout if said.ok else said.stderr

    def run_all(self, commands: Mapping[str, Sequence[str]], timeout_s: float = READ_TIMEOUT_S) -> dict[str, Answer]:
        """Run one command on each of several machines at once."""
        answers = in_parallel(lambda name: self.run(name, commands[name], timeout_s), list(commands))
        return dict(zip(commands, answers, strict=True))


def _config() -> Config:
    """With `--same-sudo-password`, the password that is asked for once."""
    return Config(SUDO_PASSWORD=getpass("sudo password: ")) if sudo_password_chosen() else Config()


def in_parallel(work: Callable[[str], T], names: Sequence[str]) -> list[T]:
    """`work` for each name at the same time; results in the order of the names."""
    jobs = [gevent.spawn(work, name) for name in names]
    gevent.joinall(jobs)
    return [job.get() for job in jobs]
