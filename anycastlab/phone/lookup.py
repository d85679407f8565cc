"""What becomes of one question: a pure state machine, driven by the sender with times and replies.

Two stories run side by side. *On the wire*: the first transmission, judged alone by the phone's own timeout, the same
for every stub resolver; this is what the network did. *Felt*: the stub resolver's tries until one is answered or it
gives up; this is what the person had. Every transmission has its own query id, so a reply belongs to exactly one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anycastlab.phone import limits, wire
from anycastlab.phone.records import Outcome, Record
from anycastlab.phone.schedule import Question
from anycastlab.phone.stubs import OnError, Plan

_RETRY_NOW = frozenset({OnError.NEXT, OnError.OTHER_SERVER})
_AGAIN_PER_LOOKUP = 2  # musl: at most two immediate repetitions after SERVFAIL


class Verdict(Enum):
    """How a reply is judged."""

    RIGHT = "right"
    SERVFAIL = "servfail"
    ERROR = "error"  # REFUSED, FORMERR, NOTIMP …: the server could not, a stub may ask again
    WRONG = "wrong"  # a clean answer with the wrong content: a stub believes it


def judge(question: Question, reply: wire.Reply) -> Verdict:
    """Judge a reply whose id and question have been matched."""
    if reply.rcode == wire.SERVFAIL:
        return Verdict.SERVFAIL
    if reply.rcode not in (wire.NOERROR, wire.NXDOMAIN):
        return Verdict.ERROR
    return Verdict.RIGHT if question.entry.is_right(reply) else Verdict.WRONG


@dataclass(frozen=True)
class Times:
    """The limits of one run, in nanoseconds."""

    timeout_ns: int = round(limits.TIMEOUT_S * limits.NS)
    stall_ns: int = round(limits.STALL_S * limits.NS)
    late_window_ns: int = round(limits.LATE_WINDOW_S * limits.NS)
    duplicate_window_ns: int = round(limits.DUPLICATE_WINDOW_S * limits.NS)


class Lookup:
    """One question under way. Times are absolute nanoseconds of the run's clock."""

    __slots__ = (
        "_again",
        "_closes_ns",
        "_servers",
        "_times",
        "_todo",
        "discarded",
        "duplicates",
        "felt",
        "felt_ns",
        "gives_up_ns",
        "intended_ns",
        "latency_ns",
        "node",
        "note",
        "outcome",
        "question",
        "rcode",
        "sent_ns",
        "truncated",
    )

    def __init__(self, question: Question, intended_ns: int, plan: Plan, times: Times) -> None:
        self.question = question
        self.intended_ns = intended_ns
        self.sent_ns: int | None = None
        self.outcome: Outcome | None = None  # None: still open on the wire
        self.latency_ns: int | None = None
        self.rcode = ""
        self.node = ""
        self.note = ""
        self.truncated = False
        self.duplicates = 0
        self.discarded = 0
        self.felt: Outcome | None = None  # None: the stub is still trying
        self.felt_ns: int | None = None
        self.gives_up_ns = intended_ns + plan.gives_up_ns
        self._times = times
        self._todo = [(intended_ns + offset, server) for offset, server in plan.tries]
        self._servers: list[int] = []  # per try
        self._again = _AGAIN_PER_LOOKUP
        # Until when the first transmission is listened for; moves when it is answered.
        self._closes_ns = intended_ns + times.timeout_ns + times.late_window_ns

    def due(self, now_ns: int) -> list[tuple[int, int]]:
        """(try number, server) of every transmission that is due; each is handed out once."""
        ready = []
        while self.felt is None and self._todo and self._todo[0][0] <= now_ns:
            server = self._todo.pop(0)[1]
            ready.append((len(self._servers), server))
            self._servers.append(server)
        return ready

    def wake(self, now_ns: int) -> None:
        """Let time pass: the wire's timeout and the stub's patience."""
        if self.outcome is None and now_ns >= self.intended_ns + self._times.timeout_ns:
            self.outcome = Outcome.LOST
        if self.felt is None and now_ns >= self.gives_up_ns:
            self._feel(Outcome.LOST, now_ns)

    def next_ns(self) -> int | None:
        """When `wake` or `due` must be called next; None when the question is closed for good."""
        moments = []
        if self.outcome is None:
            moments.append(self.intended_ns + self._times.timeout_ns)
        if self.felt is None:
            moments.append(self._todo[0][0] if self._todo else self.gives_up_ns)
        return min(moments) if moments else None

    def closes_ns(self) -> int:
        """When its sockets may be closed, once `next_ns` is None."""
        return self._closes_ns

    def replied(self, number: int, verdict: Verdict, rcode: int, now_ns: int) -> None:
        """A matching reply to transmission `number`; call it once for each, further copies are `duplicates`."""
        if number == 0:
            self._judge_wire(verdict, rcode, now_ns)
        if self.felt is not None:
            return
        if verdict is Verdict.RIGHT:
            self._feel(Outcome.ANSWERED, now_ns)
        elif verdict is Verdict.WRONG:
            self._feel(Outcome.WRONG, now_ns)
        else:
            self._retry(number, Outcome.SERVFAIL if verdict is Verdict.SERVFAIL else Outcome.WRONG, now_ns)

    def failed(self, number: int, note: str, now_ns: int) -> None:
        """The system says that transmission `number` cannot be answered (ICMP error, connection reset …)."""
        if number == 0 and self.outcome is None:
            self.outcome = Outcome.LOST
            self.note = note
            self._closes_ns = now_ns
        if self.felt is None and self.question.stub.hears_icmp:
            self._retry(number, Outcome.LOST, now_ns)

    def skip(self, note: str) -> None:
        """The phone itself could not send it."""
        self.outcome = self.felt = Outcome.SKIPPED
        self.note = note
        self._closes_ns = self.intended_ns

    def record(self, server: str) -> Record:
        """The record; what is not decided yet is `open`."""
        return Record(
            query=self.question.index,
            client=self.question.client,
            server=server,
            name=self.question.name,
            type=self.question.entry.type,
            kind=self.question.entry.kind,
            intended_ns=self.intended_ns,
            sent_ns=self.sent_ns,
            latency_ms=_ms(self.latency_ns),
            outcome=self.outcome or Outcome.OPEN,
            rcode=self.rcode,
            node=self.node,
            truncated=self.truncated,
            duplicates=self.duplicates,
            discarded=self.discarded,
            tries=len(self._servers),
            felt=self.felt or Outcome.OPEN,
            felt_ms=_ms(self.felt_ns),
            note=self.note,
        )

    def _judge_wire(self, verdict: Verdict, rcode: int, now_ns: int) -> None:
        if self.latency_ns is not None or self.outcome is Outcome.SKIPPED:
            return
        elapsed = now_ns - self.intended_ns
        self.latency_ns = elapsed
        self.rcode = wire.rcode_name(rcode)
        self._closes_ns = now_ns + self._times.duplicate_window_ns
        # `outcome` may already say lost: whether this call or the timer came first must not matter.
        if elapsed >= self._times.timeout_ns:
            self.outcome = Outcome.LATE
        elif verdict is Verdict.SERVFAIL:
            self.outcome = Outcome.SERVFAIL
        elif verdict is not Verdict.RIGHT:
            self.outcome = Outcome.WRONG
        else:
            self.outcome = Outcome.STALLED if elapsed > self._times.stall_ns else Outcome.ANSWERED

    def _retry(self, number: int, outcome: Outcome, now_ns: int) -> None:
        """An error came instead of an answer to transmission `number`: what this stub makes of it."""
        reaction = self.question.stub.on_error
        if reaction is OnError.ASK_AGAIN:
            if outcome is Outcome.SERVFAIL and self._again:
                self._again -= 1
                self._todo.insert(0, (now_ns, self._servers[number]))
            return
        if reaction is OnError.OTHER_SERVER:
            self._todo = [(at, server) for at, server in self._todo if server not in self._servers]
        if reaction in _RETRY_NOW and self._todo:
            shift = self._todo[0][0] - now_ns
            if shift > 0:
                self._todo = [(at - shift, server) for at, server in self._todo]
                self.gives_up_ns -= shift
            return
        self._feel(outcome, now_ns)

    def _feel(self, outcome: Outcome, now_ns: int) -> None:
        self.felt = outcome
        self.felt_ns = now_ns - self.intended_ns if outcome is not Outcome.LOST else None


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else round(value_ns / 1e6, 3)
