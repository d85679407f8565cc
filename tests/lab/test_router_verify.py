"""The router's checks on real FRR, BFD and nftables: each fault is named with its cause, and healed afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from anycastlab.routeros.apply import apply
from anycastlab.routeros.connection import Connection
from anycastlab.routeros.control import router_session
from anycastlab.routeros.errors import ApplyError
from anycastlab.routeros.limits import VERIFY_TIMEOUT_S
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import read
from anycastlab.routeros.verify import Verification, verify
from anycastlab.scenarios.read_site import read_site
from anycastlab.site.model import Site
from tests.lab.conftest import ROOT, RunningLab

#: Seconds given to a fault to be seen; all of them are seen within BFD's or BGP's own times.
FAULT_S = 8.0


@dataclass(frozen=True)
class RouterOfLab:
    """A session with the lab's router, and the nodes' own consoles."""

    lab: RunningLab
    site: Site
    session: Connection

    def vtysh(self, node: str, *commands: str) -> None:
        words = [word for command in commands for word in ("-c", command)]
        result = self.lab.exec(node, "vtysh", *words)
        assert result.returncode == 0, result.stdout + result.stderr

    def verify(self, timeout_s: float = VERIFY_TIMEOUT_S) -> Verification:
        return verify(self.session, self.site, timeout_s=timeout_s)

    def fault(self) -> str:
        """What is said once the fault is there for good."""
        time.sleep(2)
        outcome = self.verify(FAULT_S)
        assert not outcome.ok
        return "\n".join(outcome.lines())

    def healed(self) -> bool:
        return self.verify().ok


@pytest.fixture
def router(lab: RunningLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[RouterOfLab]:
    monkeypatch.setenv("ANYCASTLAB_LAB", lab.name)
    monkeypatch.chdir(ROOT)
    site = read_site(lab.inventory, {}, lab.environment)
    with router_session(site.router) as session:
        yield RouterOfLab(lab, site, session)


def test_a_healthy_lab_is_verified_at_once(router: RouterOfLab) -> None:
    outcome = router.verify()
    assert outcome.ok, outcome.lines()
    assert plan_site(router.site, read(router.session)).plan.steps == ()


def test_bfd_blocked_by_the_firewall_names_the_rule(router: RouterOfLab) -> None:
    menu = "/ip/firewall/filter"
    first = router.session.print(menu, [".id"])[0][".id"]
    rule = {"chain": "input", "action": "drop", "protocol": "udp", "dst-port": "3784", "src-address": "10.1.2.12"}
    row_id = router.session.add(menu, {**rule, "comment": "somebody's"}, first)
    try:
        told = router.fault()
    finally:
        router.session.remove(menu, row_id)
    assert "node02 bfd: BFD is down: udp/3784 is blocked by the firewall" in told
    assert "somebody's" in told
    assert "FAIL  node01" not in told
    assert router.healed()


def test_a_wrong_as_is_named(router: RouterOfLab) -> None:
    change = ("configure terminal", "router bgp 65053")
    router.vtysh("node02", *change, "neighbor 10.1.2.1 remote-as 65001")
    try:
        told = router.fault()
    finally:
        router.vtysh("node02", *change, "neighbor 10.1.2.1 remote-as 65000")
    assert "node02 bgp: no session: wrong AS" in told
    assert router.healed()


def test_a_default_route_and_a_24_are_refused_and_named_when_they_get_through(
    router: RouterOfLab, tmp_path: Path
) -> None:
    """The node announces both. Our filter refuses them; with the filter opened by hand they are named, then healed."""
    family = ("configure terminal", "router bgp 65053", "address-family ipv4 unicast")
    names = "ip prefix-list ANYCAST seq"
    router.vtysh("node03", "configure terminal", f"{names} 90 permit 0.0.0.0/0", f"{names} 91 permit 10.1.9.0/24")
    router.vtysh("node03", "configure terminal", "router bgp 65053", "no bgp network import-check")
    router.vtysh("node03", *family, "network 10.1.9.0/24", "neighbor 10.1.2.1 default-originate")
    try:
        time.sleep(3)
        assert router.verify(0).ok
        rules = router.session.print("/routing/filter/rule", [".id", "chain"])
        (row_id,) = (row[".id"] for row in rules if row["chain"] == "anycastlab-in")
        router.session.set("/routing/filter/rule", row_id, {"rule": "accept"})
        told = router.fault()
        assert "accepted what no node may announce: 0.0.0.0/0 from 10.1.2.13, 10.1.9.0/24 from 10.1.2.13" in told
        planned = plan_site(router.site, read(router.session))
        assert len(planned.plan.steps) == 1
        apply(router.session, planned, tmp_path, site=router.site)
        assert router.healed()
    finally:
        router.vtysh("node03", *family, "no network 10.1.9.0/24", "no neighbor 10.1.2.1 default-originate")
        router.vtysh("node03", "configure terminal", "router bgp 65053", "bgp network import-check")
        router.vtysh("node03", "configure terminal", f"no {names} 90", f"no {names} 91")


def test_a_password_only_the_router_has_is_undone_and_suspected(router: RouterOfLab, tmp_path: Path) -> None:
    bgp = router.site.bgp.model_copy(update={"password": "nur-der-router"})
    site = router.site.model_copy(update={"bgp": bgp})
    planned = plan_site(site, read(router.session))
    assert len(planned.plan.steps) == 3

    def works(session: Connection) -> None:
        verify(session, site, timeout_s=FAULT_S).raise_if_failed(session.host)

    with pytest.raises(ApplyError, match=r"the usual cause is another one on the node.* is as before") as caught:
        apply(router.session, planned, tmp_path, site=site, check=works)
    assert caught.value.restored
    assert "nur-der-router" not in str(caught.value)
    assert router.healed()
    assert plan_site(router.site, read(router.session)).plan.steps == ()


def test_an_upgrade_across_the_instance_and_a_version_without_multipath(lab: RunningLab) -> None:
    """Below 7.22 one node serves and the others stand by, which is healthy; one run takes the router over 7.20."""
    lab.up("--data", "router_version=7.19.6")
    status = lab.status()
    assert len(status["router"]["next_hops"]) == 1
    assert len(status["router"]["standing_by"]) == 2
    shown = lab.command("status")
    assert shown.returncode == 0, shown.stdout
    assert "stand by)" in shown.stdout
    lab.up()
    assert lab.healthy()
    assert len(lab.status()["router"]["next_hops"]) == 3


#: Somebody else's rows: menu, row, and what is said of it. Each is there alone, for a moment.
OTHERS = (
    ("/ip/firewall/nat", {"chain": "dstnat", "action": "redirect", "protocol": "udp", "dst-port": "53"}, "no node"),
    ("/ip/firewall/filter", {"chain": "forward", "action": "drop", "dst-address": "10.1.9.0/24"}, "no node answers"),
    ("/ip/firewall/raw", {"chain": "prerouting", "action": "notrack", "protocol": "udp"}, "out of connection tracking"),
    ("/ip/firewall/raw", {"chain": "output", "action": "drop", "protocol": "udp", "dst-port": "53"}, "netwatch's"),
    ("/routing/rule", {"dst-address": "10.1.9.0/24", "action": "drop"}, "are dropped"),
    ("/ip/vrf", {"name": "guests", "interfaces": "ether2"}, "is in this VRF"),
    ("/ip/hotspot", {"name": "hs", "interface": "ether2"}, "a hotspot answers the DNS questions of clients"),
    ("/ip/dns/static", {"regexp": r"\.lan$", "address": "10.1.1.9"}, "its regexp covers"),
    ("/ip/dns/static", {"name": "lan", "type": "FWD", "forward-to": "10.1.9.53", "match-subdomain": "yes"}, "a circle"),
)  # fmt: skip
SETTINGS = (
    ("/ip/dns", {"servers": "10.1.9.53"}, "10.1.9.53 is the service address"),
    ("/ip/dns", {"use-doh-server": "https://10.1.2.11/dns-query"}, "it leads to node01"),
    ("/ip/settings", {"ip-forward": "no"}, "the router forwards nothing"),
    ("/ip/firewall/connection/tracking", {"enabled": "no"}, "there is no NAT"),
)


def named(router: RouterOfLab) -> tuple[str, str]:
    """What the plan says, and the first failure of a check that does not wait."""
    notes = "\n".join(plan_site(router.site, read(router.session)).plan.notes)
    failures = router.verify(0).failures
    return notes, f"{failures[0].text} {failures[0].hint}" if failures else "nothing"


def test_rows_that_undo_ours_are_named_in_the_plan_and_fail_the_check(router: RouterOfLab) -> None:
    for menu, row, means in OTHERS:
        row_id = router.session.add(menu, {**row, "comment": "somebody's"})
        try:
            notes, failure = named(router)
        finally:
            router.session.remove(menu, row_id)
        for told in (notes, failure):
            assert f"{menu} {row_id}" in told, told
            assert means in told
    for menu, values, means in SETTINGS:
        before = router.session.print(menu, list(values))[0]
        router.session.set(menu, None, dict(values))
        try:
            notes, failure = named(router)
        finally:
            router.session.set(menu, None, {name: before.get(name, "") for name in values})
            router.session.close()  # once tracking is on again, the old session is no known connection
        for told in (notes, failure):
            assert means in told, told
    assert router.healed()
    assert plan_site(router.site, read(router.session)).plan.notes == ()


def test_a_wan_interface_without_the_default_route_is_refused_before_a_node_changes(router: RouterOfLab) -> None:
    """The router's resolver would be open to the provider; and `up` says so before it touches a node."""
    settings = ("--data", "wan_interface=ether3", "--data", "stale_ttl_s=31")
    menu = "/ip/firewall/filter"  # its last rule drops everything, so somebody opens DNS first
    accept = {"chain": "input", "action": "accept", "protocol": "udp", "dst-port": "53", "comment": "DNS"}
    row_id = router.session.add(menu, accept, router.session.print(menu, [".id"])[0][".id"])
    try:
        result = router.lab.command("up", "-i", router.lab.inventory, *settings)
    finally:
        router.session.remove(menu, row_id)
    said = result.stdout + result.stderr
    assert result.returncode == 1, said
    assert "it would answer the whole internet" in said
    assert "wan_interface is 'ether3', which carries no default route" in said
    assert "Nothing was changed." in said
    assert "Traceback" not in said
    assert router.healed()
    assert plan_site(router.site, read(router.session)).plan.steps == ()


