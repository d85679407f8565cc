"""The working process: pyinfra with our deploy files, as its own command would run it, and every step told.

It is pyinfra's own command line that is parsed (so `config.py` finds its options), pyinfra's own functions that work;
only what it prints is another matter.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import click
import gevent
import pyinfra
import pyinfra_cli  # noqa: F401  (patches the standard library for gevent, as pyinfra's own command does)
from pyinfra import logger
from pyinfra.api import Config, State
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operations import run_ops
from pyinfra.api.output import set_echo, set_formatter
from pyinfra.api.state import BaseStateCallback, StateStage
from pyinfra.connectors import ssh_util
from pyinfra.connectors import util as connectors_util
from pyinfra.context import ctx_config, ctx_inventory
from pyinfra_cli import cli as its
from pyinfra_cli.log import setup_logging
from pyinfra_cli.prints import build_plan_json, print_results
from pyinfra_cli.util import load_deploy_file

from anycastlab import tell
from anycastlab.errors import AnycastlabError
from anycastlab.exit_codes import INTERRUPTED
from anycastlab.inventory_file import read
from anycastlab.limit import label
from anycastlab.run.limits import CHANNEL_VARIABLE, CLEAR_S
from anycastlab.run.messages import (
    Asking,
    Begun,
    Change,
    Closing,
    Ended,
    Finished,
    Machines,
    Message,
    Outcome,
    Planned,
    Said,
    Stage,
    encode,
)

Send = Callable[[Message], None]

# Where machines stand in what is shown: as the deploy works on them, the router's two halves as one.
_ORDER = ("upstream", "router_machine", "router", "nodes", "clients")
_PREFIX = re.compile(r"\[([^\]\s]+)\]\s+")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# pyinfra's own words for what is told in ours: "Error: executed 0 commands".
_PYINFRAS_VERDICT = "log_error_or_warning"


def main(arguments: Sequence[str]) -> int:
    """Run pyinfra with its own `arguments`, telling on the channel; with its `-v` it also prints as it always does."""
    channel = int(os.environ.pop(CHANNEL_VARIABLE))
    os.set_inheritable(channel, False)

    def send(message: Message) -> None:
        # The channel is a pipe that is read all the time; what is gone cannot be told.
        try:
            os.write(channel, encode(message))
        except BrokenPipeError:
            raise SystemExit(INTERRUPTED) from None

    hub = gevent.get_hub()
    hub.NOT_ERROR = (*hub.NOT_ERROR, PyinfraError)  # it is told; gevent need not print a traceback beside it
    sys.dont_write_bytecode = True
    pyinfra.is_cli = True
    try:
        with its.cli.make_context("pyinfra", list(arguments)) as context:
            ok = _Run(context.params, send).go()
    except click.ClickException as error:
        send(Said("error", "", error.format_message()))
        ok = False
    send(Finished(ok))
    return 0 if ok else 1


class _Run:
    """One run with pyinfra's options."""

    def __init__(self, options: dict[str, Any], send: Send) -> None:
        self._options = options
        self._send = send
        self._labels: dict[str, str] = {}
        self._said_error = False

    def go(self) -> bool:
        """Whether everything succeeded."""
        self._set_up_output()
        state = its._setup_state(self._options["verbosity"], self._options["yes"])
        try:
            self._work(state)
        except (PyinfraError, click.ClickException) as error:
            self._failed(state, error)
        finally:
            if state.initialised:
                disconnect_all(state)
        return not self._said_error and not (state.initialised and state.failed_hosts)

    def _work(self, state: State) -> None:
        options = self._options
        config = self._config()
        data = its._set_override_data(
            options["data"], *(options[f"ssh_{name}"] for name in ("user", "key", "key_password", "port", "password"))
        )
        inventory = read(options["inventory"], data)
        ctx_inventory.set(inventory)
        state.init(inventory, config, initial_limit=its._apply_inventory_limit(inventory, options["limit"]))
        self._know_machines(state)
        state.add_callback_handler(_Steps(self._labels, self._send))
        self._stage(state, StateStage.Connect, "connect")
        connect_all(state)
        self._stage(state, StateStage.Prepare, "look")
        for filename in options["operations"]:
            load_deploy_file(state, filename)
            config.reset_locked_state()
        if options["dry"]:
            self._send(Planned(_pending(state, self._labels), build_plan_json(state)))
            return
        self._stage(state, StateStage.Execute, "work")
        run_ops(state)
        if options["verbosity"]:
            logger.info("--> Results:")
            print_results(state)

    def _config(self) -> Config:
        options, config = self._options, Config()
        ctx_config.set(config)
        with _asking(self._send) if options["same_sudo_password"] else nullcontext():
            set_config = its._set_config(
                config,
                options["config_filename"],
                *(
                    options[name]
                    for name in (
                        *("sudo", "sudo_user", "use_sudo_password", "use_sudo_login", "same_sudo_password", "su_user"),
                        *("dzdo", "dzdo_user", "parallel", "shell_executable", "fail_percent", "yes", "diff"),
                        *("retry", "retry_delay"),
                    )
                ),
            )
        assert isinstance(set_config, Config)
        return set_config

    def _stage(self, state: State, stage: StateStage, name: str) -> None:
        state.set_stage(stage)
        self._send(Stage(name))

    def _know_machines(self, state: State) -> None:
        def place(host: Any) -> tuple[int, str]:
            ranks = [_ORDER.index(group) for group in host.groups if group in _ORDER]
            return (min(ranks, default=len(_ORDER)), label(host))

        for host in state.inventory:
            self._labels[host.name] = label(host)
        shown = [host for host in state.inventory if state.is_host_in_limit(host)]
        self._send(Machines(tuple(dict.fromkeys(label(host) for host in sorted(shown, key=place)))))

    def _failed(self, state: State, error: Exception) -> None:
        """Tell why the run ends, unless the machines that failed have said so."""
        if state.initialised and state.failed_hosts and not isinstance(error, AnycastlabError):
            self._said_error = True
            return  # "Over 0% of hosts failed", "No hosts remaining!"
        wrapped = getattr(error, "exception", None)
        if isinstance(wrapped, Exception) and not isinstance(wrapped, PyinfraError):
            # A bug, ours or in what a person wrote: nothing of it may be hidden.
            sys.stderr.write("".join(traceback.format_exception(wrapped)))
            self._say("error", "", f"{type(wrapped).__name__}: {wrapped}")  # pyinfra's wrapper has no text of its own
            return
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        self._say("error", "", text)

    # What is said ---------------------------------------------------------------------------------------------------

    def _set_up_output(self) -> None:
        for module in (connectors_util, ssh_util):
            vars(module)["getpass"] = self._ask
        tell.listen(self)
        if self._options["verbosity"]:
            set_formatter(click.style)
            set_echo(click.echo)
            setup_logging(logging.INFO)
        else:
            logger.setLevel(logging.INFO)
            logger.propagate = False
        logger.addHandler(_Handler(self._heard))

    def change(self, host: str, summary: str, details: list[str]) -> None:
        """See `tell.Teller`."""
        self._send(Change(self._labels[host], summary, tuple(details)))

    def outcome(self, words: str) -> None:
        """See `tell.Teller`."""
        self._send(Outcome(words))

    def closing(self, sentence: str) -> None:
        """See `tell.Teller`."""
        self._send(Closing(sentence))

    def _heard(self, record: logging.LogRecord) -> None:
        if record.funcName == _PYINFRAS_VERDICT or (record.levelno < logging.WARNING and _is_pyinfras(record)):
            return
        text = _ANSI.sub("", str(record.msg) % record.args if record.args else str(record.msg))
        machine = ""
        if (prefix := _PREFIX.match(text)) and prefix[1] in self._labels:
            machine, text = self._labels[prefix[1]], text[prefix.end() :]
        self._say(_level(record.levelno), machine, text)

    def _say(self, level: str, machine: str, text: str) -> None:
        self._said_error |= level == "error" and not machine
        self._send(Said(level, machine, text))

    def _ask(self, prompt: str) -> str:
        """A password of sudo or a key, asked for in the middle of a run."""
        from getpass import getpass

        with _asking(self._send):
            gevent.sleep(CLEAR_S)
            return getpass(_ANSI.sub("", prompt))


