"""What can be done to a lab, as data: so an undo can be written down before its fault is made. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

PowerState = Literal["stop", "start", "freeze", "unfreeze", "restart"]


@dataclass(frozen=True)
class On:
    """Run `argv` on a machine. With `strict`, failing is an error; an undo may find nothing left to undo."""

    machine: str
    argv: tuple[str, ...]
    strict: bool = True
    limit_s: float | None = None


@dataclass(frozen=True)
class OnHost:
    """Run `argv` as root on the machine that carries the lab; `{lab}` in it is the lab's name."""

    argv: tuple[str, ...]
    strict: bool = True


@dataclass(frozen=True)
class Power:
    """Change an instance's state. `force` is the power cut: no shutdown, processes are killed."""

    machine: str
    state: PowerState
    force: bool = True


@dataclass(frozen=True)
class Api:
    """Send one command to the router's API; `{id}` is the id of the row with the comment `tagged` in `menu`."""

    menu: str
    verb: str
    arguments: tuple[tuple[str, str], ...] = ()
    tagged: str | None = None


@dataclass(frozen=True)
class Deploy:
    """Run the deploy itself (or the teardown), with settings changed for it."""

    data: tuple[tuple[str, str], ...] = ()
    file: str = "deploy.py"


Action = On | OnHost | Power | Api | Deploy
_KINDS: dict[str, type[Action]] = {kind.__name__: kind for kind in (On, OnHost, Power, Api, Deploy)}


def to_json(action: Action) -> dict[str, Any]:
    return {"kind": type(action).__name__, **vars(action)}


def from_json(data: dict[str, Any]) -> Action:
    """The action that `to_json` wrote; lists become the tuples they were."""
    fields = {key: _tuple(value) for key, value in data.items() if key != "kind"}
    return _KINDS[data["kind"]](**fields)


def _tuple(value: Any) -> Any:
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
