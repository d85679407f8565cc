"""Whether this node announces the service address. Pure: time and results go in, orders come out.

Two kinds of reasons to stay out:

* **Its own**: the resolver is dead, is about to stop, or the operator drained the node. Out, whoever else is left.
* **Possibly shared**: silent, wrong, `.lan` lost, slow, unreachable for others (`health.Symptom`). The cause may sit in
  the router, in a blocklist or in a flood, and then every node sees it at once. A node may be out for such a cause only
  while it holds a **promise** from a peer: that peer announces (FRR says so), nothing ails it, it answered the very
  same question when asked directly, and it will not itself leave for a shareable cause while the promise lasts.

Why never all at once: a node that gave a promise does not leave for a shareable cause before the promise ends, and a
node whose promise ends without renewal goes back first. So behind every node that is out for a shareable cause stands
one that announces or that has a reason of its own. Nodes that decide in the same moment ail themselves, and who ails
promises nothing: both stay. Lost messages, dead peers and frozen peers all mean "no promise", which means "announce".
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from anycastlab.probe.config import ProbeConfig
from anycastlab.probe.health import Health, Symptom
from anycastlab.probe.holddown import HoldDownClock

# Seconds before its promise ends that a node goes back: link up and BGP update take 0.2 s.
PROMISE_MARGIN_S = 0.5
# Seconds until the same mind is told again while the announcement stays as it is: a resolver that dies and returns all
# the time, or a node that is held down meanwhile, would fill the journal.
TELL_AGAIN_S = 60.0
# A round of asking ends this many ask timeouts after it began: the last answers must still be counted.
ROUND_SLACK = 1.25


class Cause(enum.Enum):
    """Why the node is in or out, in one word."""

    STARTING = "starting"
    HEALTHY = "healthy"
    DRAINED = "drained"
    STOPPING = "resolver-stopping"
    DEAD = "resolver-dead"
    SILENT = "resolver-silent"
    WRONG = "resolver-wrong"
    LOCAL = "local-path"
    SLOW = "slow"
    OUTSIDE = "unreachable"  # it answers itself, and no other node
    NOBODY_ELSE = "nobody-else"  # something ails it, but no peer can take over
    LOWERED = "lowered"  # something outside the probe took the link down
    HELD = "held-down"  # healthy again, waiting because of earlier changes


OF_SYMPTOM = {
    Symptom.SILENT: Cause.SILENT,
    Symptom.WRONG: Cause.WRONG,
    Symptom.LOCAL: Cause.LOCAL,
    Symptom.SLOW: Cause.SLOW,
    Symptom.OUTSIDE: Cause.OUTSIDE,
}
# A person's will. Neither the way out nor the way back from it counts as flapping; what was counted before stays.
PLANNED = frozenset({Cause.DRAINED, Cause.STOPPING})
# To be out for one of these needs nobody's promise.
OWN_REASONS = frozenset({Cause.STARTING, Cause.DRAINED, Cause.STOPPING, Cause.DEAD, Cause.LOWERED})


@dataclass(frozen=True)
class Ask:
    """Ask every peer: does your resolver answer this question, and will you stay?"""

    number: int
    symptom: Symptom


@dataclass(frozen=True)
class Revoke:
    """Tell these peers that the promise given to them is void."""

    peers: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A change of mind, for people: whether to announce, why, and the figures behind it.

    `news` False: the same was told less than `TELL_AGAIN_S` ago. If it lasts until then, it is told once more.
    """

    at: float
    announce: bool
    cause: Cause
    text: str
    news: bool = True


Order = Ask | Revoke | Change


@dataclass(frozen=True)
class Verdict:
    """What one peer answered to `Ask` number `number`, sent at `sent`. `refused`: the peer's probe itself said no."""

    number: int
    peer: str
    promised: bool
    refused: bool
    sent: float
    why: str = ""


@dataclass
class _Round:
    """One round of asking that is under way."""

    number: int
    symptom: Symptom
    ends: float
    waiting: set[str] = field(default_factory=set)
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return not self.waiting


