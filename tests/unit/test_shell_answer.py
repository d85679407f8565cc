"""An answer is what stands between the marks, whatever the login shell says before and after."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pyinfra.api import Config, Inventory, State, StringCommand
from pyinfra.connectors.util import CommandOutput, OutputLine

from anycastlab.node.facts import HasAddressFact, NodeFact, ServingFact, SessionFact
from anycastlab.shell_answer import BEGIN, END, Answer, ShellError, answer, marked
from anycastlab.shell_fact import run_on


def said(script: str, bashrc: str, tmp_path: Path) -> list[str]:
    """What comes back from a shell that reads `bashrc` first, as bash does when sshd starts it."""
    startup = tmp_path / "bashrc"
    startup.write_text(bashrc)
    argv = ["bash", "--norc", "-c", f'. {startup}; sh -c "$1"', "bash", marked(script)]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.parametrize(
    "bashrc",
    [
        "",
        "echo Welcome",
        "printf 'no line feed'",
        "echo Welcome; echo; echo back",
        "trap 'echo bye' EXIT",
        "printf '\\033[31m'; trap 'printf bye' EXIT; echo drained; echo serving; echo present 1",
        "exec 2>&1; set -x",
    ],
)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo a; echo b", Answer(("a", "b"), 0)),
        ("printf a", Answer(("a",), 0)),
        ("printf 'a\\n\\n'", Answer(("a", ""), 0)),
        ("true", Answer((), 0)),
        ("echo a; exit 7", Answer(("a",), 7)),
        ("echo a # remark", Answer(("a",), 0)),
    ],
)
def test_greetings_are_no_part_of_an_answer(tmp_path: Path, bashrc: str, script: str, expected: Answer) -> None:
    assert answer(said(script, bashrc, tmp_path), "node01") == expected


@pytest.mark.parametrize(
    ("bashrc", "named"),
    [
        ("echo Please use the other host; exit 0", '"Please use the other host"'),
        ("exit 0", "said nothing"),
        ("exec echo hello", '"hello"'),
        ("printf '\\033]0;title\\007x\\n'; exit", '" ]0;title x"'),
    ],
)
def test_a_shell_that_does_something_else_is_refused_by_its_own_words(tmp_path: Path, bashrc: str, named: str) -> None:
    with pytest.raises(ShellError) as error:
        answer(said("echo a", bashrc, tmp_path), "node01")
    assert "node01" in error.value.problem
    assert named in error.value.problem
    assert ".bashrc" in error.value.hint


def test_an_answer_without_its_end_is_none() -> None:
    with pytest.raises(ShellError, match='said "half"'):
        answer(["anycastlab-answer-begins", "half"], "node01")


def test_lines_of_a_terminal_end_otherwise() -> None:
    lines = ["Welcome\r", "anycastlab-answer-begins\r", "a\r", "\r", "anycastlab-answer-ends 0\r"]
    assert answer(lines, "node01") == Answer(("a",), 0)


def test_facts_are_not_fooled_by_a_greeting() -> None:
    greeting, end = ["drained", "serving", "anycastlab-answer-begins"], ["anycastlab-answer-ends 0", "bye"]
    assert ServingFact().process([*greeting, *end]) is False
    assert ServingFact().process([*greeting, "serving", *end]) is True
    assert SessionFact().process([*greeting, "ab12", *end]) == "ab12"
    assert HasAddressFact().process(["yes", *greeting, *end]) is False
    assert not NodeFact().process(["present\t1", *greeting, *end]).present


def test_a_shell_that_answers_nothing_it_was_asked_fails_the_fact() -> None:
    with pytest.raises(ShellError, match="Welcome"):
        ServingFact().process(["Welcome"])


def test_during_another_machines_operation_a_machine_is_asked_as_the_inventory_says() -> None:
    """FRR's shell is root's: where a board's user is not root, it is asked with sudo here as in a deploy."""
    state = State(Inventory((["192.0.2.13"], {"_sudo": True})), Config())
    host = state.inventory.get_host("192.0.2.13")
    host.connected = True
    asked: dict[str, object] = {}

    def run_shell_command(_command: StringCommand, **way: object) -> tuple[bool, CommandOutput]:
        asked.update(way)
        lines = [BEGIN, "up", f"{END} 0"]
        return True, CommandOutput([OutputLine("stdout", line) for line in lines])

    vars(host)["run_shell_command"] = run_shell_command
    assert run_on(host, ["vtysh", "-c", "show bfd peers"]) == (True, "up")
    assert asked["_sudo"] is True
