"""A home that grows: the router gets the new nodes' rows, and only these, before anything else of the plan."""

from __future__ import annotations

from typing import Any

import pytest

from anycastlab.routeros.newcomers import newcomers, plan_newcomers
from anycastlab.routeros.plan import Add
from anycastlab.routeros.planning import Planned, plan_site
from anycastlab.routeros.reading import Reading, fresh
from anycastlab.site.model import Site
from anycastlab.site.parts import Service
from tests.unit.routeros.support import ModelRouter, make_site


def deployed(site: Site) -> ModelRouter:
    router = ModelRouter()
    router.execute(plan_site(site, reading(router)).plan)
    return router


def reading(router: ModelRouter) -> Reading:
    """The model's rows on a fresh router of the newest version."""
    blank = fresh("7.22.3", "router")
    return Reading(**{**{name: getattr(blank, name) for name in blank.__dataclass_fields__}, "menus": router.menus})


def planned(site: Site, router: ModelRouter) -> Planned:
    return plan_site(site, reading(router))


@pytest.mark.parametrize("ipv6", [False, True])
def test_growing_from_one_node_adds_the_new_nodes_rows_first(ipv6: bool) -> None:
    changes: dict[str, Any] = {"service": Service(address6="fd53::53")} if ipv6 else {}
    router, site = deployed(make_site(1, **changes)), make_site(3, **changes)
    whole = planned(site, router)
    assert [node.name for node in newcomers(site, whole)] == ["node02", "node03"]
    first = plan_newcomers(site, whole)
    assert {type(step) for step in first.plan.steps} == {Add}
    named = {step.row.tag.removesuffix(":v6").rpartition(":")[2] for step in first.plan.of(Add)}
    assert named == {"node02", "node03"}
    # what was applied is what was wanted, and nothing of it is left, to be moved or changed, for the end
    router.execute(first.plan)
    assert not first.again(reading(router))
    rest = planned(site, router)
    assert not [step for step in rest.plan.steps if "node0" in getattr(getattr(step, "row", step), "tag", "")]
    assert not newcomers(site, rest)


def test_what_else_the_plan_changes_stays_for_the_end() -> None:
    router, site = deployed(make_site(2)), make_site(3)
    gone = make_site(3).model_copy(update={"nodes": site.nodes[1:]})  # node01 leaves, node03 comes
    router.menus["/ip/settings"][0]["send-redirects"] = "yes"
    first = plan_newcomers(gone, planned(gone, router))
    assert {step.row.tag.rpartition(":")[2] for step in first.plan.of(Add)} == {"node03"}
    assert len(first.plan.of(Add)) == len(first.plan.steps)


def test_a_fresh_router_and_a_home_that_does_not_grow_have_no_newcomers() -> None:
    site = make_site(3)
    assert newcomers(site, planned(site, ModelRouter())) == ()
    assert not plan_newcomers(site, planned(site, ModelRouter())).changes
    assert not plan_newcomers(site, planned(site, deployed(site))).changes
    assert not plan_newcomers(make_site(2), planned(make_site(2), deployed(site))).changes


def test_a_new_service_address_would_not_pass_the_old_filter_so_all_waits_for_the_end() -> None:
    site = make_site(3, service=Service(address="10.1.9.54"))
    assert newcomers(site, planned(site, deployed(make_site(1)))) == ()
