"""From what is wanted to what is so: link, FRR's table, and what to do when they do not follow. Pure.

Downwards: link down; if the router is still told about the address after `gone_s`, shut the BGP neighbours down; if
that shows no effect either (bgpd frozen, or zebra and bgpd), call root for help: FRR is killed, its sessions close.
The same is done to a FRR whose neighbours had to be shut down and which still has the route: it sees the link no more.
Upwards: link up; if FRR does not know the address after `present_s` (zebra frozen) or does not answer, the same help.
A route that FRR has but cannot tell anybody (the router is away) is nothing to be cured here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from anycastlab.probe.config import Effect


class Route(enum.Enum):
    """What FRR says about the service address."""

    TOLD = "told"  # sent to a neighbour
    KNOWN = "known"  # in bgpd's table, sent to nobody
    ABSENT = "absent"  # not in the table, or bgpd is not running (then its sessions are closed as well)
    FROZEN = "frozen"  # bgpd does not answer in time, or bfdd does not while nobody is told
    HIDDEN = "hidden"  # this probe may not look (rights): reported, never acted upon


@dataclass(frozen=True)
class SetLink:
    up: bool


@dataclass(frozen=True)
class ShutNeighbors:
    """`shut` False takes it back."""

    shut: bool


@dataclass(frozen=True)
class CallForHelp:
    """Ask root to kill FRR and start it afresh; `up` is what the link must be then."""

    up: bool
    text: str


Step = SetLink | ShutNeighbors | CallForHelp


class Follower:
    """Call `steps` whenever something was learned and on every tick; carry out what it returns, in order."""

    def __init__(self, config: Effect, now: float, shut: bool = False) -> None:
        self._config = config
        self.wanted = False
        self.wanted_since = now
        self.link_up: bool | None = None
        self.route = Route.ABSENT
        self.shut = shut
        """The neighbours were shut down by this probe (also by an earlier run of it)."""
        self._route_at = float("-inf")
        self._bad_since: float | None = None  # since when the route does not follow
        self._came_down = False  # wanted down after having been wanted up: every tenth of a second counts
        self._was_settled = False
        self._shut_at = now
        self._helped_at = float("-inf")
        self._link_set_at = float("-inf")

    def want(self, up: bool, now: float) -> None:
        if up != self.wanted:
            self.wanted, self.wanted_since = up, now
            self._bad_since = None
            self._came_down = not up
            self._was_settled = False
            self._link_set_at = float("-inf")

    def saw_link(self, up: bool | None) -> bool:
        """The link's state, None when it does not exist. True when it went down although it was wanted and up."""
        before, self.link_up = self.link_up, up
        return bool(self.wanted and before and not up)

    def saw_route(self, route: Route, asked_at: float) -> None:
        """A look that began before the last change of mind tells nothing about it."""
        if asked_at >= self.wanted_since:
            self.route, self._route_at = route, asked_at
            self._was_settled = self._was_settled or self.settled

    @property
    def settled(self) -> bool:
        """Link and FRR are as wanted. A link that does not exist is down."""
        if self._route_at < self.wanted_since or bool(self.link_up) is not self.wanted:
            return False
        return self.route is Route.TOLD if self.wanted else self.route in (Route.ABSENT, Route.KNOWN)

    def announced(self, now: float) -> bool:
        """The router is being told, as of a look that is no older than two turns."""
        return self.wanted and self.settled and now - self._route_at <= 2 * self._config.watch_s + self._config.answer_s

    def steps(self, now: float) -> list[Step]:
        steps: list[Step] = []
        if self.link_up is not None and self.link_up != self.wanted and now - self._link_set_at >= self._config.poll_s:
            self._link_set_at = now
            steps.append(SetLink(self.wanted))
        if self.wanted and self.shut:
            self.shut = False
            steps.append(ShutNeighbors(False))
        if self._follows():
            self._bad_since = None
            return steps + self._still_there(now)
        if self._bad_since is None:
            self._bad_since = max(self.wanted_since, now) if self._route_at >= self.wanted_since else self.wanted_since
        late = now - self._bad_since
        return steps + (self._late_up(late, now) if self.wanted else self._late_down(late, now))

    def _still_there(self, now: float) -> list[Step]:
        """Shut neighbours hide it, but a FRR that keeps the route of a link that is down sees the link no more."""
        if self.wanted or not self.shut or self.route is not Route.KNOWN:
            return []
        if now - self._shut_at < self._config.shutdown_s:
            return []
        return self._help(now, "link down, but the route is still in FRR's table; only its neighbours are shut down")

    def _follows(self) -> bool:
        """Nothing that could be cured is wrong with the route."""
        if self.route is Route.HIDDEN:
            return True
        if self._route_at < self.wanted_since:
            return False
        if self.wanted:
            return self.route in (Route.TOLD, Route.KNOWN)
        if self.route is Route.FROZEN and self._was_settled:
            return True  # it was seen to be gone; a bgpd that froze later has nothing to take back
        return self.route in (Route.ABSENT, Route.KNOWN)

    def _late_down(self, late: float, now: float) -> list[Step]:
        urgent = self._came_down or self.route is Route.TOLD
        if late < (self._config.gone_s if urgent else self._config.present_s):
            return []
        if self._route_at < self.wanted_since and late < self._config.gone_s + 2 * self._config.answer_s:
            return []  # nobody has looked yet: the probe was late, not FRR
        if now - self._helped_at < self._config.present_s:
            return []  # help is on its way; a FRR that is just starting needs no further orders
        if not self.shut:
            self.shut, self._shut_at = True, now
            return [ShutNeighbors(True)]
        if now - self._shut_at < self._config.shutdown_s:
            return []
        return self._help(now, f"link down, but FRR still holds the route ({self.route.value}) after {late:.1f} s")

    def _late_up(self, late: float, now: float) -> list[Step]:
        if not self.link_up:
            self._bad_since = now  # FRR announces what the link says, and no fresh one would raise or make it
            return []
        if late < self._config.present_s:
            return []
        return self._help(now, f"link up, but FRR does not have the route ({self.route.value}) after {late:.1f} s")

    def _help(self, now: float, text: str) -> list[Step]:
        if now - self._helped_at < self._config.restart_every_s:
            return []
        self._helped_at = now
        self.shut = False  # a fresh FRR knows nothing of it
        return [CallForHelp(self.wanted, text)]
