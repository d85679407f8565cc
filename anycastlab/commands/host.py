"""`anycastlab setup` and `anycastlab doctor`: this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from anycastlab.commands.options import json_option
from anycastlab.exit_codes import ERROR, OK
from anycastlab.lab import machines

if TYPE_CHECKING:
    from anycastlab.host.doctor import Finding
    from anycastlab.incus.spec import Lab


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--show-undo", is_flag=True, help="Only show the commands that take earlier set-ups back.")
def setup(yes: bool, show_undo: bool) -> int:
    """Install and start what the lab needs on this machine; says what, and asks on a terminal."""
    from anycastlab.host import perform, undo_record

    if show_undo:
        for line in undo_record.lines():
            click.echo(line)
        return OK
    perform.run(yes=yes, say=click.echo)
    return OK


def _in_its_place(lab: Lab) -> list[Finding]:
    """What stands where the lab's project and bridges belong, and is somebody else's."""
    from anycastlab.errors import AnycastlabError
    from anycastlab.host.doctor import Finding, Severity
    from anycastlab.incus.labs import foreign
    from anycastlab.incus.rest import connect

    try:
        found = foreign(connect(None, lab.project), lab)
    except AnycastlabError:
        return []  # no daemon: the other checks say so
    return [Finding(Severity.ERROR, error.problem, error.hint) for error in found]


def _in_the_client(lab: Lab) -> list[Finding]:
    """What only shows inside the lab, once it is up: whether DNS is intercepted between client and nodes."""
    from anycastlab.errors import AnycastlabError
    from anycastlab.host.interception import intercepted
    from anycastlab.incus.exec import execute
    from anycastlab.incus.rest import connect
    from anycastlab.status.asking import LAB_CLIENT

    try:
        rest = connect(None, lab.project)
        client = rest.find(f"/instances/{LAB_CLIENT}")
        if client is None or client["status"] != "Running":
            return []
    except AnycastlabError:
        return []  # no daemon yet: the other checks say so

    def run(argv: Sequence[str]) -> tuple[int, str]:
        result = execute(rest, LAB_CLIENT, argv, timeout_s=10)
        return result.exit_code, result.text

    finding = intercepted(run)
    return [finding] if finding else []


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Say in a sentence each what on this machine would keep the lab from working. Exit 1 if anything would."""
    from anycastlab.host import doctor as checks

    lab = machines.current()
    findings = (
        _in_its_place(lab) + _in_the_client(lab) + checks.run((lab.api_port, lab.api_port + 1), lab_project=lab.project)
    )
    if as_json:
        click.echo(json.dumps([{**vars(finding), "severity": finding.severity.value} for finding in findings]))
    else:
        for finding in findings:
            click.echo(str(finding))
        if not findings:
            click.echo("Nothing on this machine is in the lab's way.")
    return ERROR if checks.fatal(findings) else OK
