"""What the configuration of a node relies on in FRR (of both Debian releases) and AdGuard Home.

If one of these fails after an upgrade, the reasoning in `anycastlab/templates` and `anycastlab.node` must be looked at
again.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

import pytest
import yaml

from anycastlab.image import build
from anycastlab.node import frr_config, layout
from anycastlab.site import Bfd, Bgp, Service
from tests.lab.node_lab import NodeLab

NODE = "node01"
FOLDER = "/tmp/check"
FORWARDING = ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding")


@pytest.fixture(scope="module", params=[13, 12], ids=["debian13", "debian12"])
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeLab]:
    """One configured node; everything in it that is off by default is on: IPv6, a key, other timers."""
    image = build.ensure(release=request.param)
    lab = NodeLab(name=f"daemon{request.param}", count=1, image=image, folder=tmp_path_factory.mktemp("daemons"))
    addresses = {"address6": "fd01::11", "gateway6": "fd01::1", "resolver": "adguardhome"}
    node = lab.site.nodes[0].model_validate({**lab.site.nodes[0].model_dump(), **addresses})
    lab.site = lab.site.model_copy(
        update={
            "nodes": (node,),
            "service": Service(address6="fd53::53"),
            "bgp": Bgp(password="k3y"),
            "bfd": Bfd(interval_ms=50, multiplier=5),
            "resolver": lab.site.resolver.model_copy(update={"upstreams": ("10.1.2.1",)}),
        }
    )
    lab.remove()
    lab.build()
    assert lab.configure(node).changed
    yield lab
    lab.remove()


def frr_reload_test(machine: NodeLab) -> str:
    said = machine.shell(NODE, f"/usr/lib/frr/frr-reload.py --test {layout.FRR_CONFIG} 2>/dev/null")
    return said.strip()


def test_frr_finds_no_difference_to_what_we_wrote(machine: NodeLab) -> None:
    assert frr_reload_test(machine) == ""
    running = machine.shell(NODE, "vtysh -c 'show running-config'")
    assert frr_config.agrees(running, machine.shell(NODE, f"cat {layout.FRR_CONFIG}"))


def test_frr_finds_the_difference_that_somebody_typed(machine: NodeLab) -> None:
    machine.shell(NODE, "vtysh -c 'conf t' -c 'router bgp 65053' -c 'neighbor 10.1.2.1 shutdown'")
    assert "no neighbor 10.1.2.1 shutdown" in frr_reload_test(machine)
    machine.shell(NODE, f"/usr/lib/frr/frr-reload.py --reload {layout.FRR_CONFIG}")
    assert frr_reload_test(machine) == ""


def forwarding(machine: NodeLab) -> list[str]:
    return machine.shell(NODE, f"cat {' '.join(FORWARDING)}").split()


@pytest.mark.parametrize("state", [0, 1], ids=["off", "on"])
def test_frr_switches_forwarding_neither_on_nor_off(machine: NodeLab, state: int) -> None:
    """Whatever its file says: at a start, at a reload, by the unit's own reload, and typed by hand."""
    other = 1 - state
    # given a file that tells the other state, as after Docker or a VPN came or went
    machine.shell(
        NODE, f"cp {layout.FRR_CONFIG} /root/frr.conf; for f in {' '.join(FORWARDING)}; do echo {state} > $f; done"
    )
    try:
        told = "" if other else r"no ip forwarding\nno ipv6 forwarding\n"
        machine.shell(NODE, f"sed -i /forwarding$/d {layout.FRR_CONFIG}; printf '{told}' >> {layout.FRR_CONFIG}")
        for step in (
            "systemctl reset-failed frr; systemctl restart frr",
            f"/usr/lib/frr/frr-reload.py --reload {layout.FRR_CONFIG}",
            "systemctl reload frr",
            "vtysh -c 'conf t' -c 'ip forwarding' -c 'no ip forwarding' -c 'ipv6 forwarding' -c 'no ipv6 forwarding'",
        ):
            machine.shell(NODE, f"{step} || true")
            assert forwarding(machine) == [str(state)] * 2, step
            assert machine.shell(NODE, "systemctl is-active frr").strip() == "active", step
        assert machine.shell(NODE, f"{layout.FRR_RELOAD} --test {layout.FRR_CONFIG} 2>/dev/null").strip() == ""
        running = machine.shell(NODE, "vtysh -c 'show running-config'")
        assert frr_config.agrees(running, machine.shell(NODE, f"cat {layout.FRR_CONFIG}"))
    finally:
        machine.shell(NODE, f"cat /root/frr.conf > {layout.FRR_CONFIG}")
    # and the deploy finds nothing to do, whatever the kernel says and however the machine is called
    machine.shell(NODE, "hostname renamed")
    try:
        assert not machine.configure(machine.site.nodes[0]).changed
    finally:
        machine.shell(NODE, f"hostname {NODE}; for f in {' '.join(FORWARDING)}; do echo 0 > $f; done")


