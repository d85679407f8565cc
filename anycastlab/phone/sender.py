"""Keep the schedule. The loop never waits for an answer: it sends what is due, takes what has come, and sleeps.

Who answered? DNS replies from one anycast address look alike. Routers spread queries by *flow*, so whoever serves a
socket's first packet serves its second. With identity `txt` a TXT query for the node's own name (`id.anycast.lan`)
leaves on the same socket right behind the ordinary one; it appears in no count, and it names the node even when the
ordinary query itself is lost. Whoever answers without knowing that name is recorded as `other`. What this cannot see:
a route that changes between the two packets, microseconds apart. With identity `nsid` the ordinary query itself
asks (RFC 5001): exact, but only some resolvers answer, and a forwarding one may pass on its upstream's. Above
`limits.IDENTITY_RATE` identity queries are a sample.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from anycastlab import outside_text
from anycastlab.phone import wire
from anycastlab.phone.lookup import Lookup, Times, judge
from anycastlab.phone.network import Conversation, Event, Network
from anycastlab.phone.records import OTHER_NODE, Outcome, Record
from anycastlab.phone.schedule import Question
from anycastlab.phone.servers import Server, Transport
from anycastlab.phone.stubs import Plan, plan

# The phone's machine, not the network, is to blame for these: such a query was skipped, not lost.
_OWN_FAULT = {
    errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EAGAIN,
}  # fmt: skip
# Step between the ids of one question's transmissions; odd, so it visits all 65,536.
_ID_STEP = 7919


class Identity(StrEnum):
    """How the answering node is found out."""

    TXT = "txt"
    NSID = "nsid"
    NONE = "none"


@dataclass(frozen=True)
class Setup:
    """What a run does, apart from its schedule."""

    servers: tuple[Server, ...]
    transport: Transport = Transport.UDP
    one_flow: bool = False
    times: Times = field(default_factory=Times)
    identity: Identity = Identity.TXT
    identity_name: str = "id.anycast.lan"


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Keep Python's cyclic garbage collector out of a run.

    A collection over 100,000 records takes longer than there is between two queries, and a run makes no cycles that
    matter for its length.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


class _Exchange:
    """One transmission that may be answered."""

    __slots__ = ("answered", "identity", "lookup", "message", "number", "question", "server")

    def __init__(
        self, lookup: Lookup, number: int, server: Server, message: bytes, question: bytes, identity: bool
    ) -> None:
        self.lookup = lookup
        self.number = number
        self.server = server
        self.message = message
        self.question = question
        self.identity = identity
        self.answered = False


class Sender:
    """One run. `counts` may be read from another thread while it is going on."""

    def __init__(self, setup: Setup, questions: Sequence[Question], network: Network) -> None:
        self.counts: Counter[str] = Counter()
        self.position = 0  # questions begun
        self.stray = 0  # messages on a shared socket that belong to nothing
        self._setup = setup
        self._questions = questions
        self._start_ns = 0
        self._network = network
        self._stop_requests = 0
        self._lookups: list[Lookup] = []
        self._open: dict[int, Lookup] = {}  # by question number
        self._wakes: list[tuple[int, int]] = []  # heap of (time, question number)
        self._flows: dict[int, dict[tuple[str, Server], Conversation]] = {}  # by question number
        self._waiting: dict[int, list[tuple[Conversation, int]]] = {}  # ids to forget on shared flows
        self._shared: dict[Server, Conversation] = {}
        self._names: set[str] = set()  # by which answers called themselves
        nsid = setup.identity is Identity.NSID
        self._messages = [wire.encode_query(q.id, q.name, q.entry.rtype, nsid) for q in questions]
        self._asked = [wire.question(q.name, q.entry.rtype) for q in questions]
        self._identity_question = wire.question(setup.identity_name, wire.TYPES["TXT"])
        self._identity_message = wire.encode_query(0, setup.identity_name, wire.TYPES["TXT"])
        timeout_s = setup.times.timeout_ns / 1e9
        self._plans: dict[str, Plan] = {
            name: plan(stub, len(setup.servers), timeout_s)
            for name, stub in {q.stub.name: q.stub for q in questions}.items()
        }

    def stop(self) -> None:
        """First call: send nothing new, wait for what is under way. Second: end at once. Safe in a signal handler."""
        self._stop_requests += 1

    @property
    def interrupted(self) -> bool:
        return self._stop_requests > 0

    def run(self, start_ns: int) -> list[Record]:
        """Keep the schedule from `start_ns` to its end, or until stopped; records in the order of the schedule."""
        self._start_ns = start_ns
        self._loop()
        server = str(self._setup.servers[0])
        return [lookup.record(server) for lookup in self._lookups]

    def _loop(self) -> None:
        network, questions = self._network, self._questions
        total = len(questions)
        while True:
            self._send_due()
            self._wake_due()
            if self._stop_requests and self._may_end():
                break
            sending = self.position < total and not self._stop_requests
            if not sending and not self._open:
                break
            next_ns = self._wakes[0][0] if self._wakes else None
            if sending:
                at_ns = self._start_ns + questions[self.position].at_ns
                next_ns = at_ns if next_ns is None or at_ns < next_ns else next_ns
            assert next_ns is not None, "an open question always has a wake-up time"
            for event in network.wait(next_ns):
                self._take(event)
                self._send_due()
        for number in list(self._open):
            self._finish(number)
        for flow in self._shared.values():
            network.close(flow)

    def _may_end(self) -> bool:
        return self._stop_requests > 1 or all(lookup.outcome is not None for lookup in self._open.values())

    def _send_due(self) -> None:
        questions, network = self._questions, self._network
        while self.position < len(questions) and not self._stop_requests:
            question = questions[self.position]
            intended_ns = self._start_ns + question.at_ns
            if intended_ns > network.now():
                return
            self.position += 1
            lookup = Lookup(question, intended_ns, self._plans[question.stub.name], self._setup.times)
            self._lookups.append(lookup)
            self._open[question.index] = lookup
            self._transmit_due(lookup, intended_ns)
            self._reschedule(lookup)

    def _wake_due(self) -> None:
        while self._wakes and self._wakes[0][0] <= self._network.now():
            at_ns, number = heapq.heappop(self._wakes)
            lookup = self._open.get(number)
            if lookup is None:
                continue
            undecided = lookup.outcome is None
            lookup.wake(at_ns)
            if undecided and lookup.outcome is Outcome.LOST:
                self._distrust(number)
            self._transmit_due(lookup, at_ns)
            self._reschedule(lookup)
            self._send_due()

    def _reschedule(self, lookup: Lookup) -> None:
        """Set the question's next wake-up, or finish it. Earlier wake-ups stay in the heap and do no harm."""
        number = lookup.question.index
        if number not in self._open:
            return  # finished by an earlier event of the same turn
        next_ns = lookup.next_ns()
        if next_ns is None:
            next_ns = lookup.closes_ns()
            if next_ns <= self._network.now():
                self._finish(number)
                return
        heapq.heappush(self._wakes, (next_ns, number))

    def _finish(self, number: int) -> None:
        lookup = self._open.pop(number)
        self.counts[lookup.outcome or Outcome.OPEN] += 1
        for flow in self._flows.pop(number, {}).values():
            self._network.close(flow)
        for flow, query_id in self._waiting.pop(number, ()):
            flow.pending.pop(query_id, None)
            if not flow.pending and self._shared.get(flow.server) is not flow:
                self._network.close(flow)

    def _transmit_due(self, lookup: Lookup, now_ns: int) -> None:
        # A stub that is told "refused" at once may have its next try due at once: bounded by its plan.
        while tries := lookup.due(now_ns):
            for number, server in tries:
                self._transmit(lookup, number, self._setup.servers[server])

    def _transmit(self, lookup: Lookup, number: int, server: Server) -> None:
        index = lookup.question.index
        try:
            flow = self._flow_for(lookup, number, server)
            query_id = (lookup.question.id + number * _ID_STEP) & 0xFFFF
            while query_id in flow.pending:
                query_id = (query_id + _ID_STEP) & 0xFFFF
            message = self._messages[index] if number == 0 else wire.with_id(self._messages[index], query_id)
            exchange = _Exchange(lookup, number, server, message, self._asked[index], identity=False)
            self._expect(flow, query_id, exchange)
            self._network.send(flow, message)
        except OSError as error:
            self._could_not_send(lookup, number, error)
            return
        if number == 0:
            lookup.sent_ns = self._network.now()
            if self._setup.identity is Identity.TXT and lookup.question.identity_id is not None:
                self._ask_identity(lookup, flow, server)

    def _ask_identity(self, lookup: Lookup, flow: Conversation, server: Server) -> None:
        query_id = lookup.question.identity_id
        if query_id is None or query_id in flow.pending:
            return
        message = wire.with_id(self._identity_message, query_id)
        self._expect(flow, query_id, _Exchange(lookup, 0, server, message, self._identity_question, identity=True))
        try:
            self._network.send(flow, message)
        except OSError:
            return  # the ordinary query on the same socket tells the story

    def _could_not_send(self, lookup: Lookup, number: int, error: OSError) -> None:
        note = error.strerror or str(error)
        if number == 0 and error.errno in _OWN_FAULT:
            lookup.skip(note)
        else:
            if number == 0:
                lookup.sent_ns = self._network.now()
            lookup.failed(number, note, self._network.now())

    def _flow_for(self, lookup: Lookup, number: int, server: Server) -> Conversation:
        transport = self._setup.transport
        if self._setup.one_flow:
            shared = self._shared.get(server)
            if shared is None:
                shared = self._shared[server] = self._network.open(server, transport)
            return shared
        index = lookup.question.index
        flows = self._flows.setdefault(index, {})
        key = (f"{transport}" if lookup.question.stub.keeps_socket else f"{transport} {number}", server)
        flow = flows.get(key)
        if flow is None:
            flow = flows[key] = self._network.open(server, transport)
            flow.owner = lookup
        return flow

    def _expect(self, flow: Conversation, query_id: int, exchange: _Exchange) -> None:
        flow.pending[query_id] = exchange
        if flow.owner is None:
            self._waiting.setdefault(exchange.lookup.question.index, []).append((flow, query_id))

    def _distrust(self, number: int) -> None:
        """A query timed out on a shared connection: the next one opens a new connection, as phones do."""
        if self._setup.transport is Transport.UDP:
            return
        for flow, _ in self._waiting.get(number, ()):
            if self._shared.get(flow.server) is flow:
                del self._shared[flow.server]

    def _take(self, event: Event) -> None:
        for message in event.messages:
            self._take_message(event.flow, message, event.at_ns)
        if event.error is not None:
            self._take_error(event.flow, event.error, event.at_ns)

    def _take_message(self, flow: Conversation, message: bytes, at_ns: int) -> None:
        try:
            reply = wire.read_reply(message)
        except wire.WireError:
            self._discard(flow)
            return
        exchange: _Exchange | None = flow.pending.get(reply.id)
        if exchange is None or exchange.question != reply.question:
            self._discard(flow)
            return
        lookup = exchange.lookup
        if exchange.answered:
            if exchange.number == 0 and not exchange.identity:
                lookup.duplicates += 1
            return
        if exchange.identity:
            exchange.answered = True
            lookup.node = self._known(_identity(reply))
            return
        if reply.truncated and flow.transport is Transport.UDP:
            exchange.answered = True
            self._ask_again_over_tcp(exchange)
            return
        exchange.answered = True
        if self._setup.identity is Identity.NSID and exchange.number == 0:
            lookup.node = self._known(reply.nsid)
        lookup.replied(exchange.number, judge(lookup.question, reply), reply.rcode, at_ns)
        self._transmit_due(lookup, at_ns)
        self._reschedule(lookup)

    def _ask_again_over_tcp(self, exchange: _Exchange) -> None:
        lookup = exchange.lookup
        flows = self._flows.setdefault(lookup.question.index, {})
        key = (f"truncated {exchange.number}", exchange.server)
        if key in flows:
            return
        if exchange.number == 0:
            lookup.truncated = True
        try:
            flow = flows[key] = self._network.open(exchange.server, Transport.TCP)
            flow.owner = lookup
            again = _Exchange(lookup, exchange.number, exchange.server, exchange.message, exchange.question, False)
            self._expect(flow, int.from_bytes(exchange.message[:2], "big"), again)
            self._network.send(flow, exchange.message)
            # The connection is a flow of its own and may lead elsewhere: what counts is who serves the answer.
            if exchange.number == 0 and self._setup.identity is Identity.TXT:
                self._ask_identity(lookup, flow, exchange.server)
        except OSError as error:
            lookup.failed(exchange.number, error.strerror or str(error), self._network.now())
            self._transmit_due(lookup, self._network.now())
            self._reschedule(lookup)

    def _take_error(self, flow: Conversation, error: OSError, at_ns: int) -> None:
        note = error.strerror or str(error)
        if flow.transport is Transport.UDP:
            if flow.owner is None:
                return  # on a shared socket an ICMP error cannot be told apart; those queries time out
        else:
            self._network.close(flow)
            if self._shared.get(flow.server) is flow:
                del self._shared[flow.server]
            if flow.owner is not None:  # a retry must not use the dead connection
                flows = self._flows.get(flow.owner.question.index, {})
                for key in [key for key, other in flows.items() if other is flow]:
                    del flows[key]
        for exchange in list(flow.pending.values()):
            if exchange.answered or exchange.identity:
                continue
            lookup: Lookup = exchange.lookup
            if lookup.question.index in self._open:
                lookup.failed(exchange.number, note, at_ns)
                self._transmit_due(lookup, at_ns)
                self._reschedule(lookup)

    def _known(self, identity: str) -> str:
        """The name that is kept: who gives none is `other`, and so is everybody after as many names as nodes can be."""
        node = outside_text.name(identity)
        if not node or (node not in self._names and len(self._names) >= outside_text.MOST_NAMES):
            return OTHER_NODE
        self._names.add(node)
        return node

    def _discard(self, flow: Conversation) -> None:
        if flow.owner is None:
            self.stray += 1
        else:
            flow.owner.discarded += 1


def _identity(reply: wire.Reply) -> str:
    """What the answer calls itself; empty when it does not."""
    for rtype, data in reply.answers:
        if rtype == wire.TYPES["TXT"]:
            return wire.text(data)
    return ""
