"""The rule language of `/routing/filter/rule`, parsed. Pure; `bird_filters` compiles it for BIRD.

    if (dst == 10.1.9.53/32) { accept } else { reject }
    if (dst in 10.0.0.0/8 && dst-len in 24-32) { set bgp-local-pref 120; accept; }

Emulated: the matchers `dst`, `dst-len`, `afi`, `protocol` and boolean expressions of them (`&&`, `||`, `not`, `!`,
parentheses), the verdicts `accept`, `reject`, `return`, `jump`, and `set` of bgp-local-pref, bgp-med, bgp-weight and
comment. Anything else makes the rule inactive, like a rule the router itself cannot parse; a chain's last word is
reject, so an inactive rule never opens a filter.

A condition is kept as a sum of products. One product over prefixes is a region (a prefix and a range of lengths) minus
other regions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_network

from anycastlab.virtual_router.dataplane.rows import Network

MAX_LENGTH = {4: 32, 6: 128}
MAX_TERMS = 64
"""Most products one condition may expand to; a rule that needs more is refused, not expanded for ever."""


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

    def bounds(self, family: int) -> tuple[Network, int, int] | None:
        """The prefix it lies in, and the lengths that occur there; None when no prefix of this family is in it.

        The lower bound is never below the prefix's own length: a shorter prefix is not inside.
        """
        inside = self.inside or ip_network("0.0.0.0/0" if family == 4 else "::/0")
        low, high = max(self.low, inside.prefixlen), min(self.high, MAX_LENGTH[family])
        return (inside, low, high) if inside.version == family and low <= high else None


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
SETTABLE = {"bgp-local-pref": "local-preference", "bgp-med": "metric", "bgp-weight": "weight"}
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
            if name not in SETTABLE and name not in _SILENT:
                raise RuleError(f"set {name}")
            if name in SETTABLE and not value.isdigit():
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
