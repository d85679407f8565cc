"""Verification: what is wrong is named with its cause; what is right is right also without every flag shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anycastlab.routeros.apply import apply
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.errors import VerifyError
from anycastlab.routeros.observe import bgp_routes
from anycastlab.routeros.planning import plan_site
from anycastlab.routeros.reading import read
from anycastlab.routeros.verify import Verification, verify
from anycastlab.site.model import Site
from anycastlab.virtual_router.dataplane.api import NullDataplane
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.unit.routeros.support import make_site

SERVICE = "10.1.9.53/32"
SESSIONS, BFD, ROUTES = "/routing/bgp/session", "/routing/bfd/session", "/routing/route"


def healthy(site: Site) -> dict[str, list[dict[str, str]]]:
    """Read-outs of a router whose nodes all serve, as RouterOS writes them."""
    return {
        SESSIONS: [
            {
                "name": f"anycastlab-{node.name}-1",
                "remote.address": str(node.address),
                "remote.as": "65053",
                "established": "true",
            }
            for node in site.nodes
        ],
        BFD: [
            {
                "remote-address": f"{node.address}%ether3-dns",
                "state": "up",
                "actual-tx-interval": "100ms",
                "hold-time": "300ms",
            }
            for node in site.nodes
        ],
        ROUTES: [
            {
                "dst-address": SERVICE,
                "gateway": str(node.address),
                "immediate-gw": f"{node.address}%ether3-dns",
                "bgp": "true",
                "active": "true",
                "ecmp": "true",
            }
            for node in site.nodes
        ]
        + [{"dst-address": "10.1.2.0/24", "gateway": "ether3-dns", "connect": "true", "active": "true"}],
    }


class Lab:
    """A configured router, its read-outs to bend, and a session to verify over."""

    def __init__(self, router: RunningRouter, plane: NullDataplane, site: Site, tmp_path: Path) -> None:
        self.router, self.plane, self.site = router, plane, site
        self.connection = Connection(Target(router.host, router.port, "automation", PASSWORD, tls=False))
        apply(self.connection, plan_site(site, read(self.connection)), tmp_path, site=site)
        plane.runtime = healthy(site)

    def verify(self, after: Callable[[], object] = lambda: None, **options: Any) -> Verification:
        """`after` happens once time has passed."""
        now = [0.0]

        def sleep(seconds: float) -> None:
            now[0] += seconds
            after()

        return verify(self.connection, self.site, clock=lambda: now[0], sleep=sleep, **options)

    def failure(self, **options: Any) -> str:
        outcome = self.verify(**options)
        assert not outcome.ok
        return " | ".join(f"{f.subject} {f.check}: {f.text} {f.hint}" for f in outcome.failures)


def make_lab(tmp_path: Path, version: str = "7.22.3", **changes: Any) -> Iterator[Lab]:
    plane = NullDataplane()
    with running_router(version=version, dataplane=plane) as router:
        lab = Lab(router, plane, make_site(**changes), tmp_path)
        yield lab
        lab.connection.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from make_lab(tmp_path)


@pytest.fixture
def lab_with_password(tmp_path: Path) -> Iterator[Lab]:
    yield from make_lab(tmp_path, bgp={"password": "geheim"})


@pytest.fixture
def old_lab(tmp_path: Path) -> Iterator[Lab]:
    yield from make_lab(tmp_path, version="7.20.8")


def test_a_healthy_router_is_healthy_at_once(lab: Lab) -> None:
    before = lab.connection.round_trips
    outcome = lab.verify(ask=lambda *_: None)
    assert outcome.ok, outcome.lines()
    assert {f.check for f in outcome.findings} >= {"bgp", "bfd", "route", "next hops", "filter", "redirect", "rows"}
    assert lab.connection.round_trips - before <= 20


def test_failing_takes_no_longer_than_promised(lab: Lab) -> None:
    lab.plane.runtime[SESSIONS] = []
    waited = [0.0]

    def sleep(seconds: float) -> None:
        waited[0] += seconds

    verify(lab.connection, lab.site, clock=lambda: waited[0], sleep=sleep)
    assert 25 < waited[0] <= 31


def test_it_waits_for_what_comes_late(lab: Lab) -> None:
    late = lab.plane.runtime[SESSIONS].pop()
    waited = [0.0]

    def sleep(seconds: float) -> None:
        waited[0] += seconds
        if waited[0] > 8 and late not in lab.plane.runtime[SESSIONS]:
            lab.plane.runtime[SESSIONS].append(late)

    assert verify(lab.connection, lab.site, clock=lambda: waited[0], sleep=sleep).ok
    assert 8 < waited[0] < 10


def test_a_session_that_never_came_up_is_named_with_what_the_node_says(lab: Lab) -> None:
    del lab.plane.runtime[SESSIONS][1]
    told = lab.failure(explain=lambda node: f"Bad Peer AS at {node.name}")
    assert "node02 bgp: no session: no session ever came up; node02 says: Bad Peer AS at node02" in told
    assert "node01" not in told


def test_a_wrong_as_is_named(lab: Lab) -> None:
    notification = "ff" * 16 + "0017" + "03" + "0202"
    lab.plane.runtime[SESSIONS][0] = {
        "remote.address": "10.1.2.11",
        "remote.as": "65053",
        "output.last-notification": notification,
    }
    assert "wrong AS: the two sides disagree" in lab.failure()
    lab.plane.runtime[SESSIONS][0] = {"remote.address": "10.1.2.11", "remote.as": "64999"}
    assert "wrong AS: the node says 64999, expected is 65053" in lab.failure()
    lab.plane.runtime[SESSIONS][0] = {"remote.address": "10.1.2.11", ".about": "OPEN Message Error/Bad Peer AS"}
    assert "wrong AS: the two sides disagree" in lab.failure()


def test_a_password_is_suspected_when_one_is_set(lab_with_password: Lab) -> None:
    del lab_with_password.plane.runtime[SESSIONS][2]
    assert "the usual cause is another one on the node" in lab_with_password.failure()
    assert "geheim" not in lab_with_password.failure()


def test_bfd_behind_a_dropping_rule_names_that_rule(lab: Lab) -> None:
    lab.plane.runtime[BFD][0]["state"] = "down"
    assert "no BFD packets arrive from the node" in lab.failure()
    first = lab.router.rows("/ip/firewall/filter")[0][".id"]
    lab.connection.call(
        "/ip/firewall/filter/add",
        "=chain=input",
        "=action=drop",
        "=protocol=udp",
        "=comment=mine",
        f"=place-before={first}",
    )
    told = lab.failure()
    assert "node01 bfd: BFD is down: udp/3784 is blocked by the firewall" in told
    assert "mine" in told


def test_bfd_at_other_intervals_is_named(lab: Lab) -> None:
    lab.plane.runtime[BFD][2]["actual-tx-interval"] = "1s"  # may be the peer's, and says nothing
    assert lab.verify().ok
    lab.plane.runtime[BFD][2]["hold-time"] = "1s"
    assert "negotiated detection time is 1000 ms instead of 300 ms" in lab.failure()


@pytest.mark.parametrize("prefix", ["0.0.0.0/0", "10.1.9.0/24", "10.1.9.54/32"])
def test_any_other_prefix_accepted_from_a_node_is_named_even_inactive(lab: Lab, prefix: str) -> None:
    route = {"dst-address": prefix, "gateway": "10.1.2.12", "bgp": "true"}
    lab.plane.runtime[ROUTES].append(route)
    assert f"accepted what no node may announce: {prefix} from 10.1.2.12" in lab.failure()
    lab.plane.runtime[ROUTES][-1] = route | {"filtered": "true"}
    assert lab.verify().ok


def test_a_node_that_does_not_announce_is_told_from_one_that_is_filtered(lab: Lab) -> None:
    gone = lab.plane.runtime[ROUTES].pop(0)
    told = lab.failure()
    assert "node01 route: 10.1.9.53/32 is not announced" in told
    assert "node01 is left out" in told
    lab.plane.runtime[ROUTES].append({**gone, "active": "false", "filtered": "true"})
    assert "rejected by the router's filter" in lab.failure()


def test_a_standing_by_node_is_a_failure_with_multipath_and_right_without(lab: Lab, old_lab: Lab) -> None:
    for one in (lab, old_lab):
        for route in one.plane.runtime[ROUTES][1:3]:
            del route["active"], route["ecmp"]
    assert "goes to node01; node02, node03 is left out" in lab.failure()
    assert old_lab.verify().ok


def test_nodes_that_are_not_required_are_noted_but_do_not_fail(lab: Lab) -> None:
    for menu in (SESSIONS, BFD, ROUTES):
        del lab.plane.runtime[menu][1]
    outcome = lab.verify(required=["node01", "node03"])
    assert outcome.ok
    assert any(line.startswith("note  node02 bgp") for line in outcome.lines())


def test_the_redirect_left_on_while_nodes_serve_is_a_failure(lab: Lab) -> None:
    redirect = next(r for r in lab.router.rows("/ip/firewall/nat") if r["comment"].startswith("anycastlab:redirect"))
    lab.connection.call("/ip/firewall/nat/enable", f"=numbers={redirect['.id']}")
    assert "the redirect is on although nodes announce the address" in lab.failure()


def test_an_inactive_rule_is_a_failure(lab: Lab) -> None:
    lab.plane.notes["/routing/filter/rule", "anycastlab:filter:in"] = {"inactive": "true"}
    assert "is inactive" in lab.failure()


def test_a_rule_that_is_inactive_for_a_moment_only_is_looked_at_again(lab: Lab) -> None:
    mark = ("/routing/filter/rule", "anycastlab:filter:in")
    lab.plane.notes[mark] = {"inactive": "true"}
    assert lab.verify(after=lambda: lab.plane.notes.pop(mark, None)).ok


def test_a_firewall_rule_called_invalid_is_a_note(lab: Lab) -> None:
    lab.plane.notes["/ip/firewall/filter", "anycastlab:accept:bgp:node01"] = {"invalid": "true"}
    outcome = lab.verify()
    assert outcome.ok
    assert any("note  router firewall" in line and "is invalid" in line for line in outcome.lines())


def test_flags_of_routes_may_be_there_without_a_value(lab: Lab) -> None:
    """`bgp=""`: published outputs show a set flag so."""
    for route in lab.plane.runtime[ROUTES]:
        route |= {name: "" for name in ("bgp", "active", "ecmp", "connect") if name in route}
    assert lab.verify().ok


def test_a_peer_that_bfd_is_forbidden_for_is_named(lab: Lab) -> None:
    row = {"remote-address": "10.1.2.11", "multiplier": "0", ".about": "BFD forbidden for destination address"}
    lab.plane.runtime[BFD][0] = row
    assert "node01 bfd: BFD is down: the router says: BFD forbidden for destination address" in lab.failure()


def test_an_answer_that_does_not_come_is_a_failure(lab: Lab) -> None:
    told = lab.failure(ask=lambda protocol, _: "no answer in 2 s" if protocol == "tcp" else None)
    assert told.startswith("service answer over TCP: no answer in 2 s")


def test_a_failed_verification_raises_its_first_finding(lab: Lab) -> None:
    del lab.plane.runtime[SESSIONS][0]
    with pytest.raises(VerifyError, match="node01 bgp"):
        lab.verify().raise_if_failed("127.0.0.1")


def test_a_whole_check_is_quick(lab: Lab) -> None:
    started = time.monotonic()
    assert lab.verify().ok
    assert time.monotonic() - started < 1


def test_the_ipv6_twin_is_judged_like_the_other(tmp_path: Path) -> None:
    for lab in make_lab(tmp_path, service={"address6": "fd00:9::53"}):
        twin = {"10.1.2.": "fd00:2::", "10.1.9.53/32": "fd00:9::53/128", "ether3": "ether3"}
        for menu, rows in list(lab.plane.runtime.items()):
            for row in list(rows):
                if "10.1.2.0/24" in row.values():
                    continue
                six = dict(row)
                for old, new in twin.items():
                    six = {key: value.replace(old, new) for key, value in six.items()}
                lab.plane.runtime[menu].append(six)
        outcome = lab.verify()
        assert outcome.ok, outcome.lines()
        assert sum(finding.check == "bgp over IPv6" for finding in outcome.findings) == 3
        lab.plane.runtime[SESSIONS] = [r for r in lab.plane.runtime[SESSIONS] if r["remote.address"] != "fd00:2::12"]
        told = lab.failure()
        assert "node02 bgp over IPv6: no session" in told
        assert "neighbour fd00:2::1" in told


def test_a_route_through_a_link_local_address_is_known_by_the_neighbour_it_came_from() -> None:
    row = {"dst-address": "fd00:9::53/128", "gateway": "fe80::1%ether3", "bgp": "true", "active": "true"}
    neighbours = ["10.1.2.11", "fd00:2::11"]
    (route,) = bgp_routes([{**row, "belongs-to": "bgp-IP6-fd00:2::11"}], neighbours)
    assert (route.gateway, route.active) == ("fd00:2::11", True)
    assert bgp_routes([{**row, "belongs-to": "bgp-IP6-fd00:2::99"}, row], neighbours) == []


def test_with_a_password_a_bfd_that_went_down_is_no_cause(lab_with_password: Lab) -> None:
    row = lab_with_password.plane.runtime[SESSIONS][0]
    row |= {"established": "false", "output.last-notification": "ff" * 16 + "0017" + "03" + "060a"}
    assert "the usual cause is another one on the node" in lab_with_password.failure()
