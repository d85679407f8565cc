"""Where the answer to a command begins and ends, in what comes back over a shell.

A login shell may say things of its own before and after: `echo Welcome` in root's `.bashrc`, which Debian gives no
guard, a banner of `/etc/bash.bashrc`, a `trap … EXIT`. So every command whose output is read is put between two marks,
and what stands outside of them is no answer. Where a mark is missing, the shell did something else than it was told;
then nothing may be concluded from what it said, and the error names the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anycastlab.errors import AnycastlabError
from anycastlab.outside_text import one_line

BEGIN: Final = "anycastlab-answer-begins"
END: Final = "anycastlab-answer-ends"
_QUOTED: Final = 120  # characters of a strange line that are repeated to a person


class ShellError(AnycastlabError):
    """A shell said something, but not what it was asked."""


@dataclass(frozen=True)
class Answer:
    """What a marked command printed, and its exit code."""

    lines: tuple[str, ...]
    code: int


def marked(script: str) -> str:
    """`script` with its output between marks; the exit code is that of `script`, which may end by `exit`.

    Each mark begins a line even where a greeting, or the script, ends none.
    """
    return f"printf '\\n{BEGIN}\\n'; (\n{script}\n); code=$?; printf '\\n{END} %s\\n' \"$code\"; exit $code"


def answer(lines: list[str], name: str) -> Answer:
    """The answer in what the shell of the machine `name` printed. Raises ShellError where it cannot be told."""
    lines = [line.rstrip("\r") for line in lines]  # where sudo is set to want a terminal, lines end as a terminal's do
    begins = next((number for number, line in enumerate(lines) if line == BEGIN), None)
    if begins is None:
        raise refused(name, lines, "before it came to what it was asked")
    ends = next((n for n in range(len(lines) - 1, begins, -1) if lines[n].startswith(f"{END} ")), None)
    if ends is None:
        raise refused(name, lines[begins + 1 :], "and the rest of its answer is missing")
    said = lines[begins + 1 : ends]
    # The end of the output's last line is the mark's own line feed.
    return Answer(tuple(said[:-1] if said[-1:] == [""] else said), int(lines[ends].removeprefix(f"{END} ") or -1))


def refused(name: str, lines: list[str], what: str) -> ShellError:
    """The error that names the first of `lines`; `what` says how far the shell came."""
    strange = next((line for line in lines if line.strip()), "")
    said = f'said "{one_line(strange, _QUOTED)}"' if strange else "said nothing"
    return ShellError(
        f"The login shell of {name} {said} {what}.",
        "Find what its user's .bashrc, .profile or /etc/bash.bashrc does where no terminal is, and put it behind "
        '`[ -n "$PS1" ] || return`.',
    )
