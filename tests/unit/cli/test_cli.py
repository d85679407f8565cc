"""Exit codes mean the same everywhere, and no expected failure is a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from anycastlab import cli
from anycastlab.errors import AnycastlabError
from anycastlab.host import perform
from anycastlab.host.errors import HostError


def command_that(action: object) -> click.Command:
    @click.command()
    def probe() -> int:
        if isinstance(action, BaseException):
            raise action
        assert isinstance(action, int)
        return action

    return probe


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (0, 0),
        (2, 2),
        (AnycastlabError("node01 is gone.", "Bring it back."), 1),
        (click.ClickException("no"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=["fine", "pending", "error", "usage", "ctrl-c"],
)
def test_exit_codes(
    action: object, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import anycastlab.commands.probe as module

    monkeypatch.setattr(module, "probe", command_that(action))
    assert cli.run(["probe"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_is_its_sentence_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import anycastlab.commands.probe as module

    monkeypatch.setattr(module, "probe", command_that(AnycastlabError("node01 is gone.", "Bring it back.")))
    cli.run(["probe"])
    assert capsys.readouterr().err == "Error: node01 is gone. Bring it back.\n"


def as_a_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Commands that look at machines replace the standard library's sockets, which must not happen to the tests."""
    program = str(Path(sys.executable).with_name("anycastlab"))
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["status", "--nonsense"], ["drain"], ["status", "--data", "x"], ["up", "--data", "x"]]
)
def test_wrong_use_is_an_error_and_never_taken_for_pending_changes(arguments: list[str]) -> None:
    result = as_a_process(*arguments)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", list(cli._COMMANDS))
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([name, "--help"]) == 0
    assert capsys.readouterr().out


def test_an_inventory_that_is_not_there() -> None:
    result = as_a_process("status", "-i", "inventory/nowhere.py")
    assert result.returncode == 1
    assert "There is no inventory file inventory/nowhere.py." in result.stderr


def test_up_outside_the_products_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert cli.run(["up"]) == 1
    assert "There is no deploy.py in" in capsys.readouterr().err


def test_up_with_an_inventory_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["up", "-i", "inventory/nowhere.py"]) == 1
    assert "There is no inventory file inventory/nowhere.py." in capsys.readouterr().err


def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["statsu"]) == 1
    assert "There is no command 'statsu'. Did you mean status?" in capsys.readouterr().err
    assert cli.run(["nonsense"]) == 1
    assert "There are setup, doctor, up," in capsys.readouterr().err


def test_help_keeps_to_a_narrow_terminal() -> None:
    program = str(Path(sys.executable).with_name("anycastlab"))
    narrow = {**os.environ, "COLUMNS": "40"}
    for command in ([], ["up"], ["phone"], ["report"], ["scenario", "run"], ["router", "restore"]):
        shown = subprocess.check_output([program, *command, "--help"], text=True, env=narrow)
        assert max(map(len, shown.splitlines())) <= 40, shown


def test_set_up_without_any_program_in_path_says_so_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HostError, match=r"The system's programs are not found: PATH is empty\."):
        perform.run(yes=True)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="PATH is /nowhere"):
        perform.run(yes=True)


def test_where_incus_is_gone_nobody_blames_a_group() -> None:
    gone = {**os.environ, "INCUS_SOCKET": "/nowhere/unix.socket"}
    program = str(Path(sys.executable).with_name("anycastlab"))
    for arguments, said in (
        (["doctor"], "There is no Incus daemon where INCUS_SOCKET or INCUS_DIR says: /nowhere/unix.socket."),
        (
            ["shell", "node01", "--", "true"],
            "No Incus daemon listens on this machine (looked for /nowhere/",
        ),
    ):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, env=gone)
        assert done.returncode == 1
        assert said in done.stdout + done.stderr
        assert "group" not in done.stdout
        assert "Traceback" not in done.stderr


# Each writes in another way: click's help, click.echo, rich, and argparse, which says nothing of what it cannot write.
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["setup", "--show-undo"], ["scenario", "list"], ["phone", "--help"]],
    ids=" ".join,
)
def test_output_that_cannot_be_written_is_one_sentence(arguments: list[str]) -> None:
    program = str(Path(sys.executable).with_name("anycastlab"))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: Not all could be written: No space left on device.\n")


@pytest.mark.parametrize("arguments", [["--help"], ["scenario", "show", "kill"]], ids=" ".join)
def test_a_reader_who_has_left_hears_nothing(arguments: list[str]) -> None:
    program = str(Path(sys.executable).with_name("anycastlab"))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([program, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert done.stderr == ""


def test_without_a_standard_output_a_command_does_its_work() -> None:
    program = str(Path(sys.executable).with_name("anycastlab"))
    closed = ["sh", "-c", 'exec "$0" --version >&-', program]
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_standard_streams_that_were_closed_are_no_traceback() -> None:
    program = "from anycastlab.first_moments import complete_streams as c; c(); import sys, pyinfra; sys.stdin.isatty()"
    for closed in ("<&-", ">&-", "<&- >&-"):
        command = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), closed
