"""Rows: ids, order, uniqueness, checkpoints, upgrade and downgrade."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.command_trees.schema import Menu, Schema
from anycastlab.virtual_router.dataplane.api import CommandRefused
from anycastlab.virtual_router.store import Row, Store

NAT = "/ip/firewall/nat"


def menu_of(store: Store, path: str) -> Menu:
    found = store.schema.menu(path)
    assert found is not None
    return found


def store_with(count: int, dynamic: int = 0, version: str = "7.22.3") -> Store:
    store = Store(Schema.load(version))
    store.fill(NAT, [{"chain": "srcnat", "dynamic": "true", "comment": f"d{n}"} for n in range(dynamic)])
    for number in range(count):
        store.add(menu_of(store, NAT), {"chain": "dstnat", "comment": f"r{number}"})
    return store


def order(store: Store) -> list[str]:
    return [row.values["comment"] for row in store.rows(NAT)]


def refusal(store: Store, path: str, arguments: Mapping[str, str], place_before: str | None = None) -> str:
    with pytest.raises(CommandRefused) as refused:
        store.add(menu_of(store, path), arguments, place_before)
    return refused.value.message


def test_ids_are_hexadecimal_and_never_used_again() -> None:
    store = store_with(11)
    last = store.rows(NAT)[-1]
    assert last.id == "*B"
    store.remove(menu_of(store, NAT), [last])
    assert store.add(menu_of(store, NAT), {"chain": "dstnat"}).id == "*C"


def test_a_rollback_does_not_give_ids_back() -> None:
    store = store_with(2)
    before = store.checkpoint()
    store.add(menu_of(store, NAT), {"chain": "dstnat"})
    store.restore(before)
    assert store.add(menu_of(store, NAT), {"chain": "dstnat"}).id == "*4"


def test_place_before_puts_a_row_where_it_says() -> None:
    store = store_with(3)
    store.add(menu_of(store, NAT), {"chain": "dstnat", "comment": "new"}, "*2")
    assert order(store) == ["r0", "new", "r1", "r2"]


def test_nothing_goes_before_the_routers_own_leading_rows() -> None:
    store = store_with(2, dynamic=1)
    assert refusal(store, NAT, {"chain": "dstnat"}, "*1") == "failure: cannot move builtin"
    with pytest.raises(CommandRefused, match="cannot move builtin"):
        store.move(menu_of(store, NAT), store.find(NAT, "*3"), "*1")
    with pytest.raises(CommandRefused, match="cannot move builtin"):
        store.move(menu_of(store, NAT), store.find(NAT, "*1"), None)
    with pytest.raises(CommandRefused, match="cannot remove builtin"):
        store.remove(menu_of(store, NAT), store.find(NAT, "*1"))
    with pytest.raises(CommandRefused, match="cannot change builtin"):
        store.set(menu_of(store, NAT), store.find(NAT, "*1"), {"comment": "x"})
    store.add(menu_of(store, NAT), {"chain": "dstnat", "comment": "new"}, "*2")
    assert order(store) == ["d0", "new", "r0", "r1"]


@given(st.integers(2, 6), st.data())
def test_a_move_keeps_everything_else_in_order(count: int, data: st.DataObject) -> None:
    store = store_with(count)
    names = order(store)
    moved = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=count))
    rest = [name for name in names if name not in moved]
    before = data.draw(st.sampled_from([*rest, None]))
    ids = {row.values["comment"]: row.id for row in store.rows(NAT)}
    at = len(rest) if before is None else rest.index(before)
    store.move(
        menu_of(store, NAT), store.find(NAT, ",".join(ids[it] for it in moved)), None if before is None else ids[before]
    )
    assert order(store) == [*rest[:at], *moved, *rest[at:]]
    assert {row.values["comment"]: row.id for row in store.rows(NAT)} == ids


def test_moving_before_itself_is_refused_and_an_unknown_destination_is_the_end() -> None:
    store = store_with(3)
    with pytest.raises(CommandRefused, match="can not move object before itself"):
        store.move(menu_of(store, NAT), store.find(NAT, "*1"), "*1")
    store.move(menu_of(store, NAT), store.find(NAT, "*1"), "*FFFF")
    assert order(store) == ["r1", "r2", "r0"]


ENTRY = {"list": "dns", "address": "10.1.9.53"}


@pytest.mark.parametrize(
    ("path", "first", "second", "text"),
    [
        ("/ip/firewall/address-list", ENTRY, {**ENTRY, "address": "10.1.9.53/32"}, "failure: already have such entry"),
        (
            "/ip/dns/static",
            {"name": "a.lan", "address": "10.1.1.9"},
            {"name": "a.lan", "address": "10.1.1.9", "ttl": "5s"},
            "failure: entry already exists",
        ),
        (
            "/ip/dhcp-server/network",
            {"address": "10.1.1.0/24"},
            {"address": "10.1.1.0/24"},
            "failure: such network already exists",
        ),
        ("/routing/bgp/instance", {"name": "x"}, {"name": "x"}, "failure: already have instance with such name"),
        ("/user/group", {"name": "x"}, {"name": "x"}, "failure: group with the same name already exists"),
    ],
)
def test_what_must_be_unique_is(path: str, first: dict[str, str], second: dict[str, str], text: str) -> None:
    store = Store(Schema.load("7.22.3"))
    store.add(menu_of(store, path), first)
    assert refusal(store, path, second) == text
    assert len(store.rows(path)) == 1


def test_a_disabled_twin_is_allowed_until_it_is_enabled() -> None:
    store = Store(Schema.load("7.22.3"))
    path = "/ip/firewall/address-list"
    store.add(menu_of(store, path), ENTRY)
    twin = store.add(menu_of(store, path), {**ENTRY, "disabled": "yes"})
    with pytest.raises(CommandRefused, match="already have such entry"):
        store.set(menu_of(store, path), [twin], {"disabled": "no"})
    assert store.rows(path)[1].values["disabled"] == "true"


def test_connection_names_need_not_be_unique() -> None:
    store = Store(Schema.load("7.16.2"))
    path = "/routing/bgp/connection"
    for _ in range(2):
        store.add(menu_of(store, path), {"name": "node01", "local.role": "ebgp"})
    assert len(store.rows(path)) == 2


@pytest.mark.parametrize(
    ("version", "path", "given", "missing"),
    [
        ("7.22.3", "/routing/bgp/connection", {"name": "x"}, "instance local.role"),
        ("7.19.6", "/routing/bgp/connection", {"name": "x"}, "local.role"),
        ("7.22.3", NAT, {"action": "accept"}, "chain"),
        ("7.22.3", "/tool/netwatch", {"type": "dns"}, "host"),
        ("7.22.3", "/ip/dns/static", {"address": "10.1.1.1"}, "name"),
    ],
)
def test_an_add_says_what_it_lacks(version: str, path: str, given: dict[str, str], missing: str) -> None:
    store = Store(Schema.load(version))
    assert refusal(store, path, given) == f"missing value(s) of argument(s) {missing}"


def test_a_regexp_record_needs_no_name() -> None:
    store = Store(Schema.load("7.22.3"))
    row = store.add(menu_of(store, "/ip/dns/static"), {"regexp": ".*\\.lan", "address": "10.1.1.1"})
    assert "name" not in store.shown("/ip/dns/static", row)


@pytest.mark.parametrize(
    ("argument", "version"), [("afi", "7.18"), ("address-families", "7.22.3"), ("nonsense", "7.22.3")]
)
def test_an_argument_of_another_version_is_unknown(argument: str, version: str) -> None:
    store = Store(Schema.load(version))
    assert refusal(store, "/routing/bgp/connection", {argument: "ip"}) == f"unknown parameter {argument}"


def test_a_refused_change_of_several_rows_changes_none() -> None:
    store = store_with(3)
    with pytest.raises(CommandRefused):
        store.set(menu_of(store, NAT), store.rows(NAT), {"comment": "all", "action": "nonsense"})
    assert order(store) == ["r0", "r1", "r2"]


def test_the_guard_can_refuse_any_new_state() -> None:
    store = store_with(1)

    def guard(_menu: str, row: Mapping[str, str]) -> None:
        if row["action"] == "netmap":
            raise CommandRefused("not emulated: action=netmap")

    store.guard = guard
    assert refusal(store, NAT, {"chain": "dstnat", "action": "netmap"}) == "not emulated: action=netmap"
    with pytest.raises(CommandRefused, match="netmap"):
        store.set(menu_of(store, NAT), store.rows(NAT), {"action": "netmap"})
    assert [row.values.get("action") for row in store.rows(NAT)] == [None]


def test_what_watches_a_row_sees_a_change_that_was_taken_back_at_once() -> None:
    store = Store(Schema.load("7.22.3"))
    menu = menu_of(store, "/tool/netwatch")
    row = store.add(menu, {"host": "10.1.2.11"})
    (before,) = store.snapshot()["/tool/netwatch"]
    for disabled in ("yes", "no"):
        store.set(menu, store.find("/tool/netwatch", row.id), {"disabled": disabled})
    (after,) = store.snapshot()["/tool/netwatch"]
    assert before[".revision"] != after[".revision"]


def test_a_comment_is_gone_when_it_is_empty() -> None:
    store = store_with(1)
    store.set(menu_of(store, NAT), store.rows(NAT), {"comment": ""})
    assert "comment" not in store.shown(NAT, store.rows(NAT)[0])


def test_what_was_saved_comes_back_under_the_routers_own_rows() -> None:
    before = store_with(3, dynamic=1)
    after = store_with(0, dynamic=2)
    after.load(before.export())
    assert order(after) == ["d0", "d1", "r0", "r1", "r2"]
    ids = [row.id for row in after.rows(NAT)]
    assert ids[2:] == ["*2", "*3", "*4"]
    assert len(set(ids)) == 5
    assert after.add(menu_of(after, NAT), {"chain": "dstnat"}).id not in ids


def test_a_downgrade_drops_what_the_old_version_lacks() -> None:
    new = Store(Schema.load("7.22.3"))
    new.add(menu_of(new, "/routing/bgp/instance"), {"name": "x", "multipath": "8"})
    old = Store(Schema.load("7.20.8"))
    old.load(new.export())
    (row,) = old.rows("/routing/bgp/instance")
    assert dict(row.values) == {"name": "x"}
    older = Store(Schema.load("7.19"))
    older.load(new.export())
    assert "/routing/bgp/instance" not in older.snapshot()


@pytest.mark.parametrize(
    "data", [{}, {"ids": 3, "menus": {}}, {"ids": {}, "menus": []}, {"ids": {}, "menus": {NAT: [1]}}]
)
def test_anything_else_is_not_a_saved_configuration(data: dict[str, object]) -> None:
    store = store_with(1)
    with pytest.raises(ValueError, match="not a saved configuration"):
        store.load(data)
    assert order(store) == ["r0"]


def test_the_snapshot_has_every_singleton_and_no_account_password() -> None:
    store = store_with(1)
    store.ensure("/user/group", [{"name": "g", "policy": "read"}])
    store.ensure("/user", [{"name": "me", "password": "hunter2", "group": "g"}])
    snapshot = store.snapshot()
    assert snapshot["/ip/settings"][0]["send-redirects"] == "true"
    assert "hunter2" not in str(snapshot)
    assert snapshot[NAT][0][".id"] == "*1"


def test_a_group_with_members_stays() -> None:
    store = Store(Schema.load("7.22.3"))
    store.ensure("/user/group", [{"name": "g", "policy": "read"}])
    store.ensure("/user", [{"name": "me", "group": "g"}])
    with pytest.raises(CommandRefused, match="failure: group has some users"):
        store.remove(menu_of(store, "/user/group"), store.rows("/user/group"))


def test_thousands_of_rows_are_added_without_looking_at_all_of_them_each_time() -> None:
    """Counted, not timed: the work per row must not grow with the rows that are there."""
    store = Store(Schema.load("7.22.3"))
    menu = menu_of(store, "/ip/firewall/address-list")
    shown = 0
    original = store.shown

    def counting(path: str, row: Row) -> dict[str, str]:
        nonlocal shown
        shown += 1
        return original(path, row)

    store.shown = counting  # type: ignore[method-assign]
    for number in range(300):
        store.add(menu, {"list": "x", "address": f"10.0.{number // 200}.{number % 200}"})
    assert shown <= 2 * 300
