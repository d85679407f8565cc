"""Plans: the outcome is what was desired, a second plan is empty, foreign rows are as they were."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.plan import Add, Change, Move, Remove, Step, make_plan
from anycastlab.routeros.render import render_json, render_text
from anycastlab.routeros.row import BLOCKING, MENUS, ORDERED, SETTINGS, Place, Row, tag_of
from anycastlab.routeros.rows import Device, desired_rows
from anycastlab.routeros.version import capabilities
from tests.unit.routeros.support import ModelRouter, make_site

FILTER = "/ip/firewall/filter"
VERSIONS = ["7.16.2", "7.19.6 (stable)", "7.20.8 (long-term)", "7.22rc4", "7.22.3", "7.24"]


def rows_for(version: str = "7.22.3", **changes: object) -> list[Row]:
    return desired_rows(make_site(**changes), Device(capabilities(version)))


# --- worlds ----------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)


@st.composite
def foreign_row(draw: st.DrawFn, menu: str, desired: list[Row]) -> dict[str, str]:
    """Anything a person may have: also a row equal to one of ours but for the comment."""
    row = {"comment": draw(TEXT)}
    if draw(st.booleans()):
        twin = draw(st.sampled_from([r for r in desired if r.menu == menu] or [Row(menu, "x", {})]))
        row |= {name: value for name, value in twin.properties.items() if value is not None}
    else:
        row["chain"] = draw(st.sampled_from(["input", "forward", "dstnat", "anycastlab-in", ""]))
        row["action"] = draw(st.sampled_from(["accept", "drop", "reject", "jump", "passthrough"]))
    if draw(st.integers(0, 5)) == 0:
        row["dynamic"] = "true"
    return row


@st.composite
def own_row(draw: st.DrawFn, tag: str, properties: dict[str, str | None]) -> dict[str, str]:
    """A row of ours, untouched or edited by hand, perhaps with a person's note behind the tag."""
    row = {name: value for name, value in properties.items() if value is not None}
    for name in draw(st.lists(st.sampled_from(sorted(row) or ["comment"]), max_size=2)):
        row[name] = draw(st.sampled_from(["no", "10", "x", "false", "1s"]))
    if draw(st.booleans()):
        row[draw(st.sampled_from(["src-address-list", "in-interface", "limit"]))] = "x"
    row["comment"] = tag + draw(st.sampled_from(["", " mine, do not touch", " Küche ☕"]))
    return row


KNOWN = {version: capabilities(version) for version in VERSIONS}  # parsed once, not inside a drawn example


@st.composite
def world(draw: st.DrawFn) -> tuple[list[Row], ModelRouter]:
    version = draw(st.sampled_from(VERSIONS))
    names = draw(
        st.lists(st.sampled_from(["node01", "node02", "no", "10", "kueche"]), min_size=1, max_size=4, unique=True)
    )
    desired = rows_for(version, names=names)
    menus: dict[str, list[dict[str, str]]] = {}
    number = 0
    for menu in MENUS:
        rows = draw(st.lists(foreign_row(menu, desired), max_size=6))
        if menu not in SETTINGS:
            mine = [r for r in desired if r.menu == menu]
            for row in draw(st.lists(st.sampled_from(mine), unique_by=lambda r: r.tag)) if mine else []:
                rows.append(draw(own_row(row.tag, dict(row.properties))))
            if draw(st.booleans()):
                rows.append(draw(own_row("anycastlab:accept:bgp:gone", {"chain": "input"})))
            rows = draw(st.permutations(rows))
        else:
            rows = [{"allow-remote-requests": draw(st.sampled_from(["false", "true"]))}]
        menus[menu] = []
        # Dynamic rows lead a chain on real routers; inside the list they must be survived, too.
        for row in rows:
            number += 1
            menus[menu].append(row if menu in SETTINGS else {**row, ".id": f"*{number:X}"})
    return desired, ModelRouter(menus)


@given(world())
def test_executing_a_plan_gives_what_was_desired_and_nothing_else(given_world: tuple[list[Row], ModelRouter]) -> None:
    desired, router = given_world
    foreign = {menu: router.foreign(menu) for menu in MENUS if menu not in SETTINGS}

    router.execute(make_plan(desired, router.menus))

    assert make_plan(desired, router.menus).steps == ()
    assert {menu: router.foreign(menu) for menu in foreign} == foreign
    for menu in foreign:
        expected = [row.tag for row in desired if row.menu == menu]
        assert sorted(router.tags(menu)) == sorted(expected)
        if menu in ORDERED:
            for chain in {row.chain for row in desired if row.menu == menu}:
                in_chain = [row.tag for row in desired if row.menu == menu and row.chain == chain]
                assert [tag for tag in router.tags(menu) if tag in in_chain] == in_chain
    assert_places(desired, router)


