"""Nothing is destroyed without a yes: a terminal is asked, a script must say so."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from anycastlab import cli
from anycastlab.commands.confirm import confirm, yes_option

WILL = ["node01 will be deleted with everything in it."]


class Terminal:
    def __init__(self, there: bool) -> None:
        self.isatty = lambda: there


def test_yes_is_neither_asked_nor_shown(capsys: pytest.CaptureFixture[str]) -> None:
    confirm("Delete?", WILL, yes=True)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_it_refuses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(False))
    with pytest.raises(click.ClickException, match=r"no terminal to ask on, so nothing was changed\. Add -y"):
        confirm("Delete?", WILL, yes=False)
    assert WILL[0] in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_is_shown_what_goes_and_asked(typed: str, code: int) -> None:
    program = "from anycastlab.commands.confirm import confirm\nconfirm('Delete?', ['node01 goes.'], yes=False)\n"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.write(ours, typed.encode())
    _, said = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert said.index("node01 goes.") < said.index("Delete? [y/N]")
    assert process.returncode == code


@pytest.mark.parametrize("arguments", [["down", "--help"], ["router", "restore", "--help"]])
def test_what_destroys_can_be_told_not_to_ask(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == 0
    assert "-y, --yes" in capsys.readouterr().out


def test_the_option_is_one() -> None:
    @click.command()
    @yes_option
    def command(yes: bool) -> int:
        return int(yes)

    assert command.main(["-y"], standalone_mode=False) == 1


def test_clean_lab_says_yes_for_the_person_who_typed_it() -> None:
    assert "anycastlab down -y" in Path("Makefile").read_text(encoding="utf-8")