def test_vtysh_refuses_a_line_it_does_not_know_and_misses_a_list_that_is_not_there(machine: NodeLab) -> None:
    """Why the prefix list and its users come from one template."""
    machine.shell(
        NODE, f"mkdir -p {FOLDER}; sed 's/bgp log-neighbor-changes/bgp log-nothing/' {layout.FRR_CONFIG} > {FOLDER}/bad"
    )
    refused = machine.exec(NODE, "vtysh", "-C", "-f", f"{FOLDER}/bad")
    assert refused.returncode == 2
    machine.shell(NODE, f"grep -v '^ip prefix-list' {layout.FRR_CONFIG} > {FOLDER}/undefined")
    assert machine.exec(NODE, "vtysh", "-C", "-f", f"{FOLDER}/undefined").returncode == 0


def test_a_service_ipv6_address_survives_link_down(machine: NodeLab) -> None:
    machine.shell(NODE, "systemctl stop anycastlab-probe; ip link set anycast0 up; ip link set anycast0 down")
    addresses = machine.shell(NODE, "ip -o address show dev anycast0")
    assert set(re.findall(r"(10\.1\.9\.53/32|fd53::53/128)", addresses)) == {"10.1.9.53/32", "fd53::53/128"}
    machine.shell(NODE, "systemctl start anycastlab-probe")


def test_the_way_of_replies_comes_back_whoever_took_it(machine: NodeLab) -> None:
    """Why a script watches it: the kernel, systemd-networkd and a person all take routes and rules away unasked."""
    route, rule = f"ip route show table {layout.ROUTING_TABLE}", f"ip rule show priority {layout.RULE_PRIORITY}"
    flap = "ip link set eth0 down; ip link set eth0 up"
    reconfigure = "networkctl reconfigure eth0"
    for upset in (
        *(flap, reconfigure, f"{flap}; {reconfigure}") * 2,
        f"systemctl restart {layout.NETWORKD_UNIT}",
        f"ip route flush table {layout.ROUTING_TABLE}; ip rule del priority {layout.RULE_PRIORITY}",
    ):
        machine.shell(NODE, f"{upset}; sleep 1")
        assert "via 10.1.2.1 dev eth0" in machine.shell(NODE, route), upset
        assert f"lookup {layout.ROUTING_TABLE}" in machine.shell(NODE, rule), upset


def test_debians_apparmor_profile_lets_unbound_read_what_it_is_given(machine: NodeLab) -> None:
    """No kernel here enforces it, so its rules are read."""
    profile = machine.shell(NODE, "cat /etc/apparmor.d/usr.sbin.unbound")
    rules = [words[0] for line in profile.splitlines() if len(words := line.split()) == 2 and words[1] == "r,"]
    for path in (layout.UNBOUND_CONFIG, layout.UNBOUND_TLS_CERTIFICATE, layout.UNBOUND_TLS_KEY):
        assert any(fnmatch.fnmatch(path, rule) for rule in rules), path
    assert not any(fnmatch.fnmatch(layout.TLS_KEY, rule) for rule in rules)


def check_config(machine: NodeLab, text: str) -> int:
    machine.shell(NODE, f"rm -rf {FOLDER}; mkdir -p {FOLDER}")
    machine.push(NODE, f"{FOLDER}/c.yaml", text.encode())
    argv = [layout.ADGUARD_PROGRAM, "--check-config", "--no-check-update", "-c", f"{FOLDER}/c.yaml", "-w", FOLDER]
    return machine.exec(NODE, *argv).returncode


def test_adguard_home_checks_types_and_the_schema_but_not_names(machine: NodeLab) -> None:
    good = yaml.safe_load(machine.shell(NODE, f"cat {layout.ADGUARD_CONFIG}"))
    assert check_config(machine, yaml.safe_dump(good)) == 0
    assert check_config(machine, yaml.safe_dump({**good, "no_such_section": {"x": 1}})) == 0
    assert check_config(machine, yaml.safe_dump({**good, "dns": {**good["dns"], "port": "fifty-three"}})) == 1
    assert check_config(machine, yaml.safe_dump({**good, "schema_version": good["schema_version"] + 1})) == 1


def test_adguard_home_rewrites_its_file_at_every_start(machine: NodeLab) -> None:
    """Why its text is never compared, only the managed leaves."""
    lines = int(machine.shell(NODE, f"grep -c . {layout.ADGUARD_CONFIG}"))
    assert lines > 150  # of about 60 that were written
    # given a leaf taken out and a duration written in other words
    edit = "/^  refuse_any:/d; s/upstream_timeout: 2s/upstream_timeout: 2000ms/"
    machine.shell(
        NODE,
        f"systemctl stop adguardhome; sed -i '{edit}' {layout.ADGUARD_CONFIG}; systemctl start adguardhome; sleep 2",
    )
    document = yaml.safe_load(machine.shell(NODE, f"cat {layout.ADGUARD_CONFIG}"))
    assert "refuse_any" in document["dns"]
    assert document["dns"]["upstream_timeout"] == "2s"
    assert machine.shell(NODE, f"stat -c %a:%U {layout.ADGUARD_CONFIG}").strip() == "600:adguardhome"
