"""The `anycastlab` command. Each subcommand lives in a module of `anycastlab.commands` and is imported when it is used.

Exit codes, everywhere: 0 fine, 1 error (a wrong option too), 2 changes pending or not healthy, 130 on Ctrl-C.
"""

from __future__ import annotations

import difflib
import errno
import shutil
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

from anycastlab import __version__, first_moments, standard_output
from anycastlab.exit_codes import ERROR, INTERRUPTED, OK

# subcommand -> (module, its one-line help, shown without importing the module)
_COMMANDS = {
    "setup": ("host", "Install and start what the lab needs on this machine."),
    "doctor": ("host", "Say what on this machine would keep the lab from working."),
    "up": ("deploy", "Build the home or lab, or bring it to what the inventory says."),
    "plan": ("deploy", "Show what `up` would change, router included; exit 2 if anything."),
    "down": ("deploy", "Remove what `up` made, and nothing else."),
    "status": ("status", "Show nodes, router and service as they are now."),
    "shell": ("shell", "Run a command, or a shell, on a machine of the lab."),
    "probe": ("probe", "Show what each node's health probe thinks."),
    "drain": ("probe", "Take a node out of service; survives its reboot."),
    "undrain": ("probe", "Put a drained node back into service."),
    "router": ("router", "The router alone: plan, verify, restore a backup."),
    "phone": ("phone", "Ask DNS like a household, on a fixed schedule."),
    "scenario": ("scenario", "Break the lab on purpose and measure what was felt."),
    "report": ("report", "Tables and a page from recorded scenario runs."),
}
# They import pyinfra when they run; `Fleet` says when that is done.
_REACHES_MACHINES = ("status", "probe", "drain", "undrain", "router", "shell", "down")


_FULL = (errno.ENOSPC, errno.EDQUOT)
_LIKENESS = 0.6  # of 1: how much of a mistyped command must be right for a suggestion
_WIDEST_HELP = 110  # columns


def _help_width() -> int:
    # click's own choice is never narrower than 50 columns.
    return min(shutil.get_terminal_size().columns - 2, _WIDEST_HELP)


class _Formatter(click.HelpFormatter):
    """Leaves the text beside an option at least two thirds of a narrow window."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(list(rows), min(col_max, max(self.width // 3, 1)), col_spacing)


click.Context.formatter_class = _Formatter  # for the subcommands', too


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in _COMMANDS:
            close = difflib.get_close_matches(name, _COMMANDS, n=1, cutoff=_LIKENESS)
            hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(_COMMANDS)}."
            raise click.UsageError(f"There is no command {name!r}. {hint}")
        module = import_module(f"anycastlab.commands.{_COMMANDS[name][0]}")
        command = getattr(module, name)
        assert isinstance(command, click.Command)
        if name not in _REACHES_MACHINES:
            first_moments.over()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "terminal_width": _help_width()})
@click.version_option(__version__, prog_name="anycastlab")
def cli() -> None:
    """Home DNS failover as code, measured."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a subcommand and turns every expected failure into one sentence and an exit code."""
    output = standard_output.take()
    code = run(arguments)
    trouble = output.finish() if output else None
    # What could not be written is no success, whatever the command made of it; one that told it itself has said ERROR.
    if isinstance(trouble, standard_output.Unwritable) and code != ERROR:
        code = _tell_unwritable(trouble)
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    try:
        result: Any = cli.main(args=arguments, prog_name="anycastlab", standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return ERROR
    except (KeyboardInterrupt, click.Abort):
        click.echo("Stopped by Ctrl-C.", err=True)
        return INTERRUPTED
    except standard_output.Unwritable as error:
        return _tell_unwritable(error)
    except BrokenPipeError:
        # The reader (such as `head`) has seen enough; a traceback at exit would help nobody.
        sys.stderr.close()
        return OK
    except OSError as error:
        if error.errno not in _FULL:
            raise
        return _tell_unwritable(error)
    except Exception as error:
        # Importing here keeps `anycastlab --help` free of pyinfra's start-up time. Its errors are ours' base, and
        # sentences as well.
        from pyinfra.api.exceptions import PyinfraError

        if not isinstance(error, PyinfraError):
            raise
        return _tell(str(error))
    return result if isinstance(result, int) else OK


def _tell(error: str) -> int:
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {error}", err=True)
    return ERROR


def _tell_unwritable(error: OSError) -> int:
    return _tell(f"Not all could be written: {error.strerror}.")
