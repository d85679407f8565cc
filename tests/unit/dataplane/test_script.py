"""Scripts as people put them into netwatch."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.routeros.rows_fallback import REDIRECT_TAG, holding, script
from anycastlab.virtual_router.dataplane.api import NETWATCH_POLICIES, CommandRefused
from anycastlab.virtual_router.dataplane.script import Interpreter, binary
from anycastlab.virtual_router.dataplane.script_parser import parse
from anycastlab.virtual_router.dataplane.script_tree import ScriptError

from .fake_console import FakeConsole

NAT = "/ip/firewall/nat"
CONNECTIONS = "/ip/firewall/connection"


@pytest.fixture
def console() -> FakeConsole:
    return FakeConsole(
        {
            NAT: [
                {".id": "*1", "chain": "dstnat", "comment": "anycastlab:redirect udp", "disabled": "true"},
                {".id": "*2", "chain": "dstnat", "comment": "anycastlab:redirect tcp", "disabled": "true"},
                {".id": "*3", "chain": "srcnat", "comment": 'says "hi"', "disabled": "false"},
            ],
            CONNECTIONS: [
                {".id": "*A", "dst-address": "10.1.9.53:53", "protocol": "udp"},
                {".id": "*B", "dst-address": "10.1.9.53", "protocol": "icmp"},
                {".id": "*C", "dst-address": "110.1.9.53:53", "protocol": "udp"},
            ],
            "/ip/dns": [{"servers": "192.0.2.1", "allow-remote-requests": "true"}],
            "/system/script": [],
        }
    )


def run(console: FakeConsole, source: str, **variables: str) -> None:
    async def nowait(_: float) -> None:
        return

    asyncio.run(Interpreter(console, NETWATCH_POLICIES, "netwatch", variables, nowait).run(source))


def enabled(console: FakeConsole) -> set[str]:
    return {row[".id"] for row in console.rows[NAT] if row["disabled"] == "false"}


@pytest.mark.parametrize(
    "source",
    [
        '/ip firewall nat enable [find where comment~"^anycastlab:redirect"]',
        '/ip/firewall/nat/enable [find comment~"redirect"]',
        "/ip/firewall/nat enable numbers=[/ip/firewall/nat/find chain=dstnat disabled]",
        '/ip firewall nat\nenable [find where comment="anycastlab:redirect udp" or comment="anycastlab:redirect tcp"]',
        "/ip firewall nat set [find where disabled=yes] disabled=false",
        ":foreach i in=[/ip firewall nat find where !(chain=srcnat)] do={ /ip firewall nat enable $i }",
        ':local rows [/ip firewall nat find where chain="dstnat"]; /ip firewall nat enable $rows',
        ':if ([:len [/ip firewall nat find disabled]] = 2) do={/ip firewall nat enable *1,*2} else={:error "x"}',
        '# a comment\n\n  /ip firewall nat enable \\\n   [find where comment~"redirect (udp|tcp)\\$"] ;\n',
    ],
)
def test_ways_to_enable_the_redirect(console: FakeConsole, source: str) -> None:
    run(console, source)
    assert enabled(console) == {"*1", "*2", "*3"}
    assert console.policies == {NETWATCH_POLICIES}


def test_quotes_in_values_are_matched(console: FakeConsole) -> None:
    run(console, '/ip/firewall/nat/disable [find where comment="says \\"hi\\""]')
    assert enabled(console) == set()


def test_connections_of_the_service_address_are_flushed_and_no_others(console: FakeConsole) -> None:
    run(console, '/ip/firewall/connection/remove [find where dst-address~"^10\\\\.1\\\\.9\\\\.53(:|\\$)"]')
    assert [row[".id"] for row in console.rows[CONNECTIONS]] == ["*C"]


def test_a_row_that_vanishes_stops_the_script_unless_it_says_otherwise(console: FakeConsole) -> None:
    console.vanishing = {"*A"}
    with pytest.raises(CommandRefused, match="no such item"):
        run(console, "/ip/firewall/connection/remove [find]; /ip firewall nat enable [find]")
    assert enabled(console) == {"*3"}
    run(
        console,
        ':foreach c in=[/ip firewall connection find where dst-address~"^10.1.9.53"] do={'
        ' :do { /ip firewall connection remove $c } on-error={ :log warning "gone: $c" } }\n'
        "/ip firewall nat enable [find where chain=dstnat]",
    )
    assert enabled(console) == {"*1", "*2", "*3"}
    assert [row[".id"] for row in console.rows[CONNECTIONS]] == ["*A", "*C"]
    assert console.logged == [("script,warning", "gone: *A")]


def test_nothing_found_is_nothing_done(console: FakeConsole) -> None:
    run(console, '/ip firewall nat enable [find where comment="nobody"]')
    assert console.writes == []


def test_variables_of_the_probe_and_expressions(console: FakeConsole) -> None:
    run(
        console,
        ':local n 0; :while ($n < 3) do={ :set n ($n + 1) }\n:log info ("$host is " . $status . " " . $n)\n'
        ':for i from=2 to=1 step=-1 do={ :put $i }\n:if ($status = "up" && !($n > 3)) do={ :log error message=yes }',
        host="id.anycast.lan",
        status="up",
    )
    assert console.logged == [
        ("script,info", "id.anycast.lan is up 3"),
        ("script,info", "2"),
        ("script,info", "1"),
        ("script,error", "yes"),
    ]


def test_get_reads_a_property_also_of_a_singleton(console: FakeConsole) -> None:
    run(console, ":put [/ip firewall nat get *3 chain]; :put [/ip dns get servers]; /ip dns cache flush")
    assert [message for _, message in console.logged] == ["srcnat", "192.0.2.1"]
    assert console.writes == [("/ip/dns/cache/flush", {})]


SERVICE = IPv4Address("10.1.9.53")
APART, JOINED = {"dst-address": "10.1.9.53", "dst-port": "53"}, {"dst-address": "10.1.9.53:53"}


def last_resort(*disabled: str, status: str = "unknown", form: dict[str, str] | None = None) -> FakeConsole:
    """Two redirects, netwatch, and tracked connections in one of the published forms; one of them to somebody else."""
    others = [{".id": "*64", "dst-address": "110.1.9.53", "dst-port": "53"}, {".id": "*65", "dst-address": "10.1.9.5"}]
    return FakeConsole(
        {
            NAT: [
                {".id": f"*{number}", "comment": f"{REDIRECT_TAG}:{protocol}", "disabled": state}
                for number, protocol, state in zip((1, 2), ("udp", "tcp mine"), disabled, strict=True)
            ],
            CONNECTIONS: [*({".id": f"*{n:X}", **(form or APART)} for n in range(1, 50)), *others],
            "/tool/netwatch": [
                {".id": "*1", "comment": "somebody's", "status": "down" if status == "up" else "up"},
                {".id": "*2", "comment": "anycastlab:netwatch", "status": status},
            ],
        }
    )


@pytest.mark.parametrize("form", [APART, JOINED], ids=["ports apart", "ports joined"])
@pytest.mark.parametrize(("verb", "before", "on"), [("enable", "true", {"*1", "*2"}), ("disable", "false", set())])
def test_the_scripts_the_product_itself_writes(verb: str, before: str, on: set[str], form: dict[str, str]) -> None:
    console = last_resort(before, before, form=form)
    console.vanishing = {"*5"}
    run(console, script(verb, SERVICE))
    assert enabled(console) == on
    assert [row[".id"] for row in console.rows[CONNECTIONS]] == ["*5", "*64", "*65"]


@pytest.mark.parametrize(("verb", "before"), [("enable", "false"), ("disable", "true")])
def test_a_redirect_that_is_as_it_must_be_is_left_alone(verb: str, before: str) -> None:
    console = last_resort(before, before)
    run(console, script(verb, SERVICE))
    assert console.writes == []
    assert console.logged == []


@pytest.mark.parametrize(
    ("status", "before", "on"),
    [
        ("down", ("true", "true"), {"*1", "*2"}),
        ("down", ("false", "true"), {"*1", "*2"}),
        ("up", ("false", "false"), set()),
        ("up", ("true", "false"), set()),
    ],
)
def test_the_script_after_each_test_holds_the_redirect_to_netwatch_s_state(
    status: str, before: tuple[str, str], on: set[str]
) -> None:
    console = last_resort(*before, status=status)
    run(console, holding(SERVICE))
    assert enabled(console) == on
    assert [row[".id"] for row in console.rows[CONNECTIONS]] == ["*64", "*65"]
    assert len(console.logged) == 1
    done = len(console.writes)
    run(console, holding(SERVICE))
    assert len(console.writes) == done


@pytest.mark.parametrize("before", ["true", "false"])
def test_before_netwatch_has_an_answer_the_redirect_stays(before: str) -> None:
    console = last_resort(before, before, status="unknown")
    run(console, holding(SERVICE))
    assert console.writes == []


@pytest.mark.parametrize(
    ("policy", "runs"), [("read,write,test,reboot", True), ("read,write", True), ("read,write,policy", False)]
)
def test_a_called_script_runs_only_within_netwatch_rights(console: FakeConsole, policy: str, runs: bool) -> None:
    source = "/ip firewall nat enable [find]"
    console.rows["/system/script"] = [{".id": "*1", "name": "toggle", "policy": policy, "source": source}]
    run(console, ":log info before; /system script run toggle; :log info after")
    assert (enabled(console) == {"*1", "*2", "*3"}) is runs
    # Not run means silently: the caller goes on and nobody is told.
    assert [message for _, message in console.logged] == ["before", "after"]


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ('/tool fetch url="x"', "fetch"),
        ("/tool fetch", "fetch"),
        ("/tool fetch; /ip firewall nat disable [find]", "fetch"),
        (":beep", ":beep"),
        ("/ip firewall nat enable [find", "expected ]"),
        ('/ip firewall nat enable [find comment="x]', "string without an end"),
        (":if (1 = 1) { :log info x }", ":if needs do"),
        (":foreach i in=[/ip dns find] { :put $i }", ":foreach needs do"),
        (':log info "a $[/ip dns get servers]"', "inside a string"),
        (":log shout x", "shout"),
        ("}", "unexpected"),
        ("enable comment=", "unexpected"),
        (":local x (1 + )", "unexpected"),
        ('"\\z"', "unexpected"),
        ("[" * 60, "unexpected"),
        (":put " + "(" * 60, "deeply"),
    ],
)
def test_what_is_not_understood_is_told_and_nothing_has_run(console: FakeConsole, bad: str, where: str) -> None:
    with pytest.raises(ScriptError) as caught:
        run(console, f"/ip firewall nat enable [find]\n{bad}")
    assert where in str(caught.value)
    assert "line 2" in str(caught.value)
    assert console.writes == []


def test_a_script_without_end_is_ended(console: FakeConsole) -> None:
    with pytest.raises(ScriptError, match="more than"):
        run(console, ":while (true) do={ :local x 1 }")


@given(st.text(alphabet='/:[](){}"\\$;=~! \nabfindwhre.1', max_size=60))
def test_any_text_parses_or_is_refused_with_a_place(source: str) -> None:
    try:
        parse(source)
    except ScriptError as error:
        told = str(error)
    else:
        told = "line"
    assert "line" in told


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_numbers_compute(left: int, right: int) -> None:
    assert binary("+", str(left), right) == left + right
    assert binary("<", left, str(right)) == (left < right)
    assert binary(">=", str(left), str(right)) == (left >= right)
