"""The rule language of `/routing/filter/rule`, parsed and compiled to FRR prefix lists and route maps. Pure.

    if (dst == 10.1.9.53/32) { accept } else { reject }
    if (dst in 10.0.0.0/8 && dst-len in 24-32) { set bgp-local-pref 120; accept; }

Emulated: the matchers `dst`, `dst-len`, `afi`, `protocol` and boolean expressions of them (`&&`, `||`, `not`, `!`,
parentheses), the verdicts `accept`, `reject`, `return`, `jump`, and `set` of bgp-local-pref, bgp-med, bgp-weight and
comment. Anything else makes the rule inactive, like a rule the router itself cannot parse; a chain's last word is
reject, so an inactive rule never opens a filter.

A boolean expression becomes a sum of products. One product over prefixes is a region (a prefix and a range of
lengths) minus other regions, which is exactly one FRR prefix list: the holes as `deny`, then the region as `permit`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network

from anycastlab.virtual_router.dataplane.rows import Network

MAX_LENGTH = {4: 32, 6: 128}
MAX_TERMS = 64
"""Most products one condition may expand to; a rule that needs more is refused, not expanded for ever."""
MAX_JUMPS = 8
"""Deepest nesting of jumps, so that chains that jump in a circle end."""


class RuleError(ValueError):
    """This rule is not emulated; the text says which part."""


@dataclass(frozen=True)
class Region:
    """Prefixes inside `inside` (None: everywhere) whose length lies in [low, high]."""

    inside: Network | None = None
    low: int = 0
    high: int = 128

    def meet(self, other: Region) -> Region | None:
        """The prefixes in both; None when there are none."""
        inside = self.inside
        if inside is None:
            inside = other.inside
        elif other.inside is not None:
            first, second = sorted((inside, other.inside), key=lambda net: net.prefixlen)
            if first.version != second.version or not second.subnet_of(first):  # type: ignore[arg-type]
                return None
            inside = second
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Region(inside, low, high) if low <= high else None


@dataclass(frozen=True)
class Term:
    """A product: prefixes in `region` and in none of `holes`, of address family `family` (None: both)."""

    region: Region = Region()
    holes: tuple[Region, ...] = ()
    family: int | None = None

    def meet(self, other: Term) -> Term | None:
        region = self.region.meet(other.region)
        if region is None or (self.family and other.family and self.family != other.family):
            return None
        return Term(region, self.holes + other.holes, self.family or other.family)


# A condition as sum of products; an empty sum is "never".
Sum = tuple[Term, ...]
ALWAYS: Sum = (Term(),)


@dataclass(frozen=True)
class Verdict:
    """`accept`, `reject`, `return`, or `jump` with a chain."""

    word: str
    chain: str = ""


@dataclass(frozen=True)
class Assign:
    """`set <name> <value>`."""

    name: str
    value: str


@dataclass(frozen=True)
class If:
    condition: Sum
    negated: Sum
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement = Verdict | Assign | If

_TOKEN = re.compile(
    r"\s*(?:(?P<op>&&|\|\||==|!=|<=|>=|[(){};<>!])|(?P<text>\"(?:[^\"\\]|\\.)*\")|(?P<word>[^\s(){};<>=!&|\"]+))"
)
_SETTABLE = {"bgp-local-pref": "local-preference", "bgp-med": "metric", "bgp-weight": "weight"}
_SILENT = {"comment"}  # set, but without effect on routing


def _tokens(rule: str) -> list[str]:
    tokens, end = [], 0
    rule = rule.rstrip()
    while end < len(rule):
        match = _TOKEN.match(rule, end)
        if match is None:
            raise RuleError(f"cannot read {rule[end : end + 20].strip()!r}")
        tokens.append(match[0].strip())
        end = match.end()
    return tokens


def _product(left: Sum, right: Sum) -> Sum:
    terms = tuple(term for a in left for b in right if (term := a.meet(b)) is not None)
    if len(terms) > MAX_TERMS:
        raise RuleError("condition too large")
    return terms


class _Parser:
    """Recursive descent; a condition is kept together with its negation, so `else` and `not` need no second pass."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise RuleError(f"expected {expected or 'more'!r}, found {token or 'the end'!r}")
        self.at += 1
        return token

    def statements(self, until: str = "") -> tuple[Statement, ...]:
        found: list[Statement] = []
        while self.peek() != until:
            if self.peek() == ";":
                self.take()
                continue
            if not self.peek():
                self.take(until)
            found.append(self.statement())
        return tuple(found)

    def block(self) -> tuple[Statement, ...]:
        self.take("{")
        found = self.statements("}")
        self.take("}")
        return found

    def statement(self) -> Statement:
        word = self.take()
        if word in ("accept", "reject", "return"):
            return Verdict(word)
        if word == "jump":
            return Verdict("jump", self.take().strip('"'))
        if word == "set":
            name, value = self.take(), self.take().strip('"')
            if name not in _SETTABLE and name not in _SILENT:
                raise RuleError(f"set {name}")
            if name in _SETTABLE and not value.isdigit():
                raise RuleError(f"set {name} {value}")
            return Assign(name, value)
        if word == "if":
            self.take("(")
            condition, negated = self.either()
            self.take(")")
            then = self.block()
            otherwise: tuple[Statement, ...] = ()
            if self.peek() == "else":
                self.take()
                otherwise = (self.statement(),) if self.peek() == "if" else self.block()
            return If(condition, negated, then, otherwise)
        raise RuleError(word)

    def either(self) -> tuple[Sum, Sum]:
        yes, no = self.both()
        while self.peek() in ("||", "or"):
            self.take()
            also, nor = self.both()
            yes, no = (*yes, *also), _product(no, nor)
        return yes, no

    def both(self) -> tuple[Sum, Sum]:
        yes, no = self.single()
        while self.peek() in ("&&", "and"):
            self.take()
            also, nor = self.single()
            yes, no = _product(yes, also), (*no, *nor)
        return yes, no

    def single(self) -> tuple[Sum, Sum]:
        if self.peek() in ("!", "not"):
            self.take()
            yes, no = self.single()
            return no, yes
        if self.peek() == "(":
            self.take()
            result = self.either()
            self.take(")")
            return result
        return self.matcher()

    def matcher(self) -> tuple[Sum, Sum]:
        name = self.take()
        if name == "dst":
            operator = self.take()
            if operator not in ("==", "!=", "in"):
                raise RuleError(f"dst {operator}")
            prefix = _prefix(self.take())
            top = MAX_LENGTH[prefix.version]
            region = Region(prefix, prefix.prefixlen, top if operator == "in" else prefix.prefixlen)
            result = _with_negation(region)
            return (result[1], result[0]) if operator == "!=" else result
        if name == "dst-len":
            return self.length()
        if name == "afi":
            operator, value = self.take(), self.take()
            if operator not in ("==", "!=") or value not in ("ip", "ip4", "ipv4", "ip6", "ipv6"):
                raise RuleError(f"afi {operator} {value}")
            family = 6 if value.endswith("6") else 4
            result = (Term(family=family),), (Term(family=10 - family),)
            return (result[1], result[0]) if operator == "!=" else result
        if name == "protocol":
            # Only BGP routes ever meet these chains here.
            operator, value = ("==", self.take()) if self.peek() not in ("==", "!=") else (self.take(), self.take())
            is_bgp = (value == "bgp") == (operator == "==")
            return (ALWAYS, ()) if is_bgp else ((), ALWAYS)
        raise RuleError(name)

    def length(self) -> tuple[Sum, Sum]:
        operator, value = self.take(), self.take()
        if operator == "in":
            match = re.fullmatch(r"(\d+)-(\d+)", value)
            if match is None:
                raise RuleError(f"dst-len in {value}")
            low, high = int(match[1]), int(match[2])
        elif value.isdigit():
            number = int(value)
            bounds = {"==": (number, number), "!=": (number, number), "<": (0, number - 1), "<=": (0, number)}
            bounds |= {">": (number + 1, 128), ">=": (number, 128)}
            if operator not in bounds:
                raise RuleError(f"dst-len {operator}")
            low, high = bounds[operator]
        else:
            raise RuleError(f"dst-len {operator} {value}")
        yes: Sum = (Term(Region(None, low, high)),) if low <= high else ()
        no = tuple(Term(Region(None, a, b)) for a, b in ((0, low - 1), (high + 1, 128)) if a <= b)
        return (no, yes) if operator == "!=" else (yes, no)


def _prefix(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise RuleError(f"dst {text}") from error


def _with_negation(region: Region) -> tuple[Sum, Sum]:
    return (Term(region),), (Term(holes=(region,)),)


def parse(rule: str) -> tuple[Statement, ...]:
    """Raises RuleError naming the part that is not emulated."""
    parser = _Parser(_tokens(rule))
    found = parser.statements()
    if not found:
        raise RuleError("empty rule")
    return found


# --- compiling -------------------------------------------------------------------------------------------------


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
    chains: Mapping[str, Sequence[tuple[Statement, ...]]]
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
                    if name in _SETTABLE:
                        sets = (f"{_SETTABLE[name]} {value}",)
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
    inside = region.inside or ip_network("0.0.0.0/0" if family == 4 else "::/0")
    if inside.version != family:
        return None
    low, high = max(region.low, inside.prefixlen), min(region.high, MAX_LENGTH[family])
    if low > high:
        return None
    text = str(inside)
    if low == high == inside.prefixlen:
        return text
    if low > inside.prefixlen:
        text += f" ge {low}"
    return f"{text} le {high}"


def render(name: str, chain: str, chains: Mapping[str, Sequence[tuple[Statement, ...]]], family: int) -> list[str]:
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