def assert_places(desired: list[Row], router: ModelRouter) -> None:
    """Written from the rule, not from the algorithm: nobody foreign before FIRST, no foreign drop before accepts."""
    places = {row.key: row for row in desired}
    for menu in ORDERED:
        seen: list[dict[str, str]] = []
        for row in router.menus[menu]:
            tag = tag_of(row)
            if not tag:
                if row.get("dynamic") != "true":
                    seen.append(row)
                continue
            wanted = places[menu, tag]
            before = [other for other in seen if other.get("chain", "") == wanted.chain]
            if wanted.place is Place.FIRST:
                assert before == []
            elif wanted.place is Place.BEFORE_BLOCKING:
                assert [other for other in before if other.get("action") in BLOCKING] == []


@given(world())
def test_a_plan_never_names_a_foreign_row_except_to_stand_before_it(given_world: tuple[list[Row], ModelRouter]) -> None:
    desired, router = given_world
    ids = {row.get(".id") for menu in MENUS for row in router.foreign(menu)} - {None}
    for step in make_plan(desired, router.menus).steps:
        if isinstance(step, Change | Move | Remove):
            assert step.row_id not in ids


# --- single cases ----------------------------------------------------------------------------------------------------


def configured(desired: list[Row], *foreign: dict[str, str]) -> ModelRouter:
    router = ModelRouter({FILTER: [{".id": f"*F{number}", **row} for number, row in enumerate(foreign)]})
    router.execute(make_plan(desired, router.menus))
    return router


def test_a_router_that_prints_values_its_own_way_has_no_drift() -> None:
    desired = rows_for()
    router = configured(desired)
    for rows in router.menus.values():
        for row in rows:
            for name, value in row.items():
                row[name] = {"yes": "true", "no": "false", "9s": "00:00:09", "10.1.2.11": "10.1.2.11/32"}.get(
                    value, value
                )
                if name == "rule":
                    row[name] = value.replace(" ", "  ").replace("accept }", "accept; }")
    assert make_plan(desired, router.menus).steps == ()


def test_the_redirects_runtime_state_and_counters_are_no_drift() -> None:
    desired = rows_for()
    router = configured(desired)
    for row in router.menus["/ip/firewall/nat"]:
        row["disabled"] = "false"
    assert make_plan(desired, router.menus).steps == ()


def test_a_matcher_added_by_hand_to_an_accept_rule_is_drift_and_cleared() -> None:
    desired = rows_for()
    router = configured(desired)
    router.menus[FILTER][3]["src-address-list"] = "friends"
    (step,) = make_plan(desired, router.menus).steps
    assert isinstance(step, Change)
    assert [(p.name, p.old, p.new) for p in step.properties] == [("src-address-list", "friends", None)]


def test_logging_on_an_own_rule_is_the_persons_business() -> None:
    desired = rows_for()
    router = configured(desired)
    router.menus[FILTER][3] |= {"log": "true", "log-prefix": "dns"}
    assert make_plan(desired, router.menus).steps == ()


def test_one_row_out_of_place_is_one_move() -> None:
    desired = rows_for()
    router = configured(desired, {"chain": "input", "action": "accept"}, {"chain": "input", "action": "drop"})
    router.menus[FILTER].append(router.menus[FILTER].pop(3))
    moved = router.menus[FILTER][-1]
    (step,) = make_plan(desired, router.menus).steps
    assert isinstance(step, Move)
    assert step.row_id == moved[".id"]


def test_accepts_go_before_the_first_drop_and_the_wan_guard_before_everything() -> None:
    desired = rows_for(nodes=1)
    router = configured(
        desired,
        {"chain": "input", "action": "accept", "comment": "established"},
        {"chain": "forward", "action": "drop"},
        {"chain": "input", "action": "drop", "comment": "rest"},
    )
    comments = [row.get("comment", "-") for row in router.menus[FILTER] if row["chain"] == "input"]
    assert comments[:2] == ["anycastlab:wan-guard:udp", "anycastlab:wan-guard:tcp"]
    assert comments[2] == "established"
    assert comments[-1] == "rest"


def test_two_rows_with_one_tag_are_an_error_that_names_both() -> None:
    desired = rows_for()
    router = configured(desired)
    twin = dict(router.menus[FILTER][4])
    router.menus[FILTER].append({**twin, ".id": "*99"})
    with pytest.raises(PlanError) as caught:
        make_plan(desired, router.menus, host="192.0.2.1")
    assert twin[".id"] in caught.value.problem
    assert "*99" in caught.value.problem
    assert "192.0.2.1" in caught.value.problem


