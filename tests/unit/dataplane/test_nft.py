"""Firewall rows to nftables rules."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable

import pytest

from anycastlab.virtual_router.dataplane import nft
from anycastlab.virtual_router.dataplane.kernel import Result, load_ruleset

from .rows_of_a_home import INTERFACES, Rows, numbered


def firewall() -> Rows:
    return {
        "/interface/list/member": numbered(
            {"list": "LAN", "interface": "ether2-lan"},
            {"list": "LAN", "interface": "ether3-dns"},
            {"list": "WAN", "interface": "ether1-wan"},
        ),
        "/ip/firewall/address-list": numbered(
            {"list": "nodes", "address": "10.1.2.11"},
            {"list": "nodes", "address": "10.1.2.8/30"},
            {"list": "nodes", "address": "10.1.2.10-10.1.2.15"},
        ),
        "/ip/firewall/filter": numbered(
            {"chain": "input", "action": "accept", "connection-state": "established,related,untracked"},
            {"chain": "input", "action": "drop", "connection-state": "invalid"},
            {"chain": "input", "action": "accept", "protocol": "icmp"},
            {
                "chain": "input",
                "action": "accept",
                "dst-port": "179",
                "protocol": "tcp",
                "src-address-list": "nodes",
                "comment": "BGP",
            },
            {"chain": "input", "action": "accept", "protocol": "udp", "dst-port": "3784,4784,3784-3785"},
            {"chain": "input", "action": "drop", "in-interface-list": "!LAN", "log": "true", "log-prefix": "wan"},
            {"chain": "forward", "action": "accept", "ipsec-policy": "in,ipsec"},
            {"chain": "forward", "action": "accept", "ipsec-policy": "out,none", "src-address": "10.1.1.0/24"},
            {"chain": "forward", "action": "fasttrack-connection", "connection-state": "established,related"},
            {"chain": "forward", "action": "jump", "jump-target": "my checks", "in-interface": "ether1-wan"},
            {"chain": "my checks", "action": "return", "connection-nat-state": "dstnat"},
            {"chain": "my checks", "action": "reject", "protocol": "tcp", "reject-with": "tcp-reset"},
            {"chain": "my checks", "action": "drop", "disabled": "true"},
        ),
        "/ip/firewall/nat": numbered(
            {"chain": "srcnat", "action": "masquerade", "out-interface-list": "WAN"},
            {
                "chain": "dstnat",
                "action": "redirect",
                "protocol": "udp",
                "dst-address": "10.1.9.53",
                "dst-port": "53",
                "to-ports": "53",
            },
            {
                "chain": "dstnat",
                "action": "dst-nat",
                "protocol": "tcp",
                "dst-address": "203.0.113.2",
                "dst-port": "8080",
                "to-addresses": "10.1.1.20",
                "to-ports": "80",
            },
            {"chain": "srcnat", "action": "src-nat", "to-addresses": "203.0.113.2", "dst-address": "192.0.2.0/24"},
        ),
        "/ip/firewall/raw": numbered({"chain": "prerouting", "action": "notrack", "protocol": "ospf"}),
        "/ipv6/firewall/filter": numbered(
            {"chain": "input", "action": "accept", "protocol": "icmpv6"},
            {"chain": "input", "action": "drop", "src-address": "!fd00::/8"},
            {
                "chain": "input",
                "action": "accept",
                "protocol": "udp",
                "dst-port": "3784",
                "src-address": "fd00:10:1:2::11/128",
            },
            {"chain": "output", "action": "drop", "protocol": "icmpv6", "icmp-options": "137:0"},
        ),
        "/ipv6/firewall/nat": numbered(
            {
                "chain": "dstnat",
                "action": "redirect",
                "protocol": "udp",
                "dst-address": "fd00:10:1:9::53/128",
                "dst-port": "53",
                "to-ports": "53",
            },
            {
                "chain": "dstnat",
                "action": "dst-nat",
                "protocol": "tcp",
                "dst-port": "8080",
                "to-address": "fd00:10:1:1::20/128",
                "to-ports": "80",
            },
        ),
    }


def chain(ruleset: str, name: str) -> list[str]:
    """Rules of one chain of the IPv4 table, without counters and comments."""
    body = ruleset.split("table ip6")[0].split(f"chain {name} {{")[-1].split("}\n  chain")[0]
    rules = [line.strip() for line in body.splitlines() if "comment" in line]
    return [rule.split(" comment ")[0].replace("counter ", "").replace(" counter", "") for rule in rules]


def test_golden(golden: Callable[[str, str], None]) -> None:
    ruleset, notes = nft.render(firewall(), INTERFACES)
    assert notes == {}
    golden("firewall.nft", ruleset)


def test_nft_itself_takes_the_golden_ruleset() -> None:
    """`nft --check` in a network namespace of its own; needs the right to make one."""
    ruleset, _ = nft.render(firewall(), INTERFACES)
    result = subprocess.run(
        ["unshare", "--map-root-user", "--net", "nft", "--check", "--file", "-"],
        check=False,
        input=ruleset,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_no_rows_are_empty_chains_that_accept() -> None:
    ruleset, _ = nft.render({}, INTERFACES)
    assert "drop" not in ruleset
    assert ruleset.count("policy accept") == 2 * (2 + 3 + 2 + 2) + 2


def test_a_list_nobody_is_in_matches_nothing_and_its_negation_everything() -> None:
    rows: Rows = {
        "/ip/firewall/filter": numbered(
            {"chain": "input", "action": "accept", "src-address-list": "nobody"},
            {"chain": "input", "action": "drop", "src-address-list": "!nobody", "protocol": "tcp"},
        )
    }
    assert chain(nft.render(rows, INTERFACES)[0], "filter_input") == ["meta l4proto tcp drop"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"action": "tarpit"}, "action=tarpit"),
        ({"action": "drop", "layer7-protocol": "x"}, "layer7-protocol=x"),
        ({"action": "drop", "limit": "1,5:packet"}, "limit=1,5:packet"),
        ({"action": "drop", "dst-port": "53"}, "port without protocol"),
        ({"action": "drop", "protocol": "udp", "dst-port": "70000"}, "port=70000"),
        ({"action": "drop", "protocol": "udp", "dst-port": "60-50"}, "port=60-50"),
        ({"action": "drop", "protocol": "nonsense"}, "protocol=nonsense"),
        ({"action": "drop", "src-address": "10.1.2.0/33"}, "address=10.1.2.0/33"),
        ({"action": "drop", "src-address": "fd00::1"}, "address=fd00::1"),
        ({"action": "drop", "connection-state": "open"}, "connection-state=open"),
    ],
)
def test_what_is_not_emulated_is_refused_and_left_out(row: dict[str, str], reason: str) -> None:
    row = {"chain": "input", **row}
    refusal = nft.refuse("/ip/firewall/filter", row)
    assert refusal is not None
    assert reason in refusal
    rows: Rows = {"/ip/firewall/filter": numbered(row, {"chain": "input", "action": "drop", "protocol": "tcp"})}
    ruleset, notes = nft.render(rows, INTERFACES)
    assert chain(ruleset, "filter_input") == ["meta l4proto tcp drop"]
    assert reason in notes["/ip/firewall/filter", "*1"][".why"]


@pytest.mark.parametrize(
    "row",
    [
        {"chain": "dstnat", "action": "redirect", "protocol": "udp", "dst-port": "53", "to-ports": "53"},
        {"chain": "dstnat", "action": "redirect", "protocol": "tcp", "dst-port": "53"},
        {"chain": "srcnat", "action": "masquerade", "out-interface": "any-name"},
        {"chain": "dstnat", "action": "accept", "src-address-list": "some", "bytes": "0", "packets": "0"},
    ],
)
def test_what_is_emulated_is_not_refused(row: dict[str, str]) -> None:
    assert nft.refuse("/ip/firewall/nat", row) is None


def test_a_rule_nftables_refuses_is_taken_out_and_the_others_are_loaded() -> None:
    rows: Rows = {
        "/ip/firewall/filter": numbered(
            {"chain": "input", "action": "accept", "protocol": "tcp", "comment": "odd"},
            {"chain": "input", "action": "drop", "protocol": "udp"},
        )
    }
    ruleset, _ = nft.render(rows, INTERFACES)
    loads: list[str] = []

    async def picky(argv: object, stdin: str = "", timeout_s: float = 1) -> Result:  # noqa: ARG001
        loads.append(stdin)
        for number, line in enumerate(stdin.splitlines(), 1):
            if "l4proto tcp" in line:
                return Result(1, "", f"/dev/stdin:{number}:5-12: Error: no such protocol\n{line}\n    ^^^^\n")
        return Result(0, "", "")

    loaded = asyncio.run(load_ruleset(ruleset, picky))
    assert loaded.problem is None
    assert loaded.refused == {("/ip/firewall/filter", "*1"): "no such protocol"}
    assert "l4proto udp" in loads[-1]


def test_a_ruleset_that_cannot_be_loaded_at_all_is_a_problem() -> None:
    async def broken(argv: object, stdin: str = "", timeout_s: float = 1) -> Result:  # noqa: ARG001
        return Result(1, "", "Operation not permitted\n")

    assert asyncio.run(load_ruleset("table ip x\n", broken)).problem == "Operation not permitted"
