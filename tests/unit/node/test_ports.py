"""Who holds a port is known by process and address: a stranger is refused by name, and what is elsewhere stays."""

from __future__ import annotations

import dataclasses
import re
import socket
import subprocess

import pytest

from anycastlab.node import layout, plan, ports
from anycastlab.node.errors import NodeError
from anycastlab.node.facts import NodeState, UnitState
from anycastlab.node.ports import Holder
from tests.unit.node.homes import home
from tests.unit.node.test_plan import done, make, wanted

SITE = home()
ADGUARD, UNBOUND = SITE.node("node01"), SITE.node("node02")
OURS = Holder("udp", "*", 53, "AdGuardHome", 7, "adguardhome.service", layout.ADGUARD_PROGRAM)
PIHOLES = Holder("udp", "127.0.0.1", 5335, "unbound", 8, "unbound.service", "/usr/sbin/unbound")
DISTRIBUTIONS = dataclasses.replace(PIHOLES, port=53)
RESOLVED = "/usr/lib/systemd/systemd-resolved"
STUB = Holder("udp", "127.0.0.53", 53, "systemd-resolve", 9, "systemd-resolved.service", RESOLVED)

# As ss of iproute2 6 prints them on Debian 13.
SOCKETS = [
    'udp UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:* users:(("systemd-resolve",pid=9,fd=14))',
    'udp UNCONN 0 0 *:53 *:* users:(("AdGuardHome",pid=7,fd=11))',
    'tcp LISTEN 0 4096 [::1]:53 [::]:* users:(("dnsmasq",pid=12,fd=5),("dnsmasq",pid=11,fd=5))',
    "tcp LISTEN 0 4096 0.0.0.0:3000 0.0.0.0:*",
]
HOLDERS = [
    f"7 adguardhome.service {layout.ADGUARD_PROGRAM} (deleted)",
    "9 systemd-resolved.service /usr/lib/systemd/systemd-resolved",
    "11 - /usr/sbin/dnsmasq",
    "12 - ",  # it ended meanwhile
]


def test_what_the_machine_prints_is_read() -> None:
    assert ports.parse(SOCKETS, HOLDERS) == (
        STUB,
        OURS,
        Holder("tcp", "::1", 53, "dnsmasq", 11, "", "/usr/sbin/dnsmasq"),
        Holder("tcp", "0.0.0.0", 3000, "an unknown program", 0),
    )


def refused(node: object, *held: Holder, started: tuple[str, ...] = ()) -> NodeError:
    with pytest.raises(NodeError) as error:
        ports.require_free(SITE, node, held, started)  # type: ignore[arg-type]
    assert "nothing was changed" in error.value.hint
    return error.value


@pytest.mark.parametrize(
    ("holder", "sentence", "hint"),
    [
        (
            Holder("tcp", "*", 53, "AdGuardHome", 3, "AdGuardHome.service", "/opt/AdGuardHome/AdGuardHome"),
            "node01: port 53, where the resolver answers, is held by AdGuardHome (AdGuardHome.service, "
            "/opt/AdGuardHome/AdGuardHome) on *.",
            "`systemctl disable --now AdGuardHome.service`",
        ),
        (  # our unit's name, and somebody else's program
            Holder("udp", "0.0.0.0", 53, "AdGuardHome", 3, "adguardhome.service", "/opt/AdGuardHome/AdGuardHome"),
            "is held by AdGuardHome (adguardhome.service, /opt/AdGuardHome/AdGuardHome) on 0.0.0.0.",
            "",
        ),
        (
            Holder("udp", "*", 53, "AdGuardHome", 3, "", layout.ADGUARD_PROGRAM),
            f"is held by AdGuardHome ({layout.ADGUARD_PROGRAM}) on *.",
            "",
        ),
        (
            Holder("udp", "*", 53, "AdGuardHome", 3, "mine.service", layout.ADGUARD_PROGRAM),
            f"is held by AdGuardHome (mine.service, {layout.ADGUARD_PROGRAM}) on *.",
            "`systemctl disable --now mine.service`",
        ),
        (
            Holder("tcp", "*", 3000, "grafana", 3, "grafana-server.service", "/usr/share/grafana/bin/grafana"),
            "node01: port 3000, for AdGuard Home's web page, is held by grafana (grafana-server.service) on *.",
            "have it listen elsewhere",
        ),
        (DISTRIBUTIONS, "held by unbound (unbound.service) on 127.0.0.1.", "set its `resolver` to unbound"),
        (Holder("udp", "192.168.122.1", 53, "dnsmasq", 3, "libvirtd.service", "/usr/sbin/dnsmasq"), "dnsmasq", ""),
        (Holder("udp", "10.1.2.11", 53, "systemd-resolve", 9, "", STUB.program), "systemd-resolve", ""),
        (Holder("udp", "*", 53, "docker-proxy", 3, "docker.service", "/usr/bin/docker-proxy"), "docker-proxy", ""),
        (Holder("tcp", "0.0.0.0", 179, "bird", 3, "bird.service", "/usr/sbin/bird"), "port 179, for BGP", ""),
        (Holder("udp", "10.1.2.11", 9153, "x", 3), "port 9153, where the health probes talk, is held by x on", "it"),
    ],
)  # fmt: skip
def test_a_stranger_on_a_port_of_ours_is_refused_by_name(holder: Holder, sentence: str, hint: str) -> None:
    error = refused(ADGUARD, holder)
    assert sentence in error.problem
    assert hint in error.hint


