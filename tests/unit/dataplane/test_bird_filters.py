"""The filter language: the compiled BIRD functions decide as the rules say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router.dataplane import bird_filters, filters
from anycastlab.virtual_router.dataplane.chains import MAX_JUMPS

Route = IPv4Network | IPv6Network
Texts = Mapping[str, Sequence[str]]

# --- an independent reading of BIRD's filter language --------------------------------------------------------------

_TOKEN = re.compile(r"\s+|#[^\n]*|(&&|\|\||!~|[(){}\[\],;~=>]|'[\w.:-]+'|[\w.:/]+(?:\{\d+,\d+\}|\+)?)")


class Decided(Exception):  # noqa: N818 - not an error: the filter's last word
    """`accept` or `reject`."""


class Returned(Exception):  # noqa: N818 - not an error: back to the caller
    """`return`."""


@dataclass
class Bird:
    """Runs filters as BIRD's manual describes them (chapter 5), straight from their text."""

    text: str
    route: Route
    attributes: dict[str, int]
    tokens: list[str] = field(init=False)
    at: int = 0
    functions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tokens = [one for one in _TOKEN.findall(self.text) if one]
        assert _TOKEN.sub("", self.text) == ""

    def decides(self) -> bool:
        """Reads every function, then runs what follows them."""
        while self.peek() == "function":
            name = self.tokens[self.at + 1]
            assert name not in self.functions, "defined twice"
            assert self.tokens[self.at + 2 : self.at + 4] == ["(", ")"]
            self.at += 4
            self.functions[name] = self.at
            self.statement(run=False)
        try:
            while self.peek():
                self.statement(run=True)
        except Decided as decided:
            return str(decided) == "accept"
        raise AssertionError("a filter that does not decide")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        assert not expected or token in expected, (expected, token, self.text)
        self.at += 1
        return token

    def statement(self, run: bool) -> None:
        word = self.take()
        if word == "{":
            while self.peek() != "}":
                self.statement(run)
            self.take("}")
        elif word == "if":
            true = self.either()
            self.take("then")
            self.statement(run and true)
            if self.peek() == "else":
                self.take()
                self.statement(run and not true)
        elif word in ("accept", "reject"):
            self.take(";")
            if run:
                raise Decided(word)
        elif word == "return":
            self.take("true")
            self.take(";")
            if run:
                raise Returned
        elif self.peek() == "=":
            self.take()
            value = int(self.take())
            self.take(";")
            if run:
                self.attributes[word] = value
        else:
            self.call(word, run)

    def call(self, name: str, run: bool) -> None:
        self.take("(")
        self.take(")")
        self.take(";")
        body = self.functions[name]  # BIRD knows only what was defined before
        if run:
            back, self.at = self.at, body
            with suppress(Returned):
                self.statement(run=True)
            self.at = back

    def either(self) -> bool:
        true = self.both()
        while self.peek() == "||":
            self.take()
            true |= self.both()
        return true

    def both(self) -> bool:
        true = self.single()
        while self.peek() == "&&":
            self.take()
            true &= self.single()
        return true

    def single(self) -> bool:
        word = self.take("(", "net", "preference")
        if word == "(":
            true = self.either()
            self.take(")")
            return true
        if word == "preference":
            self.take(">")
            return self.attributes["preference"] > int(self.take())
        operator = self.take("~", "!~")
        self.take("[")
        found = self.matches(self.take())
        while self.take(",", "]") == ",":
            found |= self.matches(self.take())
        return found == (operator == "~")

    def matches(self, pattern: str) -> bool:
        """`10.0.0.0/8{low,high}`: that length, and alike in as many bits as both lengths have."""
        text, _, bounds = pattern.rstrip("+").partition("{")
        net = ip_network(text)
        assert net.version == self.route.version, "BIRD takes one family in a set"
        low, high = (int(one) for one in bounds.rstrip("}").split(",")) if bounds else (net.prefixlen, net.prefixlen)
        if pattern.endswith("+"):
            high = net.max_prefixlen
        alike = min(net.prefixlen, self.route.prefixlen)
        same = net.supernet(new_prefix=alike) == self.route.supernet(new_prefix=alike)
        return low <= self.route.prefixlen <= high and same


