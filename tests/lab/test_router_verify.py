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
    started = time.monotonic()
    outcome = router.verify()
    assert outcome.ok, outcome.lines()
    assert time.monotonic() - started < 3
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
