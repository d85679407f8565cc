"""Commands over a real connection: what each verb does and how it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from anycastlab.virtual_router.dataplane.api import NullDataplane, Snapshot
from anycastlab.virtual_router.testing import RunningRouter, running_router
from tests.unit.virtual_router.support import Client, attributes, connected

FILTER = "/ip/firewall/filter"
CONNECTION = "/routing/bgp/connection"
RULES = [
    {"chain": "input", "action": "accept", "connection-state": "established,related", "comment": "first"},
    {"chain": "input", "action": "drop", "comment": "last"},
]


@pytest.fixture
def router() -> Iterator[RunningRouter]:
    with running_router(rows={FILTER: RULES}) as running:
        yield running


@pytest.fixture
def client(router: RunningRouter) -> Iterator[Client]:
    with connected(router) as api:
        yield api


def comments(client: Client, menu: str = FILTER) -> list[str]:
    return [row.get("comment", "") for row in client.rows(f"{menu}/print")]


def test_a_row_is_added_read_changed_and_removed(client: Client) -> None:
    number = client.ret(
        f"{FILTER}/add", "=chain=input", "=action=accept", "=protocol=tcp", "=dst-port=179", "=comment=Küche"
    )
    (row,) = client.rows(f"{FILTER}/print", f"?.id={number}")
    assert row == {
        ".id": number, "chain": "input", "action": "accept", "protocol": "tcp", "dst-port": "179", "bytes": "0",
        "packets": "0", "invalid": "false", "dynamic": "false", "comment": "Küche",
    }  # fmt: skip
    client.ok(f"{FILTER}/set", f"=.id={number}", "=disabled=yes", "=!dst-port=")
    (row,) = client.rows(f"{FILTER}/print", f"?.id={number}")
    assert row["disabled"] == "true"
    assert "dst-port" not in row
    client.ok(f"{FILTER}/enable", f"=numbers={number}")
    client.ok(f"{FILTER}/comment", f"=numbers={number}", "=comment=other")
    client.ok(f"{FILTER}/unset", f"=.id={number}", "=value-name=protocol")
    (row,) = client.rows(f"{FILTER}/getall", f"?.id={number}")
    assert (row["disabled"], row["comment"], "protocol" in row) == ("false", "other", False)
    client.ok(f"{FILTER}/remove", f"=.id={number}")
    assert client.refusal(f"{FILTER}/remove", f"=.id={number}") == "no such item (4)"


def test_rows_go_where_they_are_put(client: Client) -> None:
    client.ret(f"{FILTER}/add", "=chain=input", "=action=accept", "=comment=mine", "=place-before=*2")
    assert comments(client) == ["first", "mine", "last"]
    client.ok(f"{FILTER}/move", "=numbers=*2", "=destination=*1")
    assert comments(client) == ["last", "first", "mine"]
    client.ok(f"{FILTER}/move", "=numbers=*3,*1", "=destination=*2")
    assert comments(client) == ["mine", "first", "last"]
    client.ok(f"{FILTER}/move", "=numbers=*3")
    assert comments(client) == ["first", "last", "mine"]


def test_a_bare_number_of_a_move_is_a_position(client: Client) -> None:
    client.ok(f"{FILTER}/move", "=numbers=0", "=destination=")
    assert comments(client) == ["last", "first"]


@pytest.mark.parametrize("form", ["true", "empty"])
@pytest.mark.parametrize("sent", ["yes", ""])
def test_a_route_s_flag_is_set_by_being_there_and_shown_in_either_form(form: str, sent: str) -> None:
    with running_router(flag_form=form) as router, connected(router) as client:
        number = client.ret("/ip/route/add", "=dst-address=10.1.9.53", f"=blackhole={sent}", "=distance=254")
        (row,) = client.rows("/ip/route/print", f"?.id={number}")
        assert row["blackhole"] == ("true" if form == "true" else "")
        assert row["dynamic"] == "false"
        client.ok("/ip/route/disable", f"=.id={number}")
        (row,) = client.rows("/ip/route/print", f"?.id={number}")
        assert "dynamic" not in row


def test_a_row_can_be_copied(client: Client) -> None:
    number = client.ret(f"{FILTER}/add", "=copy-from=*1", "=comment=copy")
    (row,) = client.rows(f"{FILTER}/print", f"?.id={number}")
    assert (row["connection-state"], row["comment"]) == ("established,related", "copy")


def test_rows_with_unique_names_are_addressed_by_name(client: Client) -> None:
    client.ret("/routing/bgp/instance/add", "=name=anycast", "=as=65000")
    client.ok("/routing/bgp/instance/set", "=.id=anycast", "=router-id=10.1.2.1")
    (row,) = client.rows("/routing/bgp/instance/print", "?name=anycast")
    assert row["router-id"] == "10.1.2.1"
    assert client.refusal("/routing/bgp/instance/remove", "=.id=nosuch") == "no such item"


def test_print_selects_properties_and_counts(client: Client) -> None:
    assert client.rows(f"{FILTER}/print", "=.proplist=.id,comment,nosuch") == [
        {".id": "*1", "comment": "first"},
        {".id": "*2", "comment": "last"},
    ]
    assert client.ret(f"{FILTER}/print", "=count-only=") == "2"
    assert client.ret(f"{FILTER}/print", "=count-only=", "?action=drop") == "1"
    assert client.ret(f"{FILTER}/find", "?action=drop") == "*2"
    assert client.ret(f"{FILTER}/get", "=.id=*2", "=value-name=action") == "drop"
    assert [row[".id"] for row in client.rows(f"{FILTER}/print", "=from=*2")] == ["*2"]
    assert client.rows(f"{FILTER}/print", "=dynamic=") == []


def test_a_singleton_is_read_and_set_whole(client: Client) -> None:
    client.ok("/ip/settings/set", "=ipv4-multipath-hash-policy=l4", "=send-redirects=no")
    (row,) = client.rows("/ip/settings/print")
    assert (row["ipv4-multipath-hash-policy"], row["send-redirects"], row["secure-redirects"]) == (
        "l4",
        "false",
        "true",
    )
    assert ".id" not in row
    assert client.ret("/system/identity/get", "=value-name=name") == "router"
    client.ok("/ip/dns/set", "=allow-remote-requests=yes", "=servers=203.0.113.53")
    client.ok("/ip/dns/reset", "=servers=")
    (row,) = client.rows("/ip/dns/print")
    assert (row["allow-remote-requests"], row["servers"]) == ("true", "")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["/nonsense/print"], "no such command prefix"),
        (["/system/nonsense/print"], "no such command prefix"),
        (["/routing/print"], "no such command"),
        ([f"{FILTER}/frobnicate"], "no such command"),
        ([f"{FILTER}/add", "=chain=input", "=colour=red"], "unknown parameter colour"),
        ([f"{FILTER}/set", "=.id=*1", "=place-before=*2"], "unknown parameter place-before"),
        ([f"{FILTER}/set", "=.id=*1", "=!colour="], "unknown parameter colour"),
        ([f"{FILTER}/remove", "=.id=*1", "=colour=red"], "unknown parameter colour"),
        ([f"{FILTER}/print", "=colour="], "unknown parameter colour"),
        ([f"{FILTER}/add", "=chain=input", "=action=acept"], "input does not match any value of action"),
        ([f"{FILTER}/add", "=chain=input", "=dst-port=x"], "invalid value for argument dst-port"),
        ([f"{FILTER}/add", "=chain=input", "=dst-port=70000"], "value of dst-port out of range (0..65535)"),
        ([f"{FILTER}/add", "=action=drop"], "missing value(s) of argument(s) chain"),
        ([f"{FILTER}/add", "=chain=input", "=place-before=*99"], "no such item (4)"),
        ([f"{FILTER}/set", "=comment=x"], "missing =.id="),
        ([f"{FILTER}/remove"], "missing =.id="),
        ([f"{FILTER}/remove", "=.id="], "no such item"),
        ([f"{FILTER}/set", "=.id=*99", "=comment=x"], "no such item (4)"),
        ([f"{FILTER}/set", "=.id=*1,*99", "=comment=x"], "no such item (4)"),
        ([f"{FILTER}/move", "=numbers=*1", "=destination=*1"], "failure: can not move object before itself"),
        (
            ["/interface/list/member/add", "=list=LAN", "=interface=ether9"],
            "input does not match any value of interface",
        ),
        (
            [f"{FILTER}/add", "=chain=input", "=in-interface=ether9"],
            "input does not match any value of interface",
        ),
        (
            ["/ip/firewall/nat/add", "=chain=srcnat", "=action=masquerade", "=out-interface=!ether9"],
            "input does not match any value of interface",
        ),
        (["/ip/service/remove", "=.id=api"], "no such command"),
        (["/interface/list/remove", "=.id=all"], "failure: cannot remove builtin"),
        (["/ip/address/add", "=address=10.1.1.2/24", "=interface=lo"], "not emulated: changes of /ip/address"),
        (["/ip/address/remove", "=.id=*1"], "not emulated: changes of /ip/address"),
        (["/ip/service/set", "=.id=api", "=port=1"], "not emulated: changes of /ip/service"),
        (["/ip/dhcp-server/add", "=name=x", "=interface=lo"], "not emulated: changes of /ip/dhcp-server"),
        (["/system/backup/save", "=name=x"], "not emulated: /system/backup/save"),
        (["/system/reboot"], "not emulated: /system/reboot"),
        (["/execute", "=script=:put 1"], "not emulated: /execute"),
        (["/user/group/remove", "=.id=automation"], "failure: group has some users"),
        (["/safe-mode/release"], "Safe Mode has not been taken. Action aborted."),
        ([f"{FILTER}/listen"], f"not emulated: {FILTER}/listen"),
        ([f"{FILTER}/print", "=follow="], "not emulated: print follow"),
        ([f"{FILTER}/print", "word"], "not emulated: word 'word'"),
        ([f"{FILTER}/print", "?#x"], "query operation #x is not understood"),
    ],
)
def test_a_refusal_says_what_routeros_says(client: Client, words: list[str], text: str) -> None:
    before = client.rows(f"{FILTER}/print")
    assert client.refusal(*words) == text
    assert client.rows(f"{FILTER}/print") == before


@pytest.mark.parametrize(
    ("words", "category"), [(["/x/print"], "0"), ([f"{FILTER}/add", "=chain=a", "=action=b"], "1")]
)
def test_a_refusal_carries_its_category(client: Client, words: list[str], category: str) -> None:
    assert attributes(client.talk(*words)[0])["category"] == category


@pytest.mark.parametrize(
    ("version", "empty"), [("7.17", False), ("7.18", True), ("7.22.3", True), ("7.18beta1", False)]
)
def test_an_empty_list_is_marked_since_7_18(version: str, empty: bool) -> None:
    with running_router(version=version) as router, connected(router) as client:
        expected = [["!empty"], ["!done"]] if empty else [["!done"]]
        assert client.talk("/ip/firewall/nat/print") == expected
        assert client.talk("/ip/firewall/nat/print", "?comment=x") == expected
        assert client.talk("/ip/firewall/nat/print", "=count-only=") == [["!done", "=ret=0"]]


@pytest.mark.parametrize(
    ("version", "arguments"),
    [
        ("7.16.2", ["=address-families=ip", "=router-id=10.1.2.1"]),
        ("7.19.6", ["=afi=ip", "=router-id=10.1.2.1"]),
        ("7.20.8 (long-term)", ["=afi=ip", "=instance=anycast"]),
        ("7.24", ["=afi=ip", "=instance=anycast"]),
    ],
)
def test_each_version_takes_its_own_arguments_only(version: str, arguments: list[str]) -> None:
    every = {"=address-families=ip", "=afi=ip", "=router-id=10.1.2.1", "=instance=anycast"}
    with running_router(version=version) as router, connected(router) as client:
        if "=instance=anycast" in arguments:
            client.ret("/routing/bgp/instance/add", "=name=anycast", "=as=65000")
        base = [f"{CONNECTION}/add", "=name=node01", "=local.role=ebgp", "=remote.address=10.1.2.11"]
        for foreign in every - set(arguments):
            name = foreign[1:].partition("=")[0]
            assert client.refusal(*base, *arguments, foreign) == f"unknown parameter {name}"
        client.ret(*base, *arguments)
        assert client.rows("/system/resource/print")[0]["version"].startswith(version.split(" ")[0])


def test_policies_decide_what_an_account_may_do(router: RunningRouter) -> None:
    with connected(router, "reader") as reader:
        assert len(reader.rows(f"{FILTER}/print")) == 2
        for words in (
            [f"{FILTER}/add", "=chain=input"],
            [f"{FILTER}/remove", "=.id=*1"],
            ["/safe-mode/take"],
            ["/ping", "=address=127.0.0.1"],
        ):
            assert reader.refusal(*words) == "not enough permissions (9)"
    with connected(router, "automation") as writer:
        writer.ret(f"{FILTER}/add", "=chain=input")
        assert writer.refusal("/user/add", "=name=x", "=group=full") == "not enough permissions (9)"
        assert len(writer.rows("/user/print")) == 5


def test_secrets_are_shown_to_those_who_may_see_them_and_passwords_to_nobody(router: RunningRouter) -> None:
    with connected(router, "automation") as client:
        client.ret("/routing/bgp/instance/add", "=name=anycast", "=as=65000")
        client.ret(f"{CONNECTION}/add", "=name=node01", "=local.role=ebgp", "=instance=anycast", "=tcp-md5-key=hunter2")
        assert client.rows(f"{CONNECTION}/print")[0]["tcp-md5-key"] == "hunter2"
    with connected(router, "insensitive") as client:
        assert "tcp-md5-key" not in client.rows(f"{CONNECTION}/print")[0]
        assert client.rows(f"{CONNECTION}/print", "?tcp-md5-key=hunter2") == []
    with connected(router) as client:
        assert all("password" not in row for row in client.rows("/user/print", "=.proplist=name,password"))
    assert "hunter2" not in str(router.writes())


def test_the_write_log_lists_what_was_written_and_nothing_else(router: RunningRouter) -> None:
    with connected(router) as client:
        client.rows(f"{FILTER}/print")
        client.ret(f"{FILTER}/find")
        client.ret("/system/identity/get", "=value-name=name")
        assert client.rows("/anycastlab/write-log/print") == []
        client.ok(f"{FILTER}/set", "=.id=*1", "=comment=changed")
        client.refusal(f"{FILTER}/set", "=.id=*9", "=comment=changed")
        logged = client.rows("/anycastlab/write-log/print", "=.proplist=user,command,arguments,result")
    assert logged == [
        {"user": "admin", "command": f"{FILTER}/set", "arguments": ".id=*1 comment=changed", "result": "done"},
        {
            "user": "admin",
            "command": f"{FILTER}/set",
            "arguments": ".id=*9 comment=changed",
            "result": "no such item (4)",
        },
    ]


def test_the_counter_counts_sentences(client: Client) -> None:
    before = int(client.rows("/anycastlab/api/print")[0]["sentences"])
    for _ in range(3):
        client.rows(f"{FILTER}/print")
    assert int(client.rows("/anycastlab/api/print")[0]["sentences"]) - before == 4


def test_the_routers_own_leading_rows_are_shown_and_protected() -> None:
    dummy = {"chain": "forward", "action": "passthrough", "comment": "special dummy rule to show fasttrack counters"}
    with running_router(rows={FILTER: RULES}, dynamic_rows={FILTER: [dummy]}) as router, connected(router) as client:
        first = client.rows(f"{FILTER}/print")[0]
        assert (first["dynamic"], first["comment"]) == ("true", dummy["comment"])
        own = first[".id"]
        for words in (
            [f"{FILTER}/add", "=chain=input", f"=place-before={own}"],
            [f"{FILTER}/move", "=numbers=*3", f"=destination={own}"],
        ):
            assert client.refusal(*words) == "failure: cannot move builtin"
        client.ret(f"{FILTER}/add", "=chain=input", "=comment=mine", "=place-before=*2")
        assert comments(client)[1:] == ["mine", "first", "last"]


# --- the data plane's part --------------------------------------------------------------------------------------


class Plane(NullDataplane):
    """Says no to one action, and knows one menu and one row."""

    def refuse(self, menu: str, row: object) -> str | None:
        return "action=tarpit" if "tarpit" in str(row) else super().refuse(menu, {})


@pytest.fixture
def plane() -> Plane:
    plane = Plane()
    plane.runtime["/routing/bgp/session"] = [{".id": "*2800001", "name": "node01-1", "established": "true"}]
    plane.runtime["/ip/firewall/connection"] = [{".id": "*A", "dst-address": "10.1.9.53:53"}, {".id": "*B"}]
    plane.runtime["/ip/route"] = [
        {"dst-address": "10.1.9.53/32", "gateway": "10.1.2.11", "active": "true", "dynamic": "true"}
    ]
    plane.notes["/ip/firewall/filter", "first"] = {"bytes": "42", "invalid": "true", ".why": "chain is never reached"}
    return plane


def test_runtime_menus_and_properties_come_from_the_data_plane(plane: Plane) -> None:
    with running_router(rows={FILTER: RULES}, dataplane=plane) as router, connected(router) as client:
        assert client.rows("/routing/bgp/session/print")[0]["established"] == "true"
        (route,) = client.rows("/ip/route/print", "?dst-address=10.1.9.53/32")
        assert route[".id"].startswith("*F")
        row = client.rows(f"{FILTER}/print")[0]
        assert (row["bytes"], row["invalid"], row[".about"]) == ("42", "true", "chain is never reached")
        client.ok("/ip/firewall/connection/remove", "=.id=*A")
        assert client.refusal("/ip/firewall/connection/remove", "=.id=*A") == "no such item (4)"
        client.talk("/routing/bgp/session/clear", "=numbers=*2800001")
    assert plane.actions[0] == ("/ip/firewall/connection", "remove", {"numbers": "*A"})
    assert plane.actions[-1][:2] == ("/routing/bgp/session", "clear")


def test_what_cannot_be_emulated_is_refused_by_name(plane: Plane) -> None:
    with running_router(dataplane=plane) as router, connected(router) as client:
        text = client.refusal(f"{FILTER}/add", "=chain=input", "=action=tarpit")
        assert text == f"not emulated: {FILTER} action=tarpit"
        assert client.rows(f"{FILTER}/print") == []


def test_writes_reach_the_data_plane_together_and_before_the_next_read(plane: Plane) -> None:
    with running_router(dataplane=plane) as router, connected(router) as client:
        applied = len(plane.applied)
        for number in range(10):
            client.ret(f"{FILTER}/add", "=chain=input", f"=comment={number}")
        client.rows("/routing/bgp/session/print")
        seen = [row["comment"] for row in plane.applied[-1][FILTER]]
        assert seen == [str(number) for number in range(10)]
        assert len(plane.applied) - applied <= 3


def test_a_failing_data_plane_leaves_the_api_up() -> None:
    class Broken(NullDataplane):
        async def apply(self, snapshot: Snapshot) -> None:
            del snapshot
            raise RuntimeError("FRR is gone")

    with running_router(dataplane=Broken()) as router, connected(router) as client:
        client.ret(f"{FILTER}/add", "=chain=input")
        assert len(client.rows(f"{FILTER}/print")) == 1
        assert any("FRR is gone" in row["message"] for row in client.rows("/log/print"))


def test_scripts_have_the_rights_they_are_given_and_no_more(plane: Plane) -> None:
    with running_router(rows={FILTER: RULES}, dataplane=plane) as router:
        console = plane.console
        assert console is not None
        loop = router._loop

        def run(command: str, arguments: dict[str, str]) -> list[dict[str, str]]:
            return asyncio.run_coroutine_threadsafe(console.execute(command, arguments), loop).result(5)

        run(f"{FILTER}/disable", {"numbers": "*2"})
        assert run(f"{FILTER}/print", {})[1]["disabled"] == "true"
        assert run(f"{FILTER}/add", {"chain": "input"}) == [{"ret": "*3"}]
        with pytest.raises(Exception, match="not enough permissions"):
            run("/user/add", {"name": "x", "group": "full"})
        assert {row["user"] for row in router.writes()} == {"netwatch"}
