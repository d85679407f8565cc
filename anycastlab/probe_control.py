"""The probes as the control machine sees them: read all, drain one, put it back.

How a command reaches a node is the caller's business: `run(node, argv)` gives exit code and standard output, or None
and the reason when the node could not be reached. A node that cannot be read is `unknown`, never an error: this is what
one looks at when things are broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast, get_args

from anycastlab import narrow
from anycastlab.errors import AnycastlabError
from anycastlab.node import layout
from anycastlab.outside_text import one_line
from anycastlab.probe.config import ProbeConfig
from anycastlab.stored import parse_json

Run = Callable[[str, Sequence[str]], tuple[int | None, str]]
Each = Callable[[Callable[[str], "NodeProbe"], Sequence[str]], Iterable["NodeProbe"]]
State = Literal["announcing", "raising", "withdrawing", "withdrawn", "unknown"]

# Seconds. The probe writes its state every second; a file older than this was left by one that is dead or hung.
STALE_S = 3.5
# A drained node is out of the router's table after 0.2 s, or after FRR was restarted by force.
DRAIN_WAIT_S = 5.0
# Resolver and local names answered twice, hold-down of a first withdrawal, BGP's own start-up delay of 5 s.
UNDRAIN_WAIT_S = 20.0
POLL_S = 0.2

_DEFAULTS = {entry.name: entry.default for entry in ProbeConfig.__dataclass_fields__.values()}
STATE_PATH = str(_DEFAULTS["state_path"])
MOST_STATE = 1 << 16  # octets that are read of it: it lies in the folder of the probe's user, and root reads it
DRAIN_PATH = str(_DEFAULTS["drain_path"])
# The flag before it is one: whoever wants to drain writes this first, then looks at all nodes, then renames it.
CLAIM_PATH = f"{DRAIN_PATH}.wanted"
# Minutes after which a claim was left by somebody who was killed; a drain takes a second or two.
CLAIM_MIN = 1
# Prints the state, the node's clock, `drained` with the flag's first line if it is there, and `claimed` if it is.
_FLAG = f'[ ! -e {DRAIN_PATH} ] || echo "drained $(head -c 200 {DRAIN_PATH} | head -n 1)"'
_CLAIM = f"find {CLAIM_PATH} -mmin -{CLAIM_MIN} -printf 'claimed\\n' 2>/dev/null"
# Root reads what the probe's user wrote: so much, and not for long, whatever lies there.
READ_LIMIT_S = 2  # seconds
READ_COMMAND = (
    f"timeout {READ_LIMIT_S} head -c {MOST_STATE} {STATE_PATH} && echo && date +%s.%N && {{ {_FLAG}; {_CLAIM}; }}; :"
)
# What the flag says, so that a deploy, which drains for itself, does not put back what a person took out.
DRAINED_BY_OPERATOR = "operator"


PEERS_PROBLEM = "peers"  # the problem of a probe that cannot talk to its peers


class DrainError(AnycastlabError):
    """A node cannot be drained or put back."""


@dataclass(frozen=True)
class Question:
    """The last result of one question on one node."""

    good: bool | None
    outcome: str = ""
    latency_s: float | None = None
    detail: str = ""
    age_s: float | None = None
    """Seconds since that result."""

    @property
    def bad(self) -> bool:
        """Answered wrongly or not at all; the very first results count before the probe has made up its mind."""
        return self.good is False or (self.good is None and self.outcome not in ("", "ok"))


@dataclass(frozen=True)
class NodeProbe:
    """What one node's probe thinks. `since_s` is how long it has thought so."""

    name: str
    state: State
    announced: bool = False
    """FRR tells the router about the service address."""
    cause: str = ""
    reason: str = ""
    since_s: float | None = None
    drained: bool = False
    drain_wanted: bool = False
    """A person drained it; else a deploy that has not put it back."""
    claimed: bool = False
    """Somebody is about to drain it."""
    p95_s: float | None = None
    questions: dict[str, Question] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def wan_bad(self) -> bool:
        """Whether the last internet names it asked for did not resolve there."""
        return "wan" in self.questions and self.questions["wan"].bad

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def probe_states(run: Run, nodes: Sequence[str], each: Each = map) -> list[NodeProbe]:
    """All nodes' states, in the order given. `each` may be a concurrent `map`."""
    return list(each(lambda name: read_state(run, name), nodes))


def read_state(run: Run, node: str) -> NodeProbe:
    """One node's state; `unknown` with the reason when it cannot be read or is out of date."""
    code, output = run(node, ["sh", "-c", READ_COMMAND])
    if code is None:
        return NodeProbe(node, "unknown", reason=_unreachable(output))
    return parse_state(node, output.splitlines())


