"""A scenario as data: what is broken, for how long, who asks meanwhile, and what must come of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anycastlab.report.expect import Expect
from anycastlab.report.run import Proof
from anycastlab.scenarios.actions import Action
from anycastlab.scenarios.timing import Lengths
from anycastlab.site.parts import Layout

if TYPE_CHECKING:
    from anycastlab.scenarios.stage import Stage

Check = Callable[["Stage"], Proof]
"""Looks at the lab while the fault is in force."""


@dataclass(frozen=True)
class Fault:
    """What is done, to whom, how it is undone, and how one knows that it had an effect."""

    what: str
    targets: tuple[str, ...]
    do: tuple[Action, ...]
    undo: tuple[Action, ...] = ()
    proofs: tuple[Check, ...] = ()
    repeat_every_s: float | None = None  # done again and again while it holds, such as a flapping node
    planned: bool = False  # a change of ours, not an accident: nothing may be lost by it
    withdraws: bool = True  # the router must have lost the route through each node it hits, else it hit nothing


@dataclass(frozen=True)
class PhoneUse:
    """How the household asks; see the phone for the words."""

    mix: str = "lab"  # a mix of the phone, or a file of ours in `mixes/`
    protocol: str = "udp"
    one_flow: bool = False
    clients: tuple[str, ...] = ("wire",)
    timeout_s: float | None = None


@dataclass(frozen=True)
class Scenario:
    """One scenario. Its name is its file's, with hyphens, and what it is about is that file's docstring."""

    title: str
    fault: Callable[[Stage], Fault]
    expect: Expect = field(default_factory=Expect)
    phone: PhoneUse = PhoneUse()
    lengths: Lengths | None = None
    quick: Lengths | None = None  # lengths under `--quick`; None: the common ones
    layout: Layout = "routed"
    settings: Mapping[str, Any] = field(default_factory=dict)  # what the lab is deployed with for this scenario
    # Done before the household begins to ask, and undone at the end: a protection that a control takes away.
    prepare: tuple[Action, ...] = ()
    restore: tuple[Action, ...] = ()
    least_nodes: int = 2  # with fewer it would be another experiment
    control: bool = False  # shows what happens without a protection
    in_quick_set: bool = False  # run by `--quick` without names
    # Kinds of names of which some must have been asked while the fault held that no cache can answer; a run without
    # them looks perfect because a cache hid the break.
    uncacheable: tuple[str, ...] = ()
    name: str = ""
    about: str = ""  # the file's docstring, in one line
