"""The running configuration agrees with the file when every statement stands in the same block."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from anycastlab.node import layout, render
from anycastlab.node.facts import SessionFact
from anycastlab.node.frr_config import MACHINES_OWN, agrees, machines_own, session_digest, statements
from anycastlab.node.render import Machine
from anycastlab.site import Service
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


@pytest.mark.parametrize(
    ("bgp", "same"),
    [
        ({}, True),
        ({"connect_retry_s": 5, "hold_s": 30}, True),
        ({"node_asn": 65054}, False),
        ({"router_asn": 65001}, False),
        ({"password": "k3y"}, False),
    ],
)
def test_what_both_ends_of_a_session_must_agree_about(bgp: dict[str, Any], same: bool) -> None:
    site = home()
    changed = site.model_copy(update={"bgp": site.bgp.model_copy(update=bgp)})
    wanted = render.frr_conf(changed, site.nodes[0], render.Machine("another")).decode()
    assert (session_digest(wanted) == session_digest(as_shown(frr_conf()))) is same


def test_the_node_digests_its_sessions_as_we_do(tmp_path: Path) -> None:
    site = home()
    keyed = site.model_copy(update={"bgp": site.bgp.model_copy(update={"password": "k3y"})})
    text = render.frr_conf(keyed, site.nodes[0], render.Machine("node01")).decode()
    vtysh = tmp_path / "vtysh"
    vtysh.write_text(f"#!/bin/sh\ncat <<'END'\n{as_shown(text)}END\n")
    vtysh.chmod(0o755)
    command = "".join(str(bit) for bit in SessionFact().command().bits)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    output = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=True).stdout
    assert SessionFact().process(output.splitlines()) == session_digest(text)


def test_an_ipv6_session_that_comes_does_not_make_the_ipv4_one_another() -> None:
    addresses = {"address6": "fd01::11", "gateway6": "fd01::1"}
    plain, twin = home(nodes=1), home(nodes=1, node01=addresses, service=Service(address6="fd53::53"))
    text, other = (render.frr_conf(s, s.nodes[0], render.Machine("node01")).decode() for s in (plain, twin))
    assert "neighbor fd01::1 remote-as" in other
    assert session_digest(text) == session_digest(other)


def test_the_same_statement_in_another_block_is_another() -> None:
    one = "router bgp 1\n address-family ipv4 unicast\n  network a\n exit-address-family\nexit\n"
    other = "router bgp 1\n address-family ipv6 unicast\n  network a\n exit-address-family\nexit\n"
    assert statements(one) != statements(other)
    assert ("router bgp 1 / address-family ipv4 unicast", "network a") in statements(one)


def test_nothing_running_does_not_agree() -> None:
    assert not agrees("", frr_conf())


@pytest.mark.parametrize(
    "own",
    [
        "hostname node01\nno ip forwarding\nno ipv6 forwarding\n",
        "hostname renamed\n",  # it forwards
        "hostname node01\nno ipv6 forwarding\nhostname renamed\n",  # as FRR shows a name that changed under it
        "hostname pi\ndomainname example.lan\n",
    ],
)
def test_a_machine_that_was_renamed_or_began_to_forward_is_no_drift(own: str) -> None:
    running = as_shown(frr_conf())
    for line in ("hostname node01\n", "no ip forwarding\n", "no ipv6 forwarding\n"):
        assert line in running
        running = running.replace(line, "")
    assert agrees(running.replace("log syslog", f"{own}log syslog"), frr_conf())


def test_forwarding_inside_a_block_is_a_statement() -> None:
    assert statements("interface eth0\n ip forwarding\n") > statements("interface eth0\n")


@pytest.mark.parametrize("machine", [Machine("a"), Machine("b", True, False), Machine("c.d", True, True)])
def test_the_machines_own_lines_come_back_out_of_the_file(tmp_path: Path, machine: Machine) -> None:
    text = render.frr_conf(home(), home().nodes[0], machine).decode()
    file = tmp_path / "frr.conf"
    file.write_text(text)
    # the node reads them with grep
    lines = subprocess.run(["grep", "-Ex", MACHINES_OWN, str(file)], capture_output=True, text=True, check=True).stdout
    for source in (text, lines):
        own = machines_own(source)
        assert Machine(own.hostname, own.ipv4_forwarding, own.ipv6_forwarding) == machine