def test_forced_dns_is_not_taken_for_an_answer(router: RouterOfLab) -> None:
    """The router says NXDOMAIN to everything it is sent, and that is no answer of a node's."""
    menu = "/ip/firewall/nat"
    rule = {"chain": "dstnat", "action": "redirect", "protocol": "udp", "dst-port": "53", "comment": "force DNS"}
    row_id = router.session.add(menu, rule)
    try:
        status = router.lab.command("status", "-i", router.lab.inventory)
        verified = router.lab.command("router", "verify", "-i", router.lab.inventory)
        again = router.lab.command("up", "-i", router.lab.inventory)
        alone = router.lab.command("up", "-i", router.lab.inventory, "--limit", "router")
    finally:
        router.session.remove(menu, row_id)
    assert status.returncode == 2, status.stdout
    # The rule takes what is put to the nodes' own addresses, too.
    told = status.stdout.replace("\n", " ")
    assert "and not by node01" in told, told
    assert "a rule that sends DNS elsewhere" in told, told
    assert verified.returncode == 2
    assert f"{menu} {row_id}" in verified.stdout
    assert "answered by somebody who is none of the nodes, and the last resort is off" in verified.stdout
    for result in (again, alone):
        assert result.returncode == 1, result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr
    assert "a rule that sends DNS elsewhere" in again.stderr  # it ends at the first node, before the router's turn
    assert f"{menu} {row_id}" in alone.stderr
    assert router.lab.command("up", "-i", router.lab.inventory, "--limit", "router").returncode == 0
    assert router.healed()


def test_the_redirect_is_held_against_whoever_switches_it(router: RouterOfLab) -> None:
    """netwatch's script after each test switches it off again within seconds; nobody deploys anything."""
    menu = "/ip/firewall/nat"
    tags = ["anycastlab:redirect:udp", "anycastlab:redirect:tcp"]
    words = [f"?comment={tag}" for tag in tags]

    def disabled() -> list[str]:
        return [row["disabled"] for row in router.session.print(menu, [".id", "disabled"], *words, "?#|")]

    for row in router.session.print(menu, [".id"], *words, "?#|"):
        router.session.call(f"{menu}/enable", f"=numbers={row['.id']}")
    end = time.monotonic() + 5
    while disabled() != ["true", "true"]:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert router.healed()
