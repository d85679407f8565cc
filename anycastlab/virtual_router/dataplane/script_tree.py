"""What a parsed script is made of. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field


class ScriptError(Exception):
    """The script cannot be understood (before anything ran) or failed (while running)."""


@dataclass(frozen=True)
class Text:
    """A literal, or a string with variables: `parts` alternates text and variable names (as `Variable`)."""

    parts: tuple[str | Variable, ...]
    bare: bool = False

    @property
    def literal(self) -> str | None:
        """The text, or None when it has variables in it."""
        texts = [part for part in self.parts if isinstance(part, str)]
        return "".join(texts) if len(texts) == len(self.parts) else None


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Substitution:
    """`[command]`"""

    body: Block


@dataclass(frozen=True)
class Operation:
    """`left operator right`; unary ones (`!`, `-`) have no left side."""

    operator: str
    left: Value | None
    right: Value


@dataclass(frozen=True)
class Block:
    commands: tuple[Command, ...]


Value = Text | Variable | Substitution | Operation | Block


@dataclass(frozen=True)
class Command:
    """`menu` is a path or None for a `:command`; a relative command has the menu of its context."""

    menu: str | None
    verb: str
    positional: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()
    where: Value | None = None
    line: int = field(default=1, compare=False)

    def get(self, name: str) -> Value | None:
        return dict(self.named).get(name)
