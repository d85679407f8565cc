"""What is known of a run from its messages, and what is said at its end. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from anycastlab.outside_text import without_numbers
from anycastlab.run.messages import (
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
)

# What a machine is doing, for a person: the last part of an operation's name.
_DOING = {
    "Base image": "base image",
    "Instance": "container",
    "Configure": "configuring",
    "Withdraw": "taking it out of service",
    "announced": "waiting until the router has its route",
}
_STAGES = {"connect": "connecting", "look": "looking", "work": "looking"}


@dataclass
class Machine:
    """One machine in this run. Times are of the run's clock, in seconds."""

    name: str
    doing: str = ""
    since: float = 0.0
    detail: str = ""
    """The newest line that was said about it."""
    summaries: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    changed: bool = False
    failed: bool = False
    errors: list[str] = field(default_factory=list)
    began_at: float = 0.0
    seconds: float = 0.0
    """How long its changes took."""


class Story:
    """The run so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.machines: dict[str, Machine] = {}
        self.stage = "connect"
        self.warnings: list[str] = []
        self.errors: list[str] = []
        """What ended the run and belongs to no machine."""
        self.outcome = ""
        self.closings: list[str] = []
        self.planned: Planned | None = None
        self.finished: Finished | None = None

    def take(self, message: Message) -> None:
        """Take note of a message."""
        match message:
            case Machines(names):
                self.machines = {name: Machine(name) for name in names}
            case Stage(name):
                self.stage = name
                for machine in self.machines.values():
                    machine.doing = _STAGES[name]
            case Begun(name, operation):
                machine = self.machine(name)
                machine.doing, machine.detail, machine.began_at = doing(operation), "", self._clock()
            case Ended(name, _, ok, changed):
                self._ended(self.machine(name), ok=ok, changed=changed)
            case Change(name, summary, details):
                self.machine(name).summaries.append(summary)
                self.machine(name).details += details
            case Said():
                self._said(message)
            case Outcome(words):
                self.outcome = words
            case Closing(text):
                if text not in self.closings:
                    self.closings.append(text)
            case Planned(pending):
                self.planned = message
                for name, operations in pending.items():
                    self.machine(name).pending = operations
            case Finished():
                self.finished = message
            case _:
                pass

    def machine(self, name: str) -> Machine:
        """What is known of a machine."""
        return self.machines.setdefault(name, Machine(name))

    def changed(self) -> list[Machine]:
        """Machines that were changed, in order."""
        return [machine for machine in self.machines.values() if machine.changed]

    def pending(self) -> list[Machine]:
        """Machines that a run would change, in order."""
        return [machine for machine in self.machines.values() if machine.pending]

    def elapsed(self, machine: Machine) -> float:
        """Seconds since the machine's present operation began."""
        return self._clock() - machine.began_at if machine.began_at else 0.0

    def failures(self) -> list[str]:
        """Every error once, the machines it happened on in front; in the order of the machines."""
        by_text: dict[str, list[str]] = {}
        for machine in self.machines.values():
            if machine.errors:
                by_text.setdefault("\n".join(dict.fromkeys(machine.errors)), []).append(machine.name)
        said = [self._attributed(text, names) for text, names in by_text.items()]
        silent = [m.name for m in self.machines.values() if m.failed and not m.errors]
        if silent:
            said.append(f"{', '.join(silent)}: failed without a word; `-v` shows every step.")
        return list(dict.fromkeys([*self.errors, *said]))

    def _attributed(self, text: str, names: list[str]) -> str:
        everywhere = len(names) > 1 and len(names) == len(self.machines)
        named = len(names) == 1 and text.startswith((f"{names[0]} ", f"{names[0]}:"))
        return text if everywhere or named else f"{', '.join(names)}: {text}"

    def _ended(self, machine: Machine, *, ok: bool, changed: bool) -> None:
        if changed or not ok:
            machine.seconds += self.elapsed(machine)
        machine.doing, machine.detail, machine.began_at = "", "", 0.0
        machine.changed |= changed
        machine.failed |= not ok

    def _said(self, said: Said) -> None:
        words = without_numbers(said.text)
        match said.level:
            case "info" if said.machine:
                self.machine(said.machine).detail = said.text.strip()
            case "warning":
                text = words if not said.machine or said.machine in words else f"{said.machine}: {words}"
                if text not in self.warnings:
                    self.warnings.append(text)
            case "error":
                (self.machine(said.machine).errors if said.machine else self.errors).append(words)
            case _:
                pass


def doing(operation: str) -> str:
    """What pyinfra's operation is called for a person."""
    last = operation.rpartition("| ")[2].strip()
    return _DOING.get(last, last)


def closing(story: Story, done: str = "changed") -> str:
    """The last sentence: who answers, and what was changed."""
    names = [machine.name for machine in story.changed()]
    changes = f"{done}: {', '.join(names)}" if names else f"nothing {done}"
    return sentence([story.outcome, changes] if story.outcome else [changes])


def sentence(parts: Iterable[str]) -> str:
    """Parts without full stops as one sentence."""
    text = "; ".join(part.rstrip(".") for part in parts)
    return f"{text[:1].upper()}{text[1:]}."