def parsed(chains: Texts) -> dict[str, list[tuple[filters.Statement, ...]]]:
    return {name: [filters.parse(rule) for rule in rules] for name, rules in chains.items()}


def text_of(chains: Texts, family: int = 4, chain: str = "in") -> str:
    rules = parsed(chains)
    use = (family, chain)
    return "\n".join([*bird_filters.functions([use], rules), *bird_filters.body(use, rules)])


def decide(chains: Texts, route: str, preference: int = 235, chain: str = "in") -> tuple[bool, dict[str, int]]:
    net = ip_network(route)
    attributes = {"preference": preference}
    accepted = Bird(text_of(chains, net.version, chain), net, attributes).decides()
    return accepted, attributes


# --- single rules ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "accepted", "rejected"),
    [
        (["if (dst == 10.1.9.53/32) { accept } else { reject }"], ["10.1.9.53/32"], ["0.0.0.0/0", "10.1.9.0/24"]),
        (["if (dst==10.1.9.53/32){accept}"], ["10.1.9.53/32"], ["10.1.9.52/32", "10.0.0.0/8"]),
        (["accept;"], ["0.0.0.0/0", "10.1.9.53/32", "fd53::53/128"], []),
        (["reject"], [], ["0.0.0.0/0"]),
        ([], [], ["10.1.9.53/32", "fd53::53/128"]),
        (["if (dst in 10.1.0.0/16 && dst-len == 32) { accept }"], ["10.1.9.53/32"], ["10.1.9.0/24", "10.2.0.1/32"]),
        (["if (dst in 10.0.0.0/8 && dst-len in 24-28) { accept }"], ["10.1.9.0/24"], ["10.1.9.53/32", "10.0.0.0/8"]),
        # The bounds of a length do not reach above the prefix.
        (["if (dst in 10.0.0.0/8 && dst-len < 10) { accept }"], ["10.0.0.0/8", "10.0.0.0/9"], ["0.0.0.0/0"]),
        (["if (not (dst in 10.0.0.0/8)) { reject }", "accept"], ["10.0.0.0/8"], ["11.0.0.0/8", "0.0.0.0/0"]),
        (["if (dst != 10.0.0.0/8) { accept }"], ["10.0.0.0/9", "11.0.0.0/8", "fd53::53/128"], ["10.0.0.0/8"]),
        (["if (dst-len > 24) { reject } else { accept }"], ["10.0.0.0/24"], ["10.0.0.0/25", "10.1.9.53/32"]),
        (["if (protocol bgp && afi == ipv4) { accept }"], ["10.1.9.53/32"], ["fd53::53/128"]),
        (["if (afi == ipv6) { accept }"], ["fd53::53/128"], ["10.1.9.53/32"]),
        (["if (dst == fd53::53/128) { accept }"], ["fd53::53/128"], ["fd53::54/128", "10.1.9.53/32"]),
        (["if (dst in fd00::/8 && dst-len in 48-64) { accept }"], ["fd53::/48"], ["fd53::/32", "fd53::53/128"]),
        (["if (dst == 10.0.0.0/8 || dst == 11.0.0.0/8) { reject } else { accept }"], ["12.0.0.0/8"], ["11.0.0.0/8"]),
        # An `else` belongs to its own `if`.
        (["if (dst-len == 8) { if (dst == 10.0.0.0/8) { accept } } else { reject }"], ["10.0.0.0/8"], ["11.0.0.0/8"]),
        (
            ["if (dst-len == 8) { if (dst == 10.0.0.0/8) { reject } } else { reject }", "accept"],
            ["11.0.0.0/8"],
            ["10.0.0.0/8", "10.0.0.0/9"],
        ),
        (["if (dst-len == 8) { } else { accept }"], ["10.0.0.0/9"], ["10.0.0.0/8"]),
        (["if (dst != 0.0.0.0/0 || dst-len < 9) { } else { accept }"], [], ["0.0.0.0/0", "10.0.0.0/9"]),
        (["if (dst-len == 8) { set comment x }", "accept"], ["10.0.0.0/9", "10.0.0.0/8"], []),
    ],
)
def test_verdicts(rules: list[str], accepted: list[str], rejected: list[str]) -> None:
    assert {route: decide({"in": rules}, route)[0] for route in accepted + rejected} == {
        **dict.fromkeys(accepted, True),
        **dict.fromkeys(rejected, False),
    }