class Machine:
    """`announce` is what the node wants; `effect` makes it so. Call `decide` after every event and on every tick."""

    def __init__(
        self,
        config: ProbeConfig,
        health: Health,
        now: float,
        history: Iterable[float] = (),
        level: int = 0,
        planned: bool = False,
    ) -> None:
        self._config = config
        self.health = health
        self.hold = HoldDownClock(config.hold_down, history, level)
        self.announce = False
        self.cause = Cause.STARTING
        self.since = now
        self.text = "the first answers are awaited"
        self.drained = False
        self.stopping = False
        self.effective = False
        """FRR announces the address to the router: set from outside."""
        self.held: dict[str, float] = {}
        """Promises received: peer → until when it stays. What lets this node be out for a shareable cause."""
        self.promised: dict[str, float] = {}
        """Promises given: peer → until when."""
        self._round: _Round | None = None
        self._rounds = 0
        self._next_round = now
        self._fruitless = False  # no peer promises anything: the last round said so, or the last promise ended
        self._refusals: dict[str, str] = {}
        self._void: dict[str, float] = {}  # peer → promises asked for before this time are void
        self._left_at = now
        self._own_reason = True  # out for a reason of its own, so the way back is held down
        self._left_for = Symptom.LOCAL  # the shareable cause it left for, when it did
        self.planned = planned
        """The last way out was a person's will, so the way back does not count as a change either."""
        self._told = self._noted = (self.announce, self.cause)
        self._told_at: dict[tuple[bool, Cause], float] = {}

    # Events

    def on_verdict(self, verdict: Verdict) -> None:
        current = self._round
        if current is None or verdict.number != current.number:
            return
        current.waiting.discard(verdict.peer)
        current.answers[verdict.peer] = verdict.why
        if verdict.promised and verdict.sent > self._void.get(verdict.peer, float("-inf")):
            self.held[verdict.peer] = verdict.sent + self._config.guard.promise_s
        elif verdict.refused:
            self._lose(verdict.peer)

    def on_revoked(self, peer: str, now: float) -> None:
        """Also voids a promise that is still on its way: messages overtake each other."""
        self._void[peer] = now
        self._lose(peer)

    def on_stay_request(self, peer: str, symptom: Symptom, now: float) -> tuple[bool, str]:
        """May `peer` rely on this node? True binds this node for `promise_s`."""
        why = self._unfit_to_promise(symptom)
        if why:
            return False, why
        self.promised[peer] = now + self._config.guard.promise_s
        return True, "announcing and healthy"

    def on_lowered(self, now: float) -> None:
        """The link went down and it was not the probe: a stopping or crashed resolver, a deploy, or a person."""
        self.health.start_over(now)
        self._heed_plans(now)
        if self.announce:
            self._turn(False, Cause.LOWERED, "the link was taken down from outside the probe", now)

    def on_ended(self, now: float) -> None:
        """The resolver's process is no more: by plan, if that was said before, or else it crashed."""
        self.health.start_over(now)
        self._heed_plans(now)
        if self.announce:
            self._turn(False, Cause.DEAD, "the resolver's process has ended", now)

    def set_stopping(self, stopping: bool, now: float) -> None:
        if stopping != self.stopping:
            self.stopping = stopping
            self.health.start_over(now)

    # Decision

    def decide(self, now: float) -> list[Order]:
        orders: list[Order] = []
        self._expire(now)
        if self.drained or self.stopping:
            self._heed_plans(now)
        elif self.health.dead(now):
            self._settle(False, Cause.DEAD, f"no resolver: silent for {self.health.silent_for(now):.1f} s", now)
        elif not self.health.known:
            if not self.announce and self.cause not in (Cause.STARTING, Cause.LOWERED, Cause.DEAD):
                self._settle(False, Cause.STARTING, "the first answers are awaited", now)
        elif (symptom := self.health.symptom) is not None:
            orders += self._ailing(symptom, now)
        elif self.health.fit:
            orders += self._well(now)
        orders += self._tell(now)
        if not self.announce and self.promised:
            orders.append(Revoke(tuple(sorted(self.promised))))
            self.promised.clear()
        return orders

    def _tell(self, now: float) -> list[Order]:
        mind = (self.announce, self.cause)
        if self.announce is not self._told[0]:
            self._told_at.clear()
        due = now - self._told_at.get(mind, float("-inf")) >= TELL_AGAIN_S or self.cause in PLANNED
        news = mind != self._told and due
        if not news and mind == self._noted:
            return []
        self._noted = mind
        if news:
            self._told = mind
            self._told_at[mind] = now
        return [Change(now, self.announce, self.cause, self.text, news)]

    def _heed_plans(self, now: float) -> None:
        if self.drained:
            self._settle(False, Cause.DRAINED, "drained", now)
        elif self.stopping:
            self._settle(False, Cause.STOPPING, "the resolver is being stopped on purpose", now)

    def _well(self, now: float) -> list[Order]:
        fine = "resolver, local names and speed are fine"
        wait = self.hold.raise_allowed_at(now) - now
        if self.announce or wait <= 0:
            self._round, self._fruitless = None, False
            self.held.clear()
            self._settle(True, Cause.HEALTHY, fine, now)
            return []
        if self._own_reason:
            self._settle(False, Cause.HELD, f"healthy, but held down for {wait:.1f} s after earlier changes", now)
            return []
        # It left because a peer stays; the wait is no longer than the promise.
        orders = self._next_ask(self._left_for, now)
        if self.held:
            text = f"healthy, but held down for {wait:.1f} s after earlier changes; {self._holders()}"
            self._settle(False, Cause.HELD, text, now)
        elif self._fruitless:
            self._settle(True, Cause.HEALTHY, fine, now)
        return orders

    def _ailing(self, symptom: Symptom, now: float) -> list[Order]:
        if self._round is not None and self._round.symptom is not symptom:
            self._round = None  # what it brings would be the answer to another question
            if self.announce:
                self.held.clear()
        return self._ailing_in(symptom, now) if self.announce else self._ailing_out(symptom, now)

    def _ailing_in(self, symptom: Symptom, now: float) -> list[Order]:
        """Announcing although something is wrong: leave only with a promise in hand, and never while promising."""
        blocked = ""
        if self.promised:
            blocked = f"{', '.join(sorted(self.promised))} relies on this node"
        elif (wait := self.hold.leave_allowed_at(now) - now) > 0:
            blocked = f"too many changes lately, the next one in {wait:.1f} s"
        if blocked:
            self._round = None
            self.held.clear()
            self._settle(True, Cause.NOBODY_ELSE, f"{self._figures(symptom, now)}; {blocked}", now)
            return []
        if self.held:
            self._settle(False, OF_SYMPTOM[symptom], f"{self._figures(symptom, now)}; {self._holders()}", now)
            return []
        orders = self._next_ask(symptom, now)
        if self._fruitless:
            self._settle(True, Cause.NOBODY_ELSE, f"{self._figures(symptom, now)}; {self._nobody()}", now)
        return orders

    def _ailing_out(self, symptom: Symptom, now: float) -> list[Order]:
        """Withdrawn and something is wrong: stay out while a peer stays in, else somebody must serve."""
        orders = self._next_ask(symptom, now)
        if self._own_reason and self.health.recovering(symptom):
            return orders  # the next answer decides
        if self.held:
            self._settle(False, OF_SYMPTOM[symptom], f"{self._figures(symptom, now)}; {self._holders()}", now)
        elif self._fruitless and self._may_serve(symptom, now):
            self._settle(True, Cause.NOBODY_ELSE, f"{self._figures(symptom, now)}; {self._nobody()}", now)
        return orders

    def _may_serve(self, symptom: Symptom, now: float) -> bool:
        """Back as the last one? Not with a resolver that never answered since, nor faster than the hold-down."""
        if symptom is Symptom.SILENT and self.health.last_answer <= self._left_at:
            return False
        return not self._own_reason or self.hold.raise_allowed_at(now) <= now

    def _next_ask(self, symptom: Symptom, now: float) -> list[Order]:
        current = self._round
        if current is not None and (current.over or now >= current.ends):
            self._refusals = current.answers | dict.fromkeys(current.waiting, "no answer")
            self._fruitless = not self.held
            self._round = None
        if self._round is not None or now < self._next_round:
            return []
        guard = self._config.guard
        peers = {peer.name for peer in self._config.peers}
        self._rounds += 1
        self._round = _Round(self._rounds, symptom, now + guard.ask_timeout_s * ROUND_SLACK, peers)
        self._next_round = now + guard.retry_s
        return [Ask(self._rounds, symptom)] if peers else []

    def _lose(self, peer: str) -> None:
        if self.held.pop(peer, None) is not None and not self.held:
            self._fruitless = True
            self._refusals = {peer: "promises no longer"}

    def _holders(self) -> str:
        return f"{' and '.join(sorted(self.held))} {'stays' if len(self.held) == 1 else 'stay'}"

    def _nobody(self) -> str:
        if not self._config.peers:
            return "this node has no peers"
        answers = ", ".join(f"{peer}: {why}" for peer, why in sorted(self._refusals.items()))
        return f"no peer can take over ({answers})"

    def _unfit_to_promise(self, symptom: Symptom) -> str:
        if self.drained or self.stopping:
            return "drained" if self.drained else "stopping"
        if not self.announce:
            return f"not announcing ({self.cause.value})"
        if not self.effective:
            return "not announced by FRR"
        own = self.health.symptom
        if own is not None or not self.health.fit:
            return f"ailing itself ({own.value if own else 'unknown'})"
        if self.health.asked(symptom).run_bad:
            return "has just failed the same question"
        return ""

    def _figures(self, symptom: Symptom, now: float) -> str:
        health = self.health
        if symptom is Symptom.LOCAL:
            detail = health.local.last.detail if health.local.last else ""
            return f"{health.local.run_bad} local names in a row unanswered ({detail})"
        if symptom is Symptom.SLOW:
            return f"p95 of the last answers {1000 * (health.window.p95_s or 0):.0f} ms"
        if symptom is Symptom.OUTSIDE:
            detail = health.outside.last.detail if health.outside.last else ""
            return f"no other node gets an answer from the resolver here, is there a firewall? ({detail})"
        detail = health.resolver.last.detail if health.resolver.last else ""
        if symptom is Symptom.WRONG:
            return f"{health.resolver.run_bad} wrong answers in a row ({detail})"
        return f"{health.resolver.run_bad} checks in a row unanswered, silent for {health.silent_for(now):.1f} s"

    def _expire(self, now: float) -> None:
        for peer in [peer for peer, until in self.held.items() if now >= until - PROMISE_MARGIN_S]:
            self._lose(peer)
        for peer in [peer for peer, until in self.promised.items() if now >= until]:
            del self.promised[peer]

    def _settle(self, announce: bool, cause: Cause, text: str, now: float) -> None:
        if announce != self.announce:
            self._turn(announce, cause, text, now)
        elif cause is not self.cause:
            self.cause, self.text, self.since = cause, text, now
        else:
            self.text = text  # newer figures, no new mind
        if not announce and cause in OWN_REASONS:
            self._own_reason = True

    def _turn(self, announce: bool, cause: Cause, text: str, now: float) -> None:
        self.announce, self.cause, self.text, self.since = announce, cause, text, now
        self._fruitless = False
        if announce:
            self.held.clear()
            if not self.planned:
                self.hold.raised(now)
            return
        self.planned = cause in PLANNED
        self._left_at = now
        self._own_reason = cause in OWN_REASONS
        self._left_for = next((symptom for symptom, of in OF_SYMPTOM.items() if of is cause), self._left_for)
        if not self.planned:
            self.hold.lowered(now)
