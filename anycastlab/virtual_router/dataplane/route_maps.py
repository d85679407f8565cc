"""Filter chains compiled to FRR prefix lists and route maps. Pure.

A product of a condition (`filters.Term`) is exactly one FRR prefix list: its holes as `deny`, then its region as
`permit`; a sum is several route-map entries. Bodies, `else`, `jump` and `return` become `on-match goto`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anycastlab.virtual_router.dataplane.chains import MAX_JUMPS, Chains
from anycastlab.virtual_router.dataplane.filters import (
    SETTABLE,
    Assign,
    If,
    Region,
    RuleError,
    Statement,
    Sum,
    Term,
    Verdict,
)

_END = "end"
"""Label of a chain's last word, where a `return` of the outermost chain goes."""


@dataclass
class _Entry:
    """One route-map entry before it has a number. With `onward` it goes on: at label `goto`, or at the next entry."""

    permit: bool
    term: Term | None = None
    sets: tuple[str, ...] = ()
    onward: bool = False
    goto: str = ""


@dataclass
class _Compiler:
    chains: Chains
    family: int
    entries: list[_Entry | str] = field(default_factory=list)
    labels: int = 0

    def label(self) -> str:
        self.labels += 1
        return f"label{self.labels}"

    def chain(self, name: str, back: str, depth: int = 0) -> None:
        if depth > MAX_JUMPS:
            raise RuleError(f"jump {name}: nested too deeply")
        for rule in self.chains.get(name, ()):
            self.body(rule, back, depth)

    def body(self, statements: Sequence[Statement], back: str, depth: int) -> None:
        for statement in statements:
            match statement:
                case Verdict("accept"):
                    self.entries.append(_Entry(True))
                    return
                case Verdict("reject"):
                    self.entries.append(_Entry(False))
                    return
                case Verdict("return"):
                    self.entries.append(_Entry(True, onward=True, goto=back))
                    return
                case Verdict("jump", chain):
                    after = self.label()
                    self.chain(chain, after, depth + 1)
                    self.entries.append(after)
                case Assign(name, value):
                    if name in SETTABLE:
                        sets = (f"{SETTABLE[name]} {value}",)
                        self.entries.append(_Entry(True, sets=sets, onward=True))
                case If():
                    self.condition(statement, back, depth)

    def condition(self, rule: If, back: str, depth: int) -> None:
        """Tests the cheaper way round, and merges a lone verdict into the test itself."""
        lone = _lone_verdict(rule.then)
        if lone is not None:
            self.tests(rule.condition, _Entry(lone.word == "accept"))
            self.body(rule.otherwise, back, depth)
            return
        then, end = self.label(), self.label()
        self.tests(rule.condition, _Entry(True, onward=True, goto=then))
        self.body(rule.otherwise, back, depth)
        self.entries.append(_Entry(True, onward=True, goto=end))
        self.entries.append(then)
        self.body(rule.then, back, depth)
        self.entries.append(end)

    def tests(self, condition: Sum, model: _Entry) -> None:
        for term in condition:
            if term.family not in (None, self.family):
                continue
            region = term.region
            if region.inside is not None and region.inside.version != self.family:
                continue
            self.entries.append(_Entry(model.permit, term, model.sets, model.onward, model.goto))


def _lone_verdict(statements: Sequence[Statement]) -> Verdict | None:
    if len(statements) == 1 and isinstance(statements[0], Verdict) and statements[0].word in ("accept", "reject"):
        return statements[0]
    return None


def _region_line(region: Region, family: int) -> str | None:
    """`10.0.0.0/8 ge 24 le 32`; None when no prefix of this family is in the region."""
    bounds = region.bounds(family)
    if bounds is None:
        return None
    inside, low, high = bounds
    text = str(inside)
    if low == high == inside.prefixlen:
        return text
    if low > inside.prefixlen:
        text += f" ge {low}"
    return f"{text} le {high}"


def render(name: str, chain: str, chains: Chains, family: int) -> list[str]:
    """FRR lines (prefix lists, then the route map) that do what `chain` does to routes of one family.

    `chains` holds the parsed, active rules; a chain without rules rejects everything, as the router does.
    """
    compiler = _Compiler(chains, family)
    compiler.chain(chain, _END)
    returns = any(isinstance(entry, _Entry) and entry.goto == _END for entry in compiler.entries)
    entries = _reachable([*compiler.entries, *([_END] if returns else []), _Entry(False)])
    numbers: dict[str, int] = {}
    count = 1
    for entry in entries:
        if isinstance(entry, str):
            numbers[entry] = 10 * count
        else:
            count += 1
    word = "ip" if family == 4 else "ipv6"
    lists: list[str] = []
    route_map: list[str] = []
    seq = 0
    for entry in entries:
        if isinstance(entry, str):
            continue
        seq += 10
        matching: list[str] = []
        if entry.term is not None and entry.term != Term(family=entry.term.family):
            wanted = _region_line(entry.term.region, family)
            if wanted is None:
                continue
            list_name = f"{name}.{seq}"
            holes = [line for hole in entry.term.holes if (line := _region_line(hole, family))]
            for place, line in enumerate([f"deny {hole}" for hole in holes] + [f"permit {wanted}"], 1):
                lists.append(f"{word} prefix-list {list_name} seq {5 * place} {line}")
            matching = [f" match {word} address prefix-list {list_name}"]
        route_map.append(f"route-map {name} {'permit' if entry.permit else 'deny'} {seq}")
        route_map += matching
        route_map += [f" set {what}" for what in entry.sets]
        if entry.onward:
            route_map.append(f" on-match goto {numbers[entry.goto]}" if entry.goto else " on-match next")
        route_map += ["exit", "!"]
    return [*lists, *(["!"] if lists else []), *route_map]


def _reachable(entries: Sequence[_Entry | str]) -> list[_Entry | str]:
    """Without what stands after an unconditional end and before the next label."""
    kept: list[_Entry | str] = []
    dead = False
    for entry in entries:
        if isinstance(entry, str):
            dead = False
        if dead:
            continue
        kept.append(entry)
        if isinstance(entry, _Entry) and entry.term is None and (not entry.onward or entry.goto):
            dead = True
    return kept
