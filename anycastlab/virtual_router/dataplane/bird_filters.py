"""Filter chains compiled to functions of BIRD's filter language. Pure.

Both languages mean the same by `accept` and `reject` (the last word, however deeply called) and by `return` (back to
the caller), so a chain is a function and a jump is a call. A filter calls the function of its chain and rejects what
comes back. One function per chain and address family: what the family decides by itself is not in the text.

BIRD has no weight. It compares `preference` before everything else, so weights become preferences above that of every
other BGP route, in the order of the weights; the distance of such a route is therefore no longer 255 - preference.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anycastlab.virtual_router.dataplane.chains import MAX_JUMPS, Chains
from anycastlab.virtual_router.dataplane.filters import MAX_LENGTH, Assign, If, Region, Statement, Sum, Verdict
from anycastlab.virtual_router.dataplane.routing import EBGP_DISTANCE, TOP_DISTANCE

EBGP_PREFERENCE = TOP_DISTANCE - EBGP_DISTANCE
"""BIRD's preference of a route from another AS: distance and preference add up to the top."""
_MAX_WEIGHTED = 253
"""Highest preference a weight may give: a static route of distance 1 (254) still wins."""
_MAX_U32 = 2**32 - 1
_ATTRIBUTES = {"bgp-local-pref": "bgp_local_pref", "bgp-med": "bgp_med"}
_WEIGHT = "bgp-weight"
_SYMBOL_LENGTH = 40
"""Longest text of others that we put into a name; BIRD's symbols have at most 64 characters."""

Use = tuple[int, str]
"""An address family and the name of the chain its routes go through."""


def symbol(prefix: str, text: str) -> str:
    """A name BIRD takes; what had to be changed stays distinct by a checksum. `prefix` keeps it off BIRD's words."""
    clean = re.sub(r"[^A-Za-z0-9_.:-]", "_", text)[:_SYMBOL_LENGTH]
    name = prefix + (clean if clean == text and clean else f"{clean}-{zlib.crc32(text.encode()):08x}")
    return name if re.fullmatch(r"\w+", name) else f"'{name}'"


def body(use: Use, chains: Chains) -> list[str]:
    """What a filter says so that the chain decides; without rules, or in a circle of jumps, nothing gets through."""
    family, chain = use
    if nested_too_deeply(chain, chains):
        return [f"reject; # jumps nested more than {MAX_JUMPS} deep"]
    if not chains.get(chain):
        return ["reject; # a chain without rules"]
    return [f"{_function(family, chain)}();", "reject;"]


def functions(uses: Iterable[Use], chains: Chains) -> list[str]:
    """The functions that the bodies of `uses` call, each after those it calls itself."""
    sound = [use for use in sorted(set(uses)) if not nested_too_deeply(use[1], chains)]
    needed: dict[Use, None] = {}
    for use in sound:
        _collect(use, chains, needed)
    preferences = _preferences(rule for _, chain in needed for rule in chains[chain])
    lines: list[str] = []
    for family, chain in needed:
        compiler = _Compiler(chains, family, preferences)
        found, ended = compiler.statements([one for rule in chains[chain] for one in rule])
        # Where one end of a function has a value every end must have one.
        if not ended and any(line.strip().endswith("return true;") for line in found):
            found.append("return true;")
        lines += [f"function {_function(family, chain)}()", "{", *_indented(found), "}", ""]
    return lines


def nested_too_deeply(chain: str, chains: Chains) -> bool:
    """Whether jumps from `chain` can nest deeper than MAX_JUMPS, as those in a circle do."""
    level = {chain}
    for _ in range(MAX_JUMPS):
        level = {target for name in level for target in _targets(name, chains)}
    return any(next(_targets(name, chains), None) is not None for name in level)


def _function(family: int, chain: str) -> str:
    return symbol(f"chain{family}_", chain)


def _collect(use: Use, chains: Chains, into: dict[Use, None]) -> None:
    """Adds a chain with rules behind all it jumps to. Only for chains that are not nested too deeply."""
    family, chain = use
    if chains.get(chain) and use not in into:
        for target in _targets(chain, chains):
            _collect((family, target), chains, into)
        into[use] = None


def _targets(chain: str, chains: Chains) -> Iterator[str]:
    for rule in chains.get(chain, ()):
        yield from _jumps(rule)


def _jumps(statements: Sequence[Statement]) -> Iterator[str]:
    for statement in statements:
        match statement:
            case Verdict("jump", target):
                yield target
            case Verdict():
                return
            case If():
                yield from _jumps(statement.then)
                yield from _jumps(statement.otherwise)


