"""What a run of a scenario must come to, as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Expect:
    """What a run must come to. None: not judged. Times are seconds.

    `outage_detections` is in units of BFD's detection time; one interval between queries is always added to it, for
    that is the resolution of the measurement.
    """

    lost_most: int | None = None
    lost_least: int | None = None  # negative controls: without the protection the loss must show
    servfail_most: int | None = None
    wrong_most: int | None = 0
    outage_most_s: float | None = None
    outage_detections: float | None = None
    outage_least_s: float | None = None
    withdrawn_within_s: float | None = None
    returned_within_s: float | None = None
    never_withdrawn: bool = False
    stays_withdrawn: bool = False  # a node that was withdrawn by the fault is not back before it is undone
    # Somebody who is no node may answer once the fault is there, such as the last resort. Else a run in which anybody
    # does is void: it measured another resolver.
    others_answer: bool = False
    clean_kinds: tuple[str, ...] = ()  # kinds of names that must all be answered throughout
    failing_kinds: tuple[str, ...] = ()  # kinds that must all fail while the fault holds
    lost_least_of: Mapping[str, int] = field(default_factory=dict)  # kind -> failures a control must show of it
    clean_from_s: float | None = None  # so long after the fault began nothing may be lost any more
