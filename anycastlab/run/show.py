"""A run on the screen: one live line per machine, or, where there is no terminal, a line per thing that happens."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from anycastlab.run.messages import Asking, Change, Ended, Message, Said
from anycastlab.run.story import Machine, Story, doing

_REFRESHES_PER_S = 8


class Shown(Protocol):
    """Sees every message after the story has taken note of it."""

    def see(self, message: Message) -> None: ...

    def end(self) -> None: ...


def shown(story: Story, *, dry: bool, verbose: bool) -> Shown:
    """What fits where standard error goes; nothing for a run that prints by itself."""
    if not verbose and sys.stderr.isatty():
        return Lively(story)
    return Nothing() if dry or verbose else Lines()


class Nothing:
    """Shows nothing."""

    def see(self, message: Message) -> None:
        pass

    def end(self) -> None:
        pass


class Lines:
    """A line when a change begins, and one when it took a while."""

    def see(self, message: Message) -> None:
        match message:
            case Change(machine, summary):
                _write(f"{machine}: {summary}")
            case Ended(machine, operation, ok, changed) if changed or not ok:
                _write(f"{machine}: {doing(operation)}: {'done' if ok else 'failed'}")
            case Said("info", "", text):
                _write(text.strip())  # the build of the image, which takes minutes
            case _:
                pass

    def end(self) -> None:
        pass


class Lively:
    """One line per machine that tells what it is doing now."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._console = Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots")
        self._live: Live | None = None
        self._about = ""

    def see(self, message: Message) -> None:
        match message:
            case Asking(now):
                self._pause() if now else self._start()
            case Said("info", "", text):
                self._about = text.strip()
            case _ if self._story.machines:
                self._start()

    def end(self) -> None:
        self._pause()
        if changed := self._story.changed():
            for line in summary(changed):
                _write(f"{click.style('✓', fg='green')} {line}")

    def _start(self) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=self._table,
                refresh_per_second=_REFRESHES_PER_S,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _pause(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for column in range(3):
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=1 if column == 2 else None)
        for machine in list(self._story.machines.values()):
            table.add_row(self._mark(machine), machine.name, self._words(machine))
        if self._about:
            table.add_row("", "", Text(self._about, style="dim"))
        return table

    def _mark(self, machine: Machine) -> Spinner | Text:
        if machine.failed:
            return Text("✗", style="red")
        if machine.began_at:
            return self._spinner
        return Text("✓", style="green") if machine.changed else Text("·", style="dim")

    def _words(self, machine: Machine) -> Text:
        if machine.began_at:
            seconds = int(self._story.elapsed(machine))
            parts = (machine.doing, f"{seconds} s" if seconds else "", machine.detail)
            return Text(" · ".join(filter(None, parts)))
        if machine.failed:
            return Text("failed", style="red")
        return Text("changed") if machine.changed else Text(machine.doing, style="dim")


def summary(machines: list[Machine]) -> list[str]:
    """What is done to each machine, a line each."""
    width = max(len(machine.name) for machine in machines)
    lines = []
    for machine in machines:
        words = machine.summaries or list(dict.fromkeys(map(doing, machine.pending)))
        lines.append(f"{machine.name:{width}}  {'; '.join(words)}")
    return lines


def complaints(story: Story, *, verbose: bool) -> None:
    """Warnings and errors, each once. With `-v` pyinfra has said them but for what ended the run before it began."""
    for text in () if verbose else story.warnings:
        _write(f"{click.style('Note:', fg='yellow', bold=True)} {text}")
    for text in story.errors if verbose else story.failures():
        _write(f"{click.style('Error:', fg='red', bold=True)} {text}")


def _write(text: str) -> None:
    # A reader that has gone (`2>&1 | head`) is no reason to break off in the middle of a change.
    with suppress(OSError):
        click.echo(text, err=True)