class _Steps(BaseStateCallback):
    """pyinfra's own account of its operations."""

    def __init__(self, labels: dict[str, str], send: Send) -> None:
        self._labels = labels
        self._send = send

    def operation_host_start(self, state: State, host: Any, op_hash: str) -> None:  # type: ignore[override]
        if op_hash in state.ops[host]:
            self._send(Begun(self._labels[host.name], _name(state, op_hash)))

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        for host in state.inventory:
            if op_hash not in state.ops[host] or not (meta := state.ops[host][op_hash].operation_meta).is_complete():
                continue
            name = _name(state, op_hash)
            self._send(
                Ended(self._labels[host.name], name, meta.did_succeed(), meta.did_change() and not _is_check(name))
            )


class _Handler(logging.Handler):
    def __init__(self, heard: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard(record)


@contextmanager
def _asking(send: Send) -> Iterator[None]:
    """While it lasts, a question stands on the terminal."""
    send(Asking(True))
    try:
        yield
    finally:
        send(Asking(False))


def _pending(state: State, labels: dict[str, str]) -> dict[str, list[str]]:
    pending: dict[str, list[str]] = {}
    for op_hash in state.get_op_order():
        name = _name(state, op_hash)
        for host in state.inventory:
            data = state.ops[host].get(op_hash)
            if data is not None and data.operation_meta._maybe_is_change and not _is_check(name):
                pending.setdefault(labels[host.name], []).append(name)
    return pending


def _name(state: State, op_hash: str) -> str:
    return ", ".join(sorted(state.op_meta[op_hash].names))


def _is_check(name: str) -> bool:
    return name.partition(" ")[0] == tell.CHECK


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    return "warning" if number >= logging.WARNING else "info"


def _is_pyinfras(record: logging.LogRecord) -> bool:
    """Whether pyinfra speaks for itself; what is said about a host by `host.log` is ours."""
    inside = f"{os.sep}pyinfra{os.sep}" in record.pathname or f"{os.sep}pyinfra_cli{os.sep}" in record.pathname
    return inside and record.funcName != "log"
