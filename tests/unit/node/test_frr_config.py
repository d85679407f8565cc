"""The running configuration agrees with the file when every statement stands in the same block."""

from __future__ import annotations

from anycastlab.node import layout, render
from anycastlab.node.frr_config import agrees, statements
from tests.unit.node.homes import home


def frr_conf() -> str:
    made = render.files(home(), home().nodes[0], render.Machine("node01"))
    return next(f.content.decode() for f in made if f.path == layout.FRR_CONFIG)


def as_shown(text: str) -> str:
    """The same, as vtysh prints it: a header, and prefix lists after the routers, as FRR 8 has them."""
    blocks = text.split("!\n")
    lists = [block for block in blocks if block.startswith("ip prefix-list")]
    rest = [block for block in blocks if not block.startswith("ip prefix-list")]
    head = "Building configuration...\n\nCurrent configuration:\n!\nfrr version 8.4.4\n"
    return head + "!\n".join([*rest, *lists]) + "end\n"


def test_order_and_header_do_not_matter() -> None:
    assert agrees(as_shown(frr_conf()), frr_conf())


def test_a_missing_statement_matters() -> None:
    assert not agrees(as_shown(frr_conf()).replace(" neighbor 10.1.2.1 bfd\n", ""), frr_conf())


def test_an_extra_statement_matters() -> None:
    typed = as_shown(frr_conf()).replace(
        " bgp log-neighbor-changes\n", " bgp log-neighbor-changes\n neighbor 10.1.2.1 shutdown\n"
    )
    assert not agrees(typed, frr_conf())


def test_the_same_statement_in_another_block_is_another() -> None:
    one = "router bgp 1\n address-family ipv4 unicast\n  network a\n exit-address-family\nexit\n"
    other = "router bgp 1\n address-family ipv6 unicast\n  network a\n exit-address-family\nexit\n"
    assert statements(one) != statements(other)
    assert ("router bgp 1 / address-family ipv4 unicast", "network a") in statements(one)


def test_nothing_running_does_not_agree() -> None:
    assert not agrees("", frr_conf())