def test_a_withdrawn_node_takes_its_rows_along_and_a_renamed_one_gets_new_ones() -> None:
    router = configured(rows_for(names=["node01", "node02"]))
    plan = make_plan(rows_for(names=["node01", "kueche"]), router.menus)
    assert {step.tag for step in plan.of(Remove)} == {
        "anycastlab:accept:bgp:node02",
        "anycastlab:accept:bfd:node02",
        "anycastlab:bfd:node02",
        "anycastlab:connection:node02",
    }
    assert {step.row.tag for step in plan.of(Add)} == {
        "anycastlab:accept:bgp:kueche",
        "anycastlab:accept:bfd:kueche",
        "anycastlab:bfd:kueche",
        "anycastlab:connection:kueche",
    }
    assert plan.of(Change) == []


def test_removal_takes_clients_off_first_and_protection_last() -> None:
    router = configured(rows_for())
    plan = make_plan([], router.menus)
    menus = list(dict.fromkeys(step.menu for step in plan.of(Remove)))
    assert menus == [menu for menu in reversed(MENUS) if menu in menus]
    assert menus[-1] == FILTER


def test_the_resolver_is_closed_before_its_guard_goes_and_opened_after_it_is_there() -> None:
    def first(steps: tuple[Step, ...], menu: str) -> int:
        menus = [step.menu if isinstance(step, Remove) else step.row.menu for step in steps]
        return menus.index(menu)

    router = ModelRouter()
    forward = make_plan(rows_for(), router.menus).steps
    assert first(forward, FILTER) < first(forward, "/ip/dns")
    router.execute(make_plan(rows_for(), router.menus))
    back = make_plan([Row("/ip/dns", "", {"allow-remote-requests": "no"})], router.menus).steps
    assert first(back, "/ip/dns") == 0


def test_foreign_rows_that_equal_ours_stay_foreign() -> None:
    desired = rows_for()
    twins = [{k: v for k, v in row.creation().items() if k != "comment"} for row in desired if row.menu == FILTER]
    router = ModelRouter({FILTER: [{".id": f"*F{n}", **row} for n, row in enumerate(twins)]})
    plan = make_plan(desired, router.menus)
    assert len([step for step in plan.of(Add) if step.row.menu == FILTER]) == len(twins)


def test_leading_dynamic_rules_are_skipped() -> None:
    desired = rows_for(nodes=1)
    router = configured(
        desired,
        {"chain": "input", "action": "passthrough", "dynamic": "true"},
        {"chain": "input", "action": "drop"},
    )
    assert router.menus[FILTER][0].get("dynamic") == "true"
    assert router.menus[FILTER][-1]["action"] == "drop"


def test_a_password_is_never_shown() -> None:
    desired = rows_for(bgp={"password": "geheim-4711"})
    router = ModelRouter()
    plan = make_plan(desired, router.menus)
    assert "geheim" not in render_text(plan)
    assert "geheim" not in str(render_json(plan))
    router.execute(plan)
    plan = make_plan(rows_for(bgp={"password": "neu-0815"}), router.menus)
    assert len(plan.steps) == 3
    assert "geheim" not in render_text(plan) + str(render_json(plan))
    assert "neu-0815" not in render_text(plan) + str(render_json(plan))


def test_five_thousand_foreign_rules_cost_little() -> None:
    desired = rows_for(nodes=8)
    foreign = [
        {"chain": ("input", "forward")[n % 2], "action": ("accept", "drop")[n > 40], "src-address": f"10.9.{n % 250}.1"}
        for n in range(5000)
    ]
    router = configured(desired, *foreign)
    misplaced = next(row for row in router.menus[FILTER] if tag_of(row) == "anycastlab:accept:bgp:node03")
    router.menus[FILTER].remove(misplaced)
    router.menus[FILTER].append(misplaced)
    started = time.process_time()
    plan = make_plan(desired, router.menus)
    assert time.process_time() - started < 0.5
    assert len(plan.steps) == 1


# --- whose row it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        "anycastlab: web pages, mine",
        "anycastlab:",
        "anycastlab:mine",
        "anycastlab:accept:web:node01",
        "anycastlab:connection:node01, the old one",
        "anycastlab:redirect:https",
        "anycastlab:netwatch2",
        "Anycastlab:instance",
        " anycastlab:instance",
    ],
)
def test_only_tags_that_are_made_here_are_ours(comment: str) -> None:
    assert tag_of({"comment": comment}) == ""


@pytest.mark.parametrize("version", ["7.16.2", "7.24"])
def test_every_tag_that_is_made_here_is_known(version: str) -> None:
    names, service = ["no", "10", "a-b"], {"address6": "fd00:9::53"}
    rows = rows_for(version, names=names, service=service, layout="flat", router={"dhcp_network": "10.1.1.0/24"})
    tags = {row.tag for row in rows if row.tag}
    assert len(tags) > 30
    assert {tag for tag in tags if tag_of({"comment": f"{tag} and a word"}) != tag} == set()