def test_the_text_is_what_a_person_would_write() -> None:
    chains = {
        "in": ["if (dst in 10.1.0.0/16 && dst-len > 24 && dst != 10.1.9.53/32) { set bgp-med 7; jump more }", "return"],
        "more": ["if (dst == 10.0.0.0/8 || dst in 11.0.0.0/8) { accept } else { if (afi == ipv6) { reject } }"],
    }
    assert text_of(chains).splitlines() == [
        "function chain4_more()",
        "{",
        "  if net ~ [ 10.0.0.0/8, 11.0.0.0/8+ ] then accept;",
        "}",
        "",
        "function chain4_in()",
        "{",
        "  if net ~ [ 10.1.0.0/16{25,32} ] && net !~ [ 10.1.9.53/32 ] then {",
        "    bgp_med = 7;",
        "    chain4_more();",
        "  }",
        "  return true;",
        "}",
        "",
        "chain4_in();",
        "reject;",
    ]


def test_a_region_never_reaches_above_its_prefix() -> None:
    region = filters.Region(IPv4Network("10.0.0.0/8"), 0, 9)
    assert bird_filters.expression((filters.Term(region),), 4) == "net ~ [ 10.0.0.0/8{8,9} ]"


def test_attributes_are_set_on_the_way() -> None:
    rules = ["if (dst-len == 32) { set bgp-local-pref 120; set bgp-med 7 }", "set bgp-med 99999999999", "accept"]
    assert decide({"in": rules}, "10.1.9.53/32") == (
        True,
        {"preference": 235, "bgp_local_pref": 120, "bgp_med": 2**32 - 1},
    )
    assert decide({"in": rules}, "10.0.0.0/8") == (True, {"preference": 235, "bgp_med": 2**32 - 1})


def test_a_greater_weight_is_a_greater_preference_than_that_of_any_other_bgp_route() -> None:
    chains = {
        "in": [
            "if (dst-len == 8) { set bgp-weight 100 }",
            "if (dst-len == 9) { set bgp-weight 20; jump more }",
            "accept",
        ],
        "more": ["if (dst == 11.0.0.0/9) { set bgp-weight 0 }", "if (dst == 12.0.0.0/9) { set bgp-weight 4000000000 }"],
    }
    routes = ("10.0.0.0/10", "10.0.0.0/9", "10.0.0.0/8", "12.0.0.0/9", "11.0.0.0/9")
    assert [decide(chains, route)[1]["preference"] for route in routes] == [235, 236, 237, 238, 235]
    # One of the own AS starts lower, and stays there unless it gets a weight.
    assert [decide(chains, route, preference=55)[1]["preference"] for route in routes[:2]] == [55, 236]


def test_any_number_of_weights_stays_below_a_static_route() -> None:
    rules = [f"if (dst-len == {n}) {{ set bgp-weight {n + 1} }}" for n in range(33)]
    assert decide({"in": [*rules, "accept"]}, "10.1.9.53/32")[1]["preference"] < 254


def test_jump_comes_back_and_return_goes_back() -> None:
    chains = {
        "in": ["jump checks", "if (dst-len == 32) { accept }"],
        "checks": ["if (dst in 10.1.9.0/24) { return }", "reject"],
    }
    assert decide(chains, "10.1.9.53/32")[0]
    assert not decide(chains, "10.2.0.1/32")[0]
    # A return of the outermost chain is its end, and an end without a verdict rejects.
    assert not decide({"in": ["return", "accept"]}, "10.1.9.53/32")[0]
    # A jump to a chain without rules does nothing.
    assert decide({"in": ["jump nobody", "accept"], "empty": []}, "10.1.9.53/32")[0]


