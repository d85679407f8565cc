"""What is read over a shell in a run of pyinfra, facts and else, between marks (see `shell_answer`)."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyinfra import context
from pyinfra.api import FactBase, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.exceptions import ConnectError

from anycastlab.shell_answer import ShellError, answer, marked

if TYPE_CHECKING:
    from pyinfra.api.host import Host

T = TypeVar("T")


def asked(script: str) -> StringCommand:
    """What the `command` of a `ShellFact` returns for `script`."""
    return StringCommand(marked(script))


class ShellFact(FactBase[T]):
    """`command` returns what `asked` makes; `read` gets the lines that its script printed and nothing else."""

    def process(self, output: list[str]) -> T:
        lines = list(answer(output, _name()).lines)
        return self.read(lines) if lines else self.default()

    @abstractmethod
    def read(self, output: list[str]) -> T: ...


def way_to(host: Host) -> dict[str, Any]:
    """How commands run on a machine, as the inventory says: with sudo where a board's user is not root."""
    arguments, _ = pop_global_arguments(host.state, host, {})
    return {key: value for key, value in arguments.items() if key in CONNECTOR_ARGUMENT_KEYS}


def run_on(host: Host, argv: Sequence[str]) -> tuple[bool, str]:
    """Run a command on a machine during another's operation: whether it succeeded; what it printed, or why not.

    Also when `--limit` left that machine out: then nobody has connected to it.
    """
    if not host.connected:
        try:
            host.connect(show_errors=False, raise_exceptions=True)
        except ConnectError as error:
            return False, str(error)
    ok, output = host.run_shell_command(asked(shlex.join(argv)), **way_to(host))
    if not ok:
        return False, output.stderr
    try:
        return True, "\n".join(answer(output.stdout_lines, host.name).lines)
    except ShellError as error:
        return False, str(error)


def _name() -> str:
    """The machine that is asked; facts are also read outside of a run, in tests."""
    return str(context.host.name) if context.ctx_host.isset() else "the machine"
