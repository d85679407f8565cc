"""`anycastlab setup` and `anycastlab doctor`: this machine."""

from __future__ import annotations

import json

import click

from anycastlab.cli import ERROR, OK
from anycastlab.commands.options import json_option
from anycastlab.lab import machines


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def setup(yes: bool) -> int:
    """Install and start what the lab needs on this machine; says what, and asks on a terminal."""
    from anycastlab.host import perform

    perform.run(yes=yes, say=click.echo)
    return OK


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Say in a sentence each what on this machine would keep the lab from working. Exit 1 if anything would."""
    from anycastlab.host import doctor as checks

    lab = machines.current()
    findings = checks.run((lab.api_port, lab.api_port + 1), lab_project=lab.project)
    if as_json:
        click.echo(json.dumps([{**vars(finding), "severity": finding.severity.value} for finding in findings]))
    else:
        for finding in findings:
            click.echo(str(finding))
        if not findings:
            click.echo("Nothing on this machine is in the lab's way.")
    return ERROR if checks.fatal(findings) else OK