@pytest.mark.parametrize(
    "chains",
    [
        {"in": ["jump in"]},
        {"in": ["accept", "jump other"], "other": ["if (dst-len == 8) { jump in }"]},
        {f"{n}" if n else "in": [f"jump {n + 1}", "accept"] for n in range(MAX_JUMPS + 2)},
    ],
    ids=["itself", "a circle that is never run", "too deep"],
)
def test_chains_that_jump_in_a_circle_let_nothing_through(chains: Texts) -> None:
    assert text_of(chains) == f"reject; # jumps nested more than {MAX_JUMPS} deep"


def test_the_deepest_allowed_nesting_works_and_many_ways_to_a_chain_write_it_once() -> None:
    chains = {f"{n}" if n else "in": [f"jump {n + 1}"] * 9 for n in range(MAX_JUMPS)} | {f"{MAX_JUMPS}": ["accept"]}
    assert decide(chains, "10.0.0.0/8")[0]
    assert text_of(chains).count("function ") == MAX_JUMPS + 1


def test_names_with_spaces_and_quotes_stay_apart_in_bird() -> None:
    assert bird_filters.symbol("in4_", "in") == "in4_in"
    assert bird_filters.symbol("in4_", "anycast-in") == "'in4_anycast-in'"
    odd = ('a b"', "a b'", "a_b_", "ä b", "a\nb", "", "x" * 99 + "1", "x" * 99 + "2")
    names = {bird_filters.symbol("in4_", name) for name in odd}
    assert len(names) == len(odd)
    assert all(re.fullmatch(r"\w+|'[\w.:-]+'", name, re.ASCII) and len(name) <= 64 for name in names)


# --- any rules -----------------------------------------------------------------------------------------------------

_PREFIXES = ("0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.9.0/24", "10.1.9.53/32", "11.0.0.0/8")
_ATOMS = st.one_of(
    st.tuples(st.sampled_from(("dst ==", "dst !=", "dst in")), st.sampled_from(_PREFIXES)),
    st.tuples(
        st.sampled_from(("dst-len ==", "dst-len !=", "dst-len <", "dst-len >=")), st.sampled_from(("8", "24", "32"))
    ),
    st.tuples(st.just("dst-len in"), st.sampled_from(("0-8", "16-24", "9-31"))),
)
Condition = tuple[object, ...]
_CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(inner, st.sampled_from(("&&", "||")), inner),
    ),
    max_leaves=4,
)


def written(condition: Condition) -> str:
    match condition:
        case ("not", inner):
            return f"not ({written(inner)})"  # type: ignore[arg-type]
        case (left, ("&&" | "||") as operator, right):
            return f"({written(left)}) {operator} ({written(right)})"  # type: ignore[arg-type]
        case (name, value):
            return f"{name} {value}"
    raise AssertionError(condition)


def holds(condition: Condition, route: IPv4Network) -> bool:
    match condition:
        case ("not", inner):
            return not holds(inner, route)  # type: ignore[arg-type]
        case (left, "&&", right):
            return holds(left, route) and holds(right, route)  # type: ignore[arg-type]
        case (left, "||", right):
            return holds(left, route) or holds(right, route)  # type: ignore[arg-type]
        case ("dst ==", value):
            return route == ip_network(str(value))
        case ("dst !=", value):
            return route != ip_network(str(value))
        case ("dst in", value):
            return route.subnet_of(IPv4Network(str(value)))
        case ("dst-len in", value):
            low, high = str(value).split("-")
            return int(low) <= route.prefixlen <= int(high)
        case (str(name), value):
            length = int(str(value))
            return {
                "dst-len ==": route.prefixlen == length,
                "dst-len !=": route.prefixlen != length,
                "dst-len <": route.prefixlen < length,
                "dst-len >=": route.prefixlen >= length,
            }[name]
    raise AssertionError(condition)


