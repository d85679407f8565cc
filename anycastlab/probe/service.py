"""The probe as one running thing: results into the machine, its orders out to peers, link, FRR and readers."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from anycastlab.probe import publish
from anycastlab.probe.checks import Query, Repeated, identity, random_local, random_public
from anycastlab.probe.config import Peer, ProbeConfig
from anycastlab.probe.decision import Ask, Cause, Change, Machine, Order, Revoke
from anycastlab.probe.effect import CallForHelp, Follower, Route, SetLink, ShutNeighbors, Step
from anycastlab.probe.frr import Bgpd
from anycastlab.probe.health import Health, Result, Streak
from anycastlab.probe.link import Link
from anycastlab.probe.loop import Loop, Timer
from anycastlab.probe.notify import Notifier
from anycastlab.probe.outside import Outside
from anycastlab.probe.peers import Peers
from anycastlab.probe.process import Watch

TICK_S = 0.1  # how late a deadline without an event of its own may be noticed
CALM_TICK_S = 0.5  # the same while nothing is under way; each wake-up costs a small board a ten-thousandth of its time
PUBLISH_S = 1.0  # age of the published figures while nothing changes
REFRESH_S = 5.0  # the kernel's view of the link, in case an event was lost
CLOSE_LOOK_S = 3.0  # after a change of mind FRR is looked at closely for this long
# A stopping probe waits until FRR has dropped the route, but no longer than this, and then for the router to do so too.
STOP_WAIT_S = 1.5
STOP_AFTER_S = 0.3
# A stopping probe that peers rely on stays this long after it told them: their link goes up and the router hears of it.
HAND_OVER_S = 0.4
STATE_VERSION = 1
QUESTIONS = ("resolver", "local", "wan", "outside")


class Probe:
    """`start` once, then run the loop. `request_stop` (from a signal handler) withdraws first."""

    def __init__(self, config: ProbeConfig, loop: Loop, journal: publish.Journal, notifier: Notifier) -> None:
        self._config = config
        self._loop = loop
        self._journal = journal
        self._notifier = notifier
        now = loop.now()
        before = publish.read_state(config.state_path)
        history, level, planned = _history(before, now)
        self._health = Health(config, now)
        self._machine = Machine(config, self._health, now, history, level, planned)
        if before.get("announce"):
            # It died while announcing: whatever killed it may do so again, so the way back is held down.
            self._machine.hold.lowered(now)
        self._follower = Follower(config.effect, now, shut=before.get("neighbors_shut") is True)
        self._link = Link(loop, config.link, self._link_seen, self._link_failed)
        self._process = Watch(loop, config.resolver_cgroup, self._resolver_ended)
        self._bgpd = Bgpd(loop, config)
        self._peers = Peers(loop, config, self._stay_requested, self._revoked, self._verdict, self._looked)
        self._outside = Outside(loop, config, self._peers.send, self._seen)
        self._health.outside_awaited = bool(config.peers)
        self._metrics: publish.MetricsServer | None = None
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in QUESTIONS}
        self._changes = 0
        self._lateness_s = 0.0
        self._deciding = False
        self._again = False
        self._looked_at = float("-inf")
        self._tick_timer = Timer(now, None)
        self._settled = False
        self._problems: dict[str, str] = {}
        self._stop_by: float | None = None
        self._stop_requested = False
        self._leave_at = float("inf")

    def start(self) -> None:
        config, loop = self._config, self._loop
        questions = config.questions
        own = (config.address, config.resolver_port)
        who = identity(config.identity_name, config.node)

        def local() -> Query:
            return random_local(config.local_suffix)

        def public() -> Query:
            return random_public(config.wan_suffix)

        listen_s = config.guard.silence_s
        Repeated(loop, questions.resolver, own, lambda: who, self._resolver_result, 0.0, self._late_answer, listen_s)
        # Out of step with the first question, so that a dead resolver is seen as that and not as a lost local path.
        Repeated(loop, questions.local, own, local, self._local_result, questions.local.interval_s / 2)
        Repeated(loop, questions.wan, own, public, self._wan_result, 1.0)
        if config.peers:
            loop.every(questions.outside.interval_s, self._outside.ask)
        self._tick_timer = loop.call_later(TICK_S, self._tick)
        loop.every(PUBLISH_S, self._publish, PUBLISH_S)
        loop.every(REFRESH_S, self._link.refresh, REFRESH_S)
        loop.every(REFRESH_S, self._serve_metrics)
        loop.every(REFRESH_S, lambda: self._problem("peers", self._peers.refresh()))
        loop.every(self._notifier.interval_s, lambda: self._notifier.alive(self._status()), self._notifier.interval_s)
        self._journal("start", node=config.node, peers=len(config.peers), link=config.link)
        self._publish()
        self._notifier.ready(self._status())

    def request_stop(self) -> None:
        self._stop_requested = True

    # What happens

    def _resolver_result(self, result: Result) -> None:
        was_good = self._health.resolver.good
        self._note_result("resolver", self._health.resolver, result, lambda: self._health.on_resolver(result))
        if self._health.resolver.good and not was_good:
            self._outside.ask()  # it has just come up: the peers' last look may have been too early

    def _local_result(self, result: Result) -> None:
        self._note_result("local", self._health.local, result, lambda: self._health.on_local(result))

    def _wan_result(self, result: Result) -> None:
        self._note_result("wan", self._health.wan, result, lambda: self._health.on_wan(result))

    def _looked(self, peer: Peer, message: dict[str, Any]) -> None:
        self._outside.take(peer, message)

    def _seen(self, result: Result | None) -> None:
        if result is None:
            self._health.on_outside(None)
            self._decide()
        else:
            self._note_result("outside", self._health.outside, result, lambda: self._health.on_outside(result))

    def _note_result(self, name: str, streak: Streak, result: Result, feed: Any) -> None:
        self._counts[name][result.outcome.value] += 1
        before = streak.good
        feed()
        if streak.good is not before and streak.good is not None:
            self._journal(
                "question",
                publish.INFO if streak.good else publish.NOTICE,
                question=name,
                good=str(streak.good).lower(),
                in_a_row=streak.run_ok if streak.good else streak.run_bad,
                last=result.detail,
                latency_s=result.latency_s,
            )
        self._decide()

    def _late_answer(self, at: float) -> None:
        self._health.on_late_answer(at)
        self._decide()

    def _stay_requested(self, peer: str, symptom: Any) -> tuple[bool, str]:
        self._decide()
        answer = self._machine.on_stay_request(peer, symptom, self._loop.now())
        return answer if not self._stop_requested else (False, "stopping")

    def _revoked(self, peer: str) -> None:
        self._machine.on_revoked(peer, self._loop.now())
        self._decide()

    def _verdict(self, verdict: Any) -> None:
        self._machine.on_verdict(verdict)
        self._decide()

    def _link_seen(self, up: bool | None) -> None:
        if self._follower.saw_link(up):
            self._read_flags()
            self._machine.on_lowered(self._loop.now())
        self._problem("link", f"there is no link {self._config.link}" if up is None else "")
        self._decide()

    def _resolver_ended(self) -> None:
        self._read_flags()
        self._machine.on_ended(self._loop.now())
        self._decide()

    def _link_failed(self, text: str) -> None:
        self._problem("rights", text)

    def _route_seen(self, route: Route, asked_at: float) -> None:
        self._follower.saw_route(route, asked_at)
        self._problem("frr", "no permission to ask bgpd" if route is Route.HIDDEN else "")
        self._decide()

    def _tick(self) -> None:
        now = self._loop.now()
        self._lateness_s = max(self._lateness_s * 0.99, self._loop.lateness_s)
        if self._stop_requested and self._stop_by is None:
            self._leave_at = now + (HAND_OVER_S if self._machine.promised else 0.0)
            self._stop_by = self._leave_at + STOP_WAIT_S
            self._notifier.stopping()
            self._peers.revoke(tuple(self._machine.promised))
        self._decide()
        if self._health.resolver.good:
            self._process.look()
        self._look(now)
        gone = self._follower.settled and not self._follower.wanted
        if self._stop_by is not None and (gone or now >= self._stop_by):
            self._stop_by = float("inf")
            wait = STOP_AFTER_S if self._machine.announce else 0.0
            self._loop.call_later(wait, self._stop)
        calm = self._machine.cause is Cause.HEALTHY and self._follower.settled and not self._stop_requested
        self._tick_timer.cancel()
        self._tick_timer = self._loop.call_later(CALM_TICK_S if calm else TICK_S, self._tick)

    def _stop(self) -> None:
        self._journal("stop", node=self._config.node, route=self._follower.route.value)
        self._publish(stopped=True)
        self._loop.stop()

    def _look(self, now: float) -> None:
        follower, effect = self._follower, self._config.effect
        if not self._config.frr.enabled:
            follower.saw_route(Route.TOLD if follower.link_up else Route.ABSENT, now)
            return
        close = not follower.settled and now - follower.wanted_since < CLOSE_LOOK_S
        if now - self._looked_at >= (effect.poll_s if close else effect.watch_s) - TICK_S / 2:
            self._looked_at = now
            self._bgpd.look(self._route_seen, follower.wanted)

    # What is done about it

    def _decide(self) -> None:
        """Until nothing changes any more; an event that arrives meanwhile asks for another turn."""
        self._again = True
        if self._deciding:
            return
        self._deciding = True
        try:
            while self._again:
                self._again = False
                self._decide_once(self._loop.now())
        finally:
            self._deciding = False

    def _read_flags(self) -> None:
        self._machine.drained = os.path.exists(self._config.drain_path)
        self._machine.set_stopping(os.path.exists(self._config.stopping_path), self._loop.now())

    def _decide_once(self, now: float) -> None:
        machine, follower = self._machine, self._follower
        self._read_flags()
        machine.effective = follower.announced(now)
        orders = machine.decide(now)
        wanted = machine.announce and now < self._leave_at
        if wanted is not follower.wanted:
            # Look at the effect soon, however calm it was.
            self._looked_at = float("-inf")
            self._tick_timer.cancel()
            self._tick_timer = self._loop.call_later(TICK_S, self._tick)
        follower.want(wanted, now)
        # The link first: everything else can wait for a millisecond.
        for step in follower.steps(now):
            self._carry_out_step(step)
        for order in orders:
            self._carry_out(order)
        if follower.settled and not self._settled:
            self._journal("effect", announced=str(follower.wanted).lower(), after_s=now - follower.wanted_since)
        self._settled = follower.settled
        if follower.settled:
            # Whatever could not be done is done, or no longer needed.
            for key in ("rights", "escalate", "neighbors"):
                self._problem(key, "")

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, Ask):
            self._peers.ask(order.number, order.symptom)
        elif isinstance(order, Revoke):
            self._peers.revoke(order.peers)
        elif isinstance(order, Change) and not order.news:
            self._publish()
        elif isinstance(order, Change):
            self._changes += 1
            p95 = self._health.window.p95_s
            self._journal(
                "change",
                publish.NOTICE,
                announce=str(order.announce).lower(),
                cause=order.cause.value,
                reason=order.text,
                p95_ms="unknown" if p95 is None else round(1000 * p95, 1),
                withdrawals=self._machine.hold.level,
            )
            self._publish()

    def _carry_out_step(self, step: Step) -> None:
        if isinstance(step, SetLink):
            self._link.set(step.up)
            self._link.read()  # the kernel has answered already; hear it now and not a turn later
        elif isinstance(step, ShutNeighbors):
            word = "down" if step.shut else "up"
            self._journal("escalate", publish.WARNING, action=f"bgp-neighbors-{word}", route=self._follower.route.value)
            self._bgpd.shut(step.shut, lambda text: self._problem("neighbors", text))
        elif isinstance(step, CallForHelp):
            self._journal("escalate", publish.WARNING, action="restart-frr", reason=step.text)
            self._call_for_help(step)

    def _call_for_help(self, step: CallForHelp) -> None:
        """The file starts root's unit (see `units`)."""
        try:
            with open(self._config.escalate_path, "w", encoding="ascii") as file:
                file.write("up\n" if step.up else "down\n")
        except OSError as error:
            self._problem("escalate", f"{self._config.escalate_path}: {error.strerror}")
        else:
            self._problem("escalate", "")

    def _problem(self, key: str, text: str) -> None:
        """Journal a standing problem once, and its end."""
        if self._problems.get(key, "") != text:
            self._problems[key] = text
            self._journal("problem", publish.WARNING if text else publish.INFO, what=key, text=text or "over")

    # What is told

    def _status(self) -> str:
        return f"{'announcing' if self._machine.announce else 'withdrawn'}: {self._machine.text}"

    def _publish(self, stopped: bool = False) -> None:
        state = self.state()
        if stopped:
            state.update(announce=False, state="withdrawn", cause="stopped", reason="the probe was stopped")
            state["hold_down"]["planned"] = self._machine.announce or self._machine.planned
        self._problem("state", publish.write_state(self._config.state_path, state))

    def _serve_metrics(self) -> None:
        """A port that somebody else has is a pity, and no reason to be out of service."""
        if self._metrics is not None:
            return
        config = self._config
        try:
            self._metrics = publish.MetricsServer(self._loop, config.address, config.metrics_port, self._metrics_text)
        except OSError as error:
            self._problem(
                "metrics", f"no metrics: TCP port {config.metrics_port} of {config.address}: {error.strerror}"
            )
        else:
            self._problem("metrics", "")

    def _metrics_text(self) -> str:
        return publish.metrics(self.state())

    def state(self) -> dict[str, Any]:
        """Everything, as written to the state file. Ages in seconds; `since` and `written` in Unix time, for people."""
        now, wall = self._loop.now(), time.time()
        machine, follower, health = self._machine, self._follower, self._health
        streaks = dict(zip(QUESTIONS, (health.resolver, health.local, health.wan, health.outside), strict=True))
        return {
            "version": STATE_VERSION,
            "node": self._config.node,
            "service_addresses": list(self._config.service_addresses),
            "announce": machine.announce,
            "state": _word(machine.announce, follower.settled),
            "effective": follower.announced(now),
            "cause": machine.cause.value,
            "reason": machine.text,
            "since": wall - (now - machine.since),
            "written": wall,
            "link": {True: "up", False: "down", None: "missing"}[follower.link_up],
            "route": follower.route.value,
            "neighbors_shut": follower.shut,
            "drained": machine.drained,
            "stopping": machine.stopping,
            "process_watched": self._process.active,
            "questions": {name: _question(streak, self._counts[name], now) for name, streak in streaks.items()},
            "slow": health.window.slow,
            "p95_s": health.window.p95_s,
            "relies_on": sorted(machine.held),
            "relied_on_by": sorted(machine.promised),
            "hold_down": {
                "level": machine.hold.level,
                "changes": list(machine.hold.history),
                "planned": machine.planned,
                "wait_s": max(0.0, machine.hold.raise_allowed_at(now) - now),
            },
            "changes": self._changes,
            "lateness_s": self._lateness_s,
            "problems": {key: text for key, text in self._problems.items() if text},
        }


def _word(announce: bool, settled: bool) -> str:
    if announce:
        return "announcing" if settled else "raising"
    return "withdrawn" if settled else "withdrawing"


def _question(streak: Streak, counts: Counter[str], now: float) -> dict[str, Any]:
    last = streak.last
    return {
        "good": streak.good,
        "ok_in_a_row": streak.run_ok,
        "bad_in_a_row": streak.run_bad,
        "last": None
        if last is None
        else {
            "outcome": last.outcome.value,
            "latency_s": last.latency_s,
            "detail": last.detail,
            "age_s": now - last.at,
        },
        "counts": dict(counts),
    }


def _history(state: Mapping[str, Any], now: float) -> tuple[list[float], int, bool]:
    """Hold-down of an earlier run: monotonic times are the machine's and outlive the process. Nonsense is empty."""
    hold = state.get("hold_down")
    if not isinstance(hold, dict):
        return [], 0, False
    changes, level = hold.get("changes"), hold.get("level")
    if not isinstance(changes, list) or not isinstance(level, int) or level < 0:
        return [], 0, False
    planned = hold.get("planned") is True and not state.get("announce")
    return [at for at in changes if isinstance(at, float) and 0 <= at <= now], level, planned