def parse_state(node: str, lines: Sequence[str]) -> NodeProbe:
    """What `READ_COMMAND` printed on a node. Pure."""
    try:
        raw, node_time = parse_json(lines[0], MOST_STATE), float(lines[1])
    except (IndexError, ValueError):
        return NodeProbe(node, "unknown", reason="the probe has not written its state; is anycastlab-probe running?")
    claimed = lines[2:][-1:] == ["claimed"]
    drained = any(line.startswith("drained") for line in lines[2:3])
    wanted = drained and layout.asked_for(lines[2].removeprefix("drained"))
    flags: dict[str, Any] = {"drained": drained, "drain_wanted": wanted, "claimed": claimed}
    try:
        late = node_time - float(raw["written"])
        # Written in the future: by one that died before the clock was set back.
        if raw["cause"] == "stopped" or abs(late) > STALE_S:
            reason = (
                f"the probe has not run for {late:.0f} s" if late >= 0 else "the probe has not run since a clock jump"
            )
            return NodeProbe(node, "unknown", cause="stopped", reason=reason, **flags)
        return replace(_parse(node, raw, node_time), **flags)
    except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError):
        reason = f"{STATE_PATH} is none of this version's probe; is anycastlab-probe running, and as deployed?"
        return NodeProbe(node, "unknown", reason=reason, **flags)


def drain(run: Run, nodes: Sequence[str], node: str, *, force: bool = False, each: Each = map) -> NodeProbe:
    """Takes `node` out of service, until `undrain`, also across a reboot; returns its state when the route is gone.

    Raises `DrainError` when no other node announces (unless `force`), or when the node does not withdraw.
    """
    states = {state.name: state for state in probe_states(run, nodes, each)}
    _require_known(node, states)
    if states[node].drain_wanted and states[node].state == "withdrawn":
        return states[node]
    if not force:
        _require_another(node, states)
    # Whole or not at all: an empty flag would be nobody's wish, and the next deploy would lift it.
    folder = DRAIN_PATH.rsplit("/", 1)[0]
    # `tee` says why it cannot write; the shell's own echo says "I/O error" of a full disk.
    claim = f"mkdir -p {folder} && echo {DRAINED_BY_OPERATOR} | tee {CLAIM_PATH} >/dev/null"
    _order(run, node, f"{{ {claim}; }} 2>&1 || {{ rm -f {CLAIM_PATH}; exit 1; }}")
    if not force:
        # Others may be draining other nodes. All claim before they look, so the last one to look sees all others.
        try:
            _require_another(node, {state.name: state for state in probe_states(run, nodes, each)})
        except DrainError:
            run(node, ["sh", "-c", f"rm -f {CLAIM_PATH}"])
            raise
    _order(run, node, f"mv -f {CLAIM_PATH} {DRAIN_PATH} 2>&1")
    state = _wait(run, node, lambda state: state.state == "withdrawn", DRAIN_WAIT_S)
    if state.state == "withdrawn" or state.cause == "stopped":
        return state
    raise DrainError(
        f"{node} is marked as drained but has not withdrawn after {DRAIN_WAIT_S:.0f} s: {state.reason}.",
        f"Look at `anycastlab shell {node} -- journalctl -u anycastlab-probe -n 20`.",
    )


def undrain(run: Run, nodes: Sequence[str], node: str, *, wait_s: float = UNDRAIN_WAIT_S) -> NodeProbe:
    """Puts `node` back into service; returns its state when it announces. Raises `DrainError` when it does not."""
    _require_known(node, dict.fromkeys(nodes))
    code, output = run(node, ["sh", "-c", f"rm -f {DRAIN_PATH} 2>&1"])
    if code != 0:
        raise _refused(f"{node} could not be put back", f"{DRAIN_PATH} cannot be removed there", node, code, output)
    state = _wait(run, node, lambda state: state.announced, wait_s)
    if state.announced:
        return state
    raise DrainError(
        f"{node} is no longer drained but does not announce after {wait_s:.0f} s: {state.reason}.",
        "It will as soon as its probe finds it healthy; `anycastlab probe` shows what is missing.",
    )


def table(states: Sequence[NodeProbe], columns: int = 80) -> str:
    """Plain text for people, one line per node (a block where the terminal is narrower) and one per reason."""
    rows: list[tuple[str, ...]] = [("NODE", "STATE", "SINCE", "RESOLVER", "LOCAL", "WAN", "P95")]
    for state in states:
        shown = [_shown(state.questions.get(name)) for name in ("resolver", "local")]
        shown.append(_shown_with_age(state.questions.get("wan")))
        p95 = "-" if state.p95_s is None else f"{1000 * state.p95_s:.1f} ms"
        word = _word(state)
        rows.append((state.name, word, age(state.since_s), *shown, p95))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if max(map(len, lines)) > columns:
        lines = narrow.blocks([heading.lower() for heading in rows[0]], rows[1:], columns)
    lines += [f"{state.name}: {state.reason}" for state in states if state.cause != "healthy" and state.reason]
    lines += [
        f"{state.name}: no internet name resolves there ({state.questions['wan'].detail or 'no answer'})."
        for state in states
        if state.wan_bad
    ]
    lines += [f"{state.name}: {text}" for state in states for text in state.problems.values()]
    lines += [
        f"{state.name}: taken out of service by a deploy that has not put it back; `anycastlab up` does"
        for state in states
        if state.drained and not state.drain_wanted
    ]
    return "\n".join(lines)