@given(_CONDITIONS, st.sampled_from(("plain", "else", "body")))
def test_any_condition_decides_as_written(condition: Condition, shape: str) -> None:
    rule = {
        "plain": f"if ({written(condition)}) {{ accept }}",
        "else": f"if ({written(condition)}) {{ accept }} else {{ reject }}",
        "body": f"if ({written(condition)}) {{ set bgp-med 1; accept }} else {{ if (dst-len < 0) {{accept}}; reject }}",
    }[shape]
    for route in (*_PREFIXES, "10.1.9.54/32", "10.1.8.0/24", "192.0.2.0/24"):
        assert decide({"in": [rule]}, route)[0] == holds(condition, IPv4Network(route)), (rule, route)


_JUMPS = ("jump a", "jump b", "jump nobody")
_SETS = ("set bgp-med 1", "set bgp-med 2", "set bgp-local-pref 200", "set comment x")
_SIMPLE = st.sampled_from(("accept", "reject", "return", *_JUMPS, *_SETS))
Drawn = str | tuple[str, Condition, list[Any], list[Any]]
"""A simple statement as it is written, or `("if", condition, then, else)`."""


def _ifs(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    block = st.lists(inner, max_size=3)
    return st.tuples(st.just("if"), _CONDITIONS, block, block)


_CHAIN = st.lists(st.recursive(_SIMPLE, _ifs, max_leaves=4), max_size=4)


def _text(statement: Drawn) -> str:
    if isinstance(statement, str):
        return statement
    _, condition, then, otherwise = statement
    written_else = f" else {{ {'; '.join(map(_text, otherwise))} }}" if otherwise else ""
    return f"if ({written(condition)}) {{ {'; '.join(map(_text, then))} }}{written_else}"


def _jumps(statements: Sequence[Drawn]) -> set[str]:
    found: set[str] = set()
    for one in statements:
        if isinstance(one, str):
            found |= {one.removeprefix("jump ")} if one.startswith("jump ") else set()
        else:
            found |= _jumps(one[2]) | _jumps(one[3])
    return found


def _goes_in_a_circle(chains: Mapping[str, Sequence[Drawn]], name: str = "in", above: tuple[str, ...] = ()) -> bool:
    """Whether any chain that can be reached jumps back to one it came from, run or not."""
    return name in above or any(_goes_in_a_circle(chains, one, (*above, name)) for one in _jumps(chains.get(name, ())))


class Reading:
    """Chains run as RouterOS' manual describes them, straight from the drawn statements: an independent reading."""

    def __init__(self, chains: Mapping[str, Sequence[Drawn]], route: IPv4Network) -> None:
        self.chains, self.route = chains, route
        self.attributes: dict[str, int] = {}

    def decides(self) -> bool:
        """A chain that ends without a verdict rejects."""
        return self.chain("in") == "accept"

    def chain(self, name: str) -> str:
        verdict = self.block(self.chains.get(name, ()))
        return "" if verdict == "return" else verdict

    def block(self, statements: Sequence[Drawn]) -> str:
        for statement in statements:
            if verdict := self.statement(statement):
                return verdict
        return ""

    def statement(self, statement: Drawn) -> str:
        match statement:
            case ("if", condition, then, otherwise):
                return self.block(then if holds(condition, self.route) else otherwise)
            case str(text) if text in ("accept", "reject", "return"):
                return text
            case str(text) if text.startswith("jump "):
                return self.chain(text.removeprefix("jump "))
            case str(text):
                _, name, value = text.split()
                if name != "comment":
                    self.attributes[name.replace("-", "_")] = int(value)
                return ""
        raise AssertionError(statement)


@given(st.fixed_dictionaries({"in": _CHAIN, "a": _CHAIN, "b": _CHAIN}))
def test_any_chains_decide_and_set_as_they_read(chains: dict[str, list[Drawn]]) -> None:
    circular = _goes_in_a_circle(chains)
    texts = {name: [_text(one) for one in statements] for name, statements in chains.items()}
    for route in (*_PREFIXES, "10.1.9.54/32", "192.0.2.0/24"):
        reading = Reading(chains, IPv4Network(route))
        accepted, found = decide(texts, route)
        assert accepted == (not circular and reading.decides()), (texts, route)
        if accepted:
            assert found == {"preference": 235, **reading.attributes}, (texts, route)