def test_a_second_resolver_beside_ours_is_refused() -> None:
    """With SO_REUSEPORT both listen, and each gets a part of the questions."""
    second = Holder("udp", "0.0.0.0", 53, "dnsmasq", 3, "dnsmasq.service", "/usr/sbin/dnsmasq")
    assert "held by dnsmasq (dnsmasq.service) on 0.0.0.0." in refused(ADGUARD, OURS, second).problem


@pytest.mark.parametrize(
    "holder",
    [
        PIHOLES,  # nobody's port but its own
        Holder("tcp", "127.0.0.1", 3000, "grafana", 3, "grafana-server.service", "/usr/share/grafana/bin/grafana"),
        Holder("tcp", "10.1.2.11", 9153, "coredns", 3),  # no metrics, and no reason to stop
        Holder("tcp", "*", 179, "bgpd", 3, "frr.service", "/usr/lib/frr/bgpd"),
        OURS,
        STUB,
    ],
)
def test_what_is_not_in_the_way_is_left_alone(holder: Holder) -> None:
    ports.require_free(SITE, ADGUARD, [holder], ())


def test_the_unbound_that_a_deploy_started_is_ours_and_where_unbound_is_wanted_the_distributions_is() -> None:
    ports.require_free(SITE, ADGUARD, [DISTRIBUTIONS], ["unbound.service"])
    ports.require_free(SITE, UNBOUND, [DISTRIBUTIONS], ())
    refused(ADGUARD, DISTRIBUTIONS)


def test_dns_over_tls_needs_its_port_only_where_it_is_on() -> None:
    stunnel = Holder("tcp", "*", 853, "stunnel", 3)
    ports.require_free(SITE, ADGUARD, [stunnel], ())
    with pytest.raises(NodeError, match="port 853, for DNS over TLS, is held by stunnel"):
        ports.require_free(home(resolver={"dot": True}), ADGUARD, [stunnel], ())


def test_the_script_sees_this_machines_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setattr(layout, "BGP_PORT", port)
        say = 'say() { printf \'%s\\t%s\\n\' "$1" "$2"; }\n'
        done = subprocess.run(["sh", "-c", say + ports.script()], capture_output=True, text=True, check=True)
    lines = [line.split("\t", 1) for line in done.stdout.splitlines()]
    held = ports.parse(*([value for key, value in lines if key == kind] for kind in ("socket", "holder")))
    (ours,) = [holder for holder in held if holder.port == port]
    assert (ours.protocol, ours.address) == ("tcp", "127.0.0.1")
    assert re.match(r"(python|pytest)", ours.process)
    assert "python" in ours.program


# What a plan does about it ------------------------------------------------------------------------------------------


def unbound_runs(state: NodeState, **changes: object) -> NodeState:
    units = {**state.units, "unbound.service": UnitState("active", "enabled", "loaded")}
    return dataclasses.replace(state, units=units, **changes)  # type: ignore[arg-type]


def test_a_persons_unbound_is_not_disabled_because_of_its_name() -> None:
    state = unbound_runs(done(wanted("node01")), held=(OURS, PIHOLES))
    assert not make(wanted("node01"), state).changes


def test_an_unbound_that_an_earlier_deploy_started_is() -> None:
    state = done(wanted("node01"))
    state = unbound_runs(state, applied={**state.applied, "unbound.service": "d"}, held=(OURS, DISTRIBUTIONS))
    assert make(wanted("node01"), state).disable == ("unbound.service",)


@pytest.mark.parametrize("name", ["node01", "node02"])
def test_a_node_does_not_become_its_own_resolver(name: str) -> None:
    state = done(wanted(name))
    units = {**state.units, layout.OWN_RESOLVER_UNIT: UnitState("active", "enabled", "loaded")}
    found = make(wanted(name), dataclasses.replace(state, units=units))
    assert found.disable == (layout.OWN_RESOLVER_UNIT,)
    assert not found.interrupts


def test_where_unbound_is_somebodys_a_unit_that_does_nothing_stays() -> None:
    state = done(wanted("node01"))
    units = {**state.units, layout.OWN_RESOLVER_UNIT: UnitState("inactive", "enabled", "loaded")}
    assert not make(wanted("node01"), dataclasses.replace(state, units=units)).changes


def test_started_is_what_a_stamp_or_our_program_says() -> None:
    assert plan.started(NodeState()) == frozenset()
    assert plan.started(NodeState(applied={"unbound.service": "d", "frr.service": "d"})) == {"unbound.service"}
    assert plan.started(NodeState(held=(OURS,))) == {"adguardhome.service"}
