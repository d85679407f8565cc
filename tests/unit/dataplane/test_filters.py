"""The filter language: the compiled route map decides as the rules say."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.virtual_router.dataplane import filters, route_maps

# --- an independent reading of FRR's route maps --------------------------------------------------------------------


def frr_decides(lines: list[str], name: str, route: IPv4Network) -> tuple[bool, dict[str, str]]:
    """What FRR does with `route`: (permitted, attributes set). Follows FRR's manual, not our compiler."""
    lists: dict[str, list[tuple[int, bool, IPv4Network, int, int]]] = {}
    entries: dict[int, tuple[bool, list[str]]] = {}
    current = 0
    for line in lines:
        if match := re.match(r"ip prefix-list (\S+) seq (\d+) (\w+) (\S+)(?: ge (\d+))?(?: le (\d+))?$", line):
            net = IPv4Network(match[4])
            low = int(match[5] or net.prefixlen)
            high = int(match[6]) if match[6] else (32 if match[5] else net.prefixlen)
            lists.setdefault(match[1], []).append((int(match[2]), match[3] == "permit", net, low, high))
        elif match := re.match(rf"route-map {re.escape(name)} (\w+) (\d+)$", line):
            current = int(match[2])
            entries[current] = (match[1] == "permit", [])
        elif line.startswith(" "):
            entries[current][1].append(line.strip())
        else:
            assert line in ("!", "exit"), line

    def in_list(wanted: str) -> bool:
        for _, permit, net, low, high in sorted(lists[wanted]):
            if route.subnet_of(net) and low <= route.prefixlen <= high:
                return permit
        return False

    attributes: dict[str, str] = {}
    at = 0
    for number in sorted(entries):
        if number < at:
            continue
        permit, clauses = entries[number]
        matching = [c.removeprefix("match ip address prefix-list ") for c in clauses if c.startswith("match ")]
        if not all(in_list(wanted) for wanted in matching):
            continue
        if not permit:
            return False, attributes
        for clause in clauses:
            if clause.startswith("set "):
                key, value = clause.removeprefix("set ").split()
                attributes[key] = value
        onward = [c for c in clauses if c.startswith("on-match ")]
        if not onward:
            return True, attributes
        target = onward[0].removeprefix("on-match ")
        at = number + 1 if target == "next" else int(target.removeprefix("goto "))
        assert at > number
    return False, attributes


def decide(chains: dict[str, list[str]], route: str, chain: str = "in") -> tuple[bool, dict[str, str]]:
    parsed = {name: [filters.parse(rule) for rule in rules] for name, rules in chains.items()}
    return frr_decides(route_maps.render("map", chain, parsed, 4), "map", IPv4Network(route))


# --- single rules ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "accepted", "rejected"),
    [
        (["if (dst == 10.1.9.53/32) { accept } else { reject }"], ["10.1.9.53/32"], ["0.0.0.0/0", "10.1.9.0/24"]),
        (["if (dst==10.1.9.53/32){accept}"], ["10.1.9.53/32"], ["10.1.9.52/32", "10.0.0.0/8"]),
        (["accept;"], ["0.0.0.0/0", "10.1.9.53/32"], []),
        (["reject"], [], ["0.0.0.0/0"]),
        ([], [], ["10.1.9.53/32"]),
        (["if (dst in 10.1.0.0/16 && dst-len == 32) { accept }"], ["10.1.9.53/32"], ["10.1.9.0/24", "10.2.0.1/32"]),
        (["if (dst in 10.0.0.0/8 && dst-len in 24-28) { accept }"], ["10.1.9.0/24"], ["10.1.9.53/32", "10.0.0.0/8"]),
        (["if (not (dst in 10.0.0.0/8)) { reject }", "accept"], ["10.0.0.0/8"], ["11.0.0.0/8", "0.0.0.0/0"]),
        (["if (dst != 10.0.0.0/8) { accept }"], ["10.0.0.0/9", "11.0.0.0/8"], ["10.0.0.0/8"]),
        (["if (dst-len > 24) { reject } else { accept }"], ["10.0.0.0/24"], ["10.0.0.0/25", "10.1.9.53/32"]),
        (["if (protocol bgp && afi == ipv4) { accept }"], ["10.1.9.53/32"], []),
        (["if (afi == ipv6) { accept }"], [], ["10.1.9.53/32"]),
        (["if (dst == 10.0.0.0/8 || dst == 11.0.0.0/8) { reject } else { accept }"], ["12.0.0.0/8"], ["11.0.0.0/8"]),
    ],
)
def test_verdicts(rules: list[str], accepted: list[str], rejected: list[str]) -> None:
    assert {route: decide({"in": rules}, route)[0] for route in accepted + rejected} == {
        **dict.fromkeys(accepted, True),
        **dict.fromkeys(rejected, False),
    }


def test_attributes_are_set_on_the_way() -> None:
    rules = ["if (dst-len == 32) { set bgp-local-pref 120; set bgp-med 7 }", "set bgp-weight 5; accept"]
    assert decide({"in": rules}, "10.1.9.53/32") == (
        True,
        {"local-preference": "120", "metric": "7", "weight": "5"},
    )
    assert decide({"in": rules}, "10.0.0.0/8") == (True, {"weight": "5"})


def test_jump_comes_back_and_return_goes_back() -> None:
    chains = {
        "in": ["jump checks", "if (dst-len == 32) { accept }"],
        "checks": ["if (dst in 10.1.9.0/24) { return }", "reject"],
    }
    assert decide(chains, "10.1.9.53/32")[0]
    assert not decide(chains, "10.2.0.1/32")[0]
    # A return of the outermost chain is its end, and an end without a verdict rejects.
    assert not decide({"in": ["return", "accept"]}, "10.1.9.53/32")[0]


def test_chains_that_jump_in_a_circle_are_refused() -> None:
    with pytest.raises(filters.RuleError, match="nested too deeply"):
        decide({"in": ["jump in"]}, "10.0.0.0/8")


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("if (bgp-communities includes 1:1) { accept }", "bgp-communities"),
        ("set distance 5; accept", "set distance"),
        ("if (dst == 10.1.9.53/33) { accept }", "10.1.9.53/33"),
        ("if (dst == 10.1.9.53/24) { accept }", "10.1.9.53/24"),
        ("if (dst == 10.1.9.53/32) { accept ", "}"),
        ("if dst == 10.1.9.53/32 { accept }", "("),
        ("", "empty"),
        ("accept }", "}"),
        ("if (dst-len == a) {accept}", "dst-len"),
        ("append bgp-path 1; accept", "append"),
    ],
)
def test_what_is_not_emulated_is_named(rule: str, part: str) -> None:
    with pytest.raises(filters.RuleError, match=re.escape(part)):
        filters.parse(rule)


# --- any condition -----------------------------------------------------------------------------------------------

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
