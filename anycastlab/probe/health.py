"""What this node's own answers say about it: counted streaks, the p95 window, and one word for what is wrong. Pure.

    dead     the resolver is not there (port closed), or gave no answer whatever for `silence_s`
    silent   no answer in time, several times in a row: hung, or very slow; more is not known yet
    wrong    it answers, but not what it must: REFUSED, SERVFAIL, a blocked probe name, another node's name
    local    the path behind the router's names does not answer
    slow     it answers, too late
    outside  it answers itself, and no other node that asked: a firewall on this one

Only `dead` is certain to be this node's own trouble. Every other may hit all nodes at the same moment.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass

from anycastlab.probe.config import Latency, ProbeConfig, Question

PERCENTILE = 0.95


class Outcome(enum.Enum):
    OK = "ok"
    SILENT = "silent"  # nothing that belongs to the query came in time
    GONE = "gone"  # the kernel says that nobody listens there
    WRONG = "wrong"  # a matching reply with the wrong content


class Symptom(enum.Enum):
    SILENT = "silent"
    WRONG = "wrong"
    LOCAL = "local"
    SLOW = "slow"
    OUTSIDE = "outside"


@dataclass(frozen=True)
class Result:
    """How one check ended. `latency_s` is the time to the reply, or how long none came. Times are monotonic."""

    outcome: Outcome
    sent: float
    at: float
    latency_s: float
    detail: str = ""
    measured: bool = True
    """False when the probe itself was late, so `latency_s` says nothing about the resolver."""

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK


class Streak:
    """Rise/fall hysteresis over one question. `good` is None until the first `rise` or `fall` is complete."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self.good: bool | None = None
        self.run_ok = 0
        self.run_bad = 0
        self.last: Result | None = None
        self.since: float | None = None

    def feed(self, result: Result) -> bool:
        """True when the mind about it changed."""
        self.last = result
        self.run_ok = self.run_ok + 1 if result.ok else 0
        self.run_bad = 0 if result.ok else self.run_bad + 1
        good = self.good
        if self.run_ok >= self._question.rise:
            good = True
        elif self.run_bad >= self._question.fall:
            good = False
        if good == self.good:
            return False
        self.good, self.since = good, result.at
        return True

    def forget(self) -> None:
        """Start counting afresh: what was known belongs to an earlier resolver process."""
        self.good, self.run_ok, self.run_bad = None, 0, 0


class Window:
    """p95 of the last answers, judged with hysteresis. One outlier is always forgiven."""

    def __init__(self, config: Latency) -> None:
        self._config = config
        self._samples: deque[float] = deque(maxlen=config.window)
        self._over = 0
        self._under = 0
        self.slow = False

    @property
    def p95_s(self) -> float | None:
        """None while there are fewer than two answers."""
        if len(self._samples) < 2:
            return None
        forgiven = max(1, int(len(self._samples) * (1 - PERCENTILE) + 1e-9))
        return sorted(self._samples, reverse=True)[forgiven]

    def feed(self, latency_s: float) -> None:
        self._samples.append(latency_s)
        p95 = self.p95_s
        if p95 is None:
            return
        self._over = self._over + 1 if p95 > self._config.threshold_s else 0
        self._under = self._under + 1 if p95 < self._config.clear_s else 0
        if self._over >= self._config.fall:
            self.slow = True
        elif self._under >= self._config.rise:
            self.slow = False

    def forget(self) -> None:
        self._samples.clear()
        self._over = self._under = 0
        self.slow = False


class Health:
    """All of the above for one node. Feed it results; ask it what is wrong."""

    def __init__(self, config: ProbeConfig, now: float) -> None:
        self._config = config
        self.resolver = Streak(config.questions.resolver)
        self.local = Streak(config.questions.local)
        self.wan = Streak(config.questions.wan)
        self.outside = Streak(config.questions.outside)
        self.outside_awaited = False
        """The first word of the peers is still to come; a node that nobody reaches must not begin by announcing."""
        self.window = Window(config.latency)
        self.last_answer = now
        """When the resolver last answered anything, however late or wrong."""
        self._gone = 0
        self._ignore_before = now

    def on_resolver(self, result: Result) -> None:
        if result.sent < self._ignore_before:
            return
        self._gone = self._gone + 1 if result.outcome is Outcome.GONE else 0
        if result.outcome in (Outcome.OK, Outcome.WRONG):
            self.last_answer = result.at
        was_good = self.resolver.good
        if self.resolver.feed(result) and result.ok and was_good is False:
            # Back from an outage: the timeouts in the window are the outage, not slowness.
            self.window.forget()
        elif result.measured and result.outcome in (Outcome.OK, Outcome.SILENT):
            self.window.feed(result.latency_s)

    def on_local(self, result: Result) -> None:
        if result.sent >= self._ignore_before:
            self.local.feed(result)

    def on_wan(self, result: Result) -> None:
        self.wan.feed(result)

    def on_outside(self, result: Result | None) -> None:
        """What the peers saw of this node's resolver; None when none of them said anything."""
        if result is None:
            self.outside_awaited = False
        elif result.sent >= self._ignore_before:
            self.outside.feed(result)
            if self.outside.good is not None:
                self.outside_awaited = False

    def on_late_answer(self, at: float) -> None:
        """The resolver answered a query that was already counted as failed: alive, though slow."""
        self.last_answer = max(self.last_answer, at)

    def start_over(self, now: float) -> None:
        """The resolver stops or starts: only checks sent from now on count."""
        self._ignore_before = now
        self._gone = 0
        self.resolver.forget()
        self.local.forget()
        self.window.forget()
        self.outside.run_bad = 0  # what peers missed meanwhile; that a firewall stood there is not forgotten

    @property
    def known(self) -> bool:
        """Enough results for a first opinion."""
        if self.outside_awaited and self.resolver.good:
            return False
        return self.resolver.good is not None and (self.local.good is not None or self.resolver.good is False)

    def dead(self, now: float) -> bool:
        if self.resolver.good is not False:
            return False
        return (
            self._gone >= self._config.questions.resolver.fall or self.silent_for(now) >= self._config.guard.silence_s
        )

    def silent_for(self, now: float) -> float:
        return max(0.0, now - self.last_answer)

    @property
    def symptom(self) -> Symptom | None:
        if self.resolver.good is False:
            answered = self.resolver.last is not None and self.resolver.last.outcome is Outcome.WRONG
            return Symptom.WRONG if answered else Symptom.SILENT
        if self.local.good is False:
            return Symptom.LOCAL
        if self.window.slow:
            return Symptom.SLOW
        if self.outside.good is False:
            return Symptom.OUTSIDE
        return None

    def recovering(self, symptom: Symptom) -> bool:
        """The last answer to the question behind it was good, but not yet enough of them."""
        if symptom is Symptom.SLOW:
            return False
        return self.asked(symptom).run_ok > 0

    def asked(self, symptom: Symptom) -> Streak:
        """The question behind an symptom."""
        return {Symptom.LOCAL: self.local, Symptom.OUTSIDE: self.outside}.get(symptom, self.resolver)

    @property
    def fit(self) -> bool:
        """Nothing is wrong and the last answers in a row say so."""
        return bool(self.resolver.good and self.local.good and not self.window.slow and self.outside.good is not False)