def _assignments(statements: Sequence[Statement]) -> Iterator[Assign]:
    for statement in statements:
        match statement:
            case Assign():
                yield statement
            case If():
                yield from _assignments(statement.then)
                yield from _assignments(statement.otherwise)


def _preferences(rules: Iterable[Sequence[Statement]]) -> dict[int, int]:
    """Weight to preference, in order."""
    found = {int(one.value) for rule in rules for one in _assignments(rule) if one.name == _WEIGHT}
    return {
        weight: min(_MAX_WEIGHTED, EBGP_PREFERENCE + rank) for rank, weight in enumerate(sorted(found - {0}), start=1)
    }


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


@dataclass(frozen=True)
class _Compiler:
    chains: Chains
    family: int
    preferences: Mapping[int, int]

    def statements(self, statements: Sequence[Statement]) -> tuple[list[str], bool]:
        """The lines, and whether nothing after them is reached."""
        lines: list[str] = []
        for statement in statements:
            match statement:
                case Verdict("jump", chain):
                    if self.chains.get(chain):
                        lines.append(f"{_function(self.family, chain)}();")
                case Verdict("return"):
                    return [*lines, "return true;"], True
                case Verdict(word):
                    return [*lines, f"{word};"], True
                case Assign(name, value):
                    lines += self.assign(name, int(value)) if name in (*_ATTRIBUTES, _WEIGHT) else []
                case If():
                    found, ended = self.condition(statement)
                    lines += found
                    if ended:
                        return lines, True
        return lines, False

    def assign(self, name: str, value: int) -> list[str]:
        if name != _WEIGHT:
            return [f"{_ATTRIBUTES[name]} = {min(value, _MAX_U32)};"]
        if value:
            return [f"preference = {self.preferences[value]}; # weight {value}"]
        return [f"if preference > {EBGP_PREFERENCE} then preference = {EBGP_PREFERENCE}; # weight 0"]

    def condition(self, rule: If) -> tuple[list[str], bool]:
        test = expression(rule.condition, self.family)
        if test == "true":
            return self.statements(rule.then)
        if test == "false":
            return self.statements(rule.otherwise)
        then, then_ended = self.statements(rule.then)
        otherwise, otherwise_ended = self.statements(rule.otherwise)
        if not then:
            # `if (…) { } else { … }`: the other way round.
            test = expression(rule.negated, self.family)
            then, then_ended, otherwise, otherwise_ended = otherwise, otherwise_ended, [], False
            if test == "true":
                return then, then_ended
        if not then or test == "false":
            return [], False
        lines = _block(f"if {test} then", then)
        if otherwise:
            lines += _block("else", otherwise)
        return lines, then_ended and otherwise_ended


def _block(head: str, lines: Sequence[str]) -> list[str]:
    # An `if` gets braces, so that an `else` after it is not taken for its own.
    if len(lines) == 1 and (head == "else" or not lines[0].startswith("if ")):
        return [f"{head} {lines[0]}"]
    return [f"{head} {{", *_indented(lines), "}"]


def expression(condition: Sum, family: int) -> str:
    """A condition for routes of one family; `true` or `false` when the family alone decides it."""
    sets: list[str] = []
    others: list[str] = []
    for term in condition:
        wanted = _pattern(term.region, family)
        holes = [hole for one in term.holes if (hole := _pattern(one, family)) is not None]
        if wanted is None or "" in holes or term.family not in (None, family):
            continue
        if not wanted and not holes:
            return "true"
        if not holes:
            sets.append(wanted)
            continue
        within = f"net ~ [ {wanted} ] && " if wanted else ""
        others.append(f"{within}net !~ [ {', '.join(dict.fromkeys(holes))} ]")
    alternatives = [f"net ~ [ {', '.join(dict.fromkeys(sets))} ]"] if sets else []
    alternatives += dict.fromkeys(others)
    if len(alternatives) > 1:
        alternatives = [f"({one})" if "&&" in one else one for one in alternatives]
    return " || ".join(alternatives) or "false"


def _pattern(region: Region, family: int) -> str | None:
    """`10.0.0.0/8{24,32}`; empty for all prefixes of this family, None for none of them."""
    bounds = region.bounds(family)
    if bounds is None:
        return None
    inside, low, high = bounds
    if low == inside.prefixlen and high == MAX_LENGTH[family]:
        # A full-length prefix has nothing longer inside.
        return f"{inside}{'+' if low < high else ''}" if low else ""
    return str(inside) if low == high == inside.prefixlen else f"{inside}{{{low},{high}}}"