def healthy(states: Sequence[NodeProbe]) -> bool:
    """Every node announces and resolves internet names, or was drained by a person."""
    return all((state.announced and not state.wan_bad) or state.drain_wanted for state in states)


def _parse(node: str, raw: Mapping[str, Any], node_time: float) -> NodeProbe:
    questions = {}
    for name, entry in raw["questions"].items():
        last = entry["last"] or {}
        since = last.get("age_s")
        questions[name] = Question(
            _good(entry["good"]),
            one_line(str(last.get("outcome", ""))),
            _number(last.get("latency_s")),
            one_line(str(last.get("detail", ""))),
            None if since is None else max(0.0, float(since) + node_time - float(raw["written"])),
        )
    return NodeProbe(
        name=node,
        state=_state(raw["state"]),
        announced=bool(raw["effective"]),
        cause=one_line(str(raw["cause"])),
        reason=one_line(str(raw["reason"])),
        since_s=max(0.0, node_time - float(raw["since"])),
        p95_s=_number(raw["p95_s"]),
        questions=questions,
        problems={one_line(str(key)): one_line(str(text)) for key, text in raw["problems"].items()},
    )


def _number(value: object) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise ValueError(value)
    return None if value is None else float(cast(float, value))


def _good(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(value)
    return value


def _state(word: object) -> State:
    if word not in get_args(State):
        raise ValueError(word)
    return cast(State, word)


def _require_another(node: str, states: Mapping[str, NodeProbe]) -> None:
    """A drained node that still announces will not for long, and one that somebody is about to drain may not."""
    others = [state for name, state in states.items() if name != node and state.announced and not state.drained]
    if others and all(state.claimed for state in others):
        raise DrainError(
            f"Somebody is draining {' and '.join(state.name for state in others)} at this moment; with {node} drained "
            "too, no node might be left.",
            "Look at `anycastlab probe`, then run again.",
        )
    if not others:
        raise DrainError(
            f"{node} is the last node that announces the service address; draining it would leave the home without.",
            "Put another node back first (`anycastlab undrain NAME`), or add --force.",
        )


def _order(run: Run, node: str, order: str) -> None:
    code, output = run(node, ["sh", "-c", order])
    if code != 0:
        raise _refused(f"{node} could not be drained", f"{DRAIN_PATH} cannot be written there", node, code, output)


def _refused(what: str, why: str, node: str, code: int | None, output: str) -> DrainError:
    if code is None:
        return DrainError(f"{what}: {_unreachable(output)}.", "Is it up?")
    # `sh: 1: cannot create …: No space left on device`
    lines = output.strip().splitlines()
    reason = one_line(lines[-1].rpartition(": ")[2]) if lines else f"exit {code}"
    return DrainError(f"{what}: {why} ({reason}).", f"Look at `anycastlab shell {node} -- df -h`.")


def _unreachable(why: str) -> str:
    said = one_line(why).strip().rstrip(".")
    return f"the node cannot be reached{f': {said}' if said else ''}"


def _wait(run: Run, node: str, done: Callable[[NodeProbe], bool], seconds: float) -> NodeProbe:
    deadline = time.monotonic() + seconds
    while True:
        state = read_state(run, node)
        if done(state) or time.monotonic() >= deadline:
            return state
        time.sleep(POLL_S)


def _require_known(node: str, known: Mapping[str, object]) -> None:
    if node not in known:
        raise DrainError(f"There is no node {node}.", f"The nodes are {', '.join(known)}.")


def _word(state: NodeProbe) -> str:
    if not state.drained:
        return state.state
    return "drained" if state.state == "withdrawn" else f"{state.state} (drained)"


def _shown(question: Question | None) -> str:
    if question is None or question.good is None:
        return "-"
    word = "ok" if question.good else "BAD"
    if question.latency_s is not None and question.outcome == "ok":
        return f"{word} {1000 * question.latency_s:.1f} ms"
    return f"{word} {question.outcome}".rstrip()


def _shown_with_age(question: Question | None) -> str:
    """For a question that is asked seldom."""
    if question is None or question.age_s is None:
        return "-"
    return f"{'BAD' if question.bad else 'ok'}, {age(question.age_s)} ago"


def age(seconds: float | None) -> str:
    """`3 s`, `5 min`: how long something has been so."""
    if seconds is None:
        return "-"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
