"""Every setting of every kind with values it cannot have: always one sentence that names it, and never a traceback."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from anycastlab.site import load
from anycastlab.site.load import Machines, build
from anycastlab.site.settings import LAB_KEYS, SECRETS, SiteError, masked, refuse_secrets

HOME: dict[str, Any] = {
    "service_address": "10.1.9.53",
    "upstreams": ["203.0.113.53"],
    "router_dns": "192.0.2.1",
    "router_id": "198.51.100.1",
    "lan_networks": ["192.0.2.0/24", "198.51.100.0/24"],
    "wan_interface": "ether1",
}
ROUTER = "@routeros/198.51.100.1"


def board(number: int, **changes: Any) -> tuple[str, dict[str, Any]]:
    own = {"node_name": f"node{number:02d}", "address": f"192.0.2.{10 + number}", "prefix_length": 24}
    return f"192.0.2.{10 + number}", {**HOME, **own, "gateway": "192.0.2.1", **changes}


def home(*nodes: tuple[str, dict[str, Any]], router: str = ROUTER, **shared: Any) -> Machines:
    boards = nodes or (board(1), board(2))
    return Machines(
        tuple((name, {**data, **shared}) for name, data in boards), ((router, {**HOME, **shared}),), extra=()
    )


def refusal(machines: Machines, secrets: dict[str, str] | None = None) -> str:
    with pytest.raises(SiteError) as raised:
        build(machines, secrets)
    text = str(raised.value)
    assert "\n" not in text
    assert not re.search(r"pydantic|validator|Annotated|String should match|IPv4Address\(", text), text
    return text


def test_the_home_these_tests_spoil_is_a_good_one() -> None:
    site = build(home())
    assert [node.name for node in site.nodes] == ["node01", "node02"]
    assert build(home(router_dns=IPv4Address("192.0.2.1"))) == site


# What no setting can be, whatever it is for; and what only some can be.
NONSENSE: tuple[Any, ...] = (True, -1, 10**30, 1.5, float("nan"), "", "\n", "a\nb", "\x1b[31m", "'; reboot #", [], [[]])
MORE: tuple[Any, ...] = ({}, {"a": 1}, [None], [True], [10], object(), {1, 2}, lambda: 1, b"x", "maybe", "x" * 100_000)
LISTS = ("upstreams", "bootstrap", "local_zones", "reverse_zones", "blocklist", "lan_networks")
CAN_BE = {
    True: {"_sudo", "router_tls", "serve_stale", "dot", "images", "new_probe_key", "routeros_may_be_absent"},
    1.5: {"ssh_connect_retry_min_delay", "ssh_connect_retry_max_delay"},
}
KEYS = sorted((load.KNOWN_KEYS | LAB_KEYS | {"ssh_port", "ssh_user", "_sudo", "_timeout", "incus_remote"}) - {"lab"})


@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_the_wrong_kind_is_one_sentence_that_names_the_setting(key: str) -> None:
    for value in (*NONSENSE, *MORE):
        if key in (*LISTS, "forward_zones") and value in ([], {}):
            continue  # some may be empty; which may not, their own tests say
        if isinstance(value, bool | float) and key in CAN_BE.get(value, ()):
            continue
        try:
            build(home(**{key: value}))
        except SiteError as error:
            text = str(error)
            assert "\n" not in text
            assert "\x1b" not in text
            assert len(text) < 600, text[:200]
        else:
            # Text that means nothing bad, where any text may stand.
            assert isinstance(value, str | int | float), (key, value)
            assert value in ("", "maybe", "'; reboot #", 10**30, 1.5) or len(str(value)) > 1000, (key, value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"service_address": "fd00::1"}, "The setting 'service_address' is 'fd00::1': it must be IPv4."),
        ({"service_address": "10.1.9"}, "The setting 'service_address' is '10.1.9': it is no address."),
        ({"service_address": "10.1.9.53/32"}, "'10.1.9.53/32': an address has no length."),
        ({"service_address6": "10.1.9.54"}, "The setting 'service_address6' is '10.1.9.54': it must be IPv6."),
        ({"dhcp_network": "10.0.0.5/24"}, "is '10.0.0.5/24': a subnet is written with its first address, 10.0.0.0/24"),
        ({"lan_networks": ["fd00::/8"]}, "'lan_networks' of the router is 'fd00::/8': it must be IPv4."),
        ({"node_asn": 0}, "The setting 'node_asn' is 0: it must be at least 1."),
        ({"node_asn": True}, "The setting 'node_asn' is True: it must be a whole number."),
        ({"router_asn": "65000"}, "The setting 'router_asn' is '65000': it must be a whole number."),
        ({"service_address": 10}, "The setting 'service_address' is 10: it must be text, in quotes."),
        ({"router_id": 10}, "The setting 'router_id' of the router is 10: it must be text, in quotes."),
        ({"router_tls_fingerprint": 12}, "'router_tls_fingerprint' of the router is 12: it must be text, in quotes."),
        ({"router_tls_fingerprint": "12" * 31}, "it must be a certificate's sha256: 64 hexadecimal digits"),
        ({"router_tls": "maybe"}, "The setting 'router_tls' of the router is 'maybe': it must be True or False."),
        ({"router_tls": 1}, "The setting 'router_tls' of the router is 1: it must be True or False."),
        ({"ssh_port": "22"}, "The setting 'ssh_port' of 192.0.2.11 is '22': it must be a whole number."),
        ({"ssh_port": 99999}, "The setting 'ssh_port' of 192.0.2.11 is 99999: it must be at most 65535."),
        ({"ssh_user": 7}, "The setting 'ssh_user' of 192.0.2.11 is 7: it must be text, in quotes."),
        ({"ssh_allow_agent": "no"}, "The setting 'ssh_allow_agent' of 192.0.2.11 is 'no': it must be True or False."),
        ({"ssh_strict_host_key_checking": "maybe"}, "'ssh_strict_host_key_checking' of 192.0.2.11 is 'maybe': it must"),
        ({"ssh_paramiko_connect_kwargs": "x"}, "'ssh_paramiko_connect_kwargs' of 192.0.2.11 is 'x': it must be a dict"),
        ({"_sudo": "yes"}, "The setting '_sudo' of 192.0.2.11 is 'yes': it must be True or False."),
        ({"adguardhome_source": 7}, "The setting 'adguardhome_source' of 192.0.2.11 is 7: it must be text, in quotes."),
        ({"adguardhome_source": "ftp"}, "it must be auto, release, module or file:/path."),
        ({"router_api_port": "8729"}, "The setting 'router_api_port' of the router is '8729': it must be a whole num"),
        ({"upstreams": "9.9.9.9"}, "The setting 'upstreams' is '9.9.9.9': it must be a list."),
        ({"local_zones": [7]}, "The setting 'local_zones' is 7: it must be text, in quotes."),
        ({"layout": ["flat"]}, "The setting 'layout' is wrong: it must be 'routed' or 'flat'."),
        ({"rebuild": True}, "The setting 'rebuild' of 192.0.2.11 is True: it must be text, in quotes."),
        ({"images": "yes"}, "The setting 'images' of 192.0.2.11 is 'yes': it must be True or False."),
        ({"number": "1"}, "The setting 'number' of 192.0.2.11 is '1': it must be a whole number."),
        ({"cache_bytes": object()}, "The setting 'cache_bytes' of @routeros/198.51.100.1 is of Python's type object;"),
    ],
)
def test_types(change: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(home(**change))


@pytest.mark.parametrize("key", ["dns_rewrites", "filters", "i", "gateway4", "node_asns"])
def test_an_unknown_setting_is_refused_however_it_is_spelt(key: str) -> None:
    assert f"has the unknown setting '{key}'" in refusal(home(**{key: "x"}))


def test_a_misspelt_setting_of_pyinfra_is_refused_and_a_private_name_is_not() -> None:
    assert "unknown setting '_sudo_usr'; did you mean '_sudo_user'?" in refusal(home(_sudo_usr="x"))
    build(home(_my_own_constants={"a": 1}, helper=len))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interface": "eth0; reboot"}, "it must be the name of a network interface"),
        ({"interface": "eth0\n"}, "it must be the name of a network interface"),
        ({"interface": "$(reboot)"}, "it must be the name of a network interface"),
        ({"interface": "../eth0"}, "it must be the name of a network interface"),
        ({"interface": "a-name-longer-than-15"}, "it must be the name of a network interface"),
        ({"wan_interface": ""}, "it must be a name as the router shows it"),
        ({"wan_interface": " "}, "it must be a name as the router shows it"),
        ({"wan_interface": "!ether1"}, "it must be a name as the router shows it"),
        ({"wan_interface": "ether1\n"}, "it must be a name as the router shows it"),
        ({"wan_interface": 'ether1" '}, "it must be a name as the router shows it"),
        ({"router_bgp_instance": "a$b"}, "it must be a name as the router shows it"),
        ({"router_user": "any\ncast"}, "it must be the name of a router's user"),
        ({"router_user": ""}, "it must be the name of a router's user"),
        ({"router_tls_fingerprint": "ab" * 32 + "\n"}, "it must be a certificate's sha256"),
        ({"router_api_host": "router lan"}, "it must be an address or a host name"),
        ({"router_api_host": "192.0.2.1\n"}, "it must be an address or a host name"),
        ({"router_api_host": "https://192.0.2.1"}, "it must be an address or a host name"),
        ({"node_name": "node01\n"}, "it must be a host name"),
        ({"identity_name": "id.lan\n"}, "it must be a DNS name"),
        ({"local_zones": ["lan\n"]}, "it must be a DNS name"),
        ({"blocklist": ["ads.example\n    local-data: x"]}, "it must be a DNS name"),
        ({"upstreams": ["9.9.9.9\nserver: x"]}, "it must be one word"),
        ({"architecture": "x86_64\n"}, "it must be a machine's name"),
        ({"lan_networks": ["192.0.2.0"]}, "it must be a subnet with its length"),
        ({"dhcp_network": "192.0.2.0"}, "it must be a subnet with its length"),
    ],
)
def test_what_reaches_a_machine_is_matched_whole(change: dict[str, Any], reason: str) -> None:
    machines = home(board(1, **change)) if "node_name" in change else home(**change)
    assert reason in refusal(machines)


@pytest.mark.parametrize(
    "change",
    [
        {"interface": "eth0.53"},
        {"interface": "br-lan"},
        {"interface": "enx00e04c680001"},
        {"wan_interface": "pppoe-out1"},
        {"wan_interface": "ether1 (Provider, 1 Gbit/s)"},
        {"wan_interface": "Größe"},
        {"router_api_host": "router.lan"},
        {"router_api_host": "fd00::1"},
        {"router_tls_fingerprint": ":".join(["AB"] * 32)},
        {"router_tls_fingerprint": "0" * 64},
        {"router_tls_fingerprint": "sha256:" + "ab" * 32},
        {"router_user": "full.admin@home"},
        {"bgp_password": "s3cret-with#and!"},
        {"router_version": 7.2},
    ],
)
def test_what_people_have_is_let_in(change: dict[str, Any]) -> None:
    build(home(**change))


@pytest.mark.parametrize("key", ["", "from-a-file\n", "two words", 'quo"te', "x" * 81, "schlüssel"])
def test_a_key_that_the_two_ends_would_read_differently_is_refused_and_never_shown(key: str) -> None:
    for text in (refusal(home(bgp_password=key)), refusal(home(), {"bgp_password": key})):
        assert "The setting 'bgp_password' is wrong: it must be 1 to 80 printable ASCII characters" in text
        assert not key.strip() or key.strip() not in text


def test_the_environments_key_wins_over_the_inventorys() -> None:
    assert build(home(bgp_password="theirs"), {"bgp_password": "ours"}).bgp.password == "ours"


@pytest.mark.parametrize(
    ("machines", "sentence"),
    [
        (home(board(1, address="192.0.2.0")), "node01: address 192.0.2.0 is the network address of its subnet"),
        (home(board(1, address="192.0.2.255")), "node01: address 192.0.2.255 is the broadcast address of its subnet"),
        (home(board(1, gateway="192.0.2.0")), "node01: gateway 192.0.2.0 is the network address"),
        (
            home(board(1), board(2, gateway="192.0.2.11")),
            "node01 has the address 192.0.2.11, which is the gateway of node02",
        ),
        (
            home(board(1), board(2, prefix_length=25)),
            "node01 is in 192.0.2.0/24 and node02 in 192.0.2.0/25; machines of one subnet need one prefix_length",
        ),
        (home(router_id="10.1.9.53"), "router_id of the router is the service address 10.1.9.53"),
        (home(router_id="0.0.0.0"), "router_id of the router is 0.0.0.0"),
        (
            home(lan_networks=["198.51.100.0/24"]),
            "lan_networks (198.51.100.0/24) leaves out the subnet of node01 (192.0.2.11)",
        ),
        (home(router="192.168.88.1"), "it must be written like '@routeros/192.168.88.1'"),
        (home(bfd_interval_ms=10, bfd_multiplier=2), "BFD of 2 x 10 ms calls a neighbour dead after 20 ms"),
        (home(lan_networks=[]), "The setting 'lan_networks' of the router is wrong"),
        (home(board(1, address="127.0.0.1", gateway="127.0.0.2", prefix_length=8)), "127.0.0.1 is no ordinary address"),
    ],
)
def test_contradictions(machines: Machines, sentence: str) -> None:
    assert sentence in refusal(machines)


@pytest.mark.parametrize(("interval", "multiplier"), [(50, 2), (50, 3), (100, 3), (10, 10)])
def test_a_fast_bfd_that_works_is_let_in(interval: int, multiplier: int) -> None:
    build(home(bfd_interval_ms=interval, bfd_multiplier=multiplier))


def test_secrets_are_masked_and_not_taken_from_a_command_line() -> None:
    assert masked({"bgp_password": "x", "dot": True, "ssh_password": None}) == {
        "bgp_password": "(hidden)",
        "dot": True,
        "ssh_password": None,
    }
    for key in SECRETS:
        with pytest.raises(SiteError, match=f"{key} is a secret, and every user of this machine can read"):
            refuse_secrets(["dot", key])
    refuse_secrets(["dot"])


def test_every_setting_of_the_files_of_the_repository_is_known() -> None:
    for file in sorted(Path("group_data").glob("*.py")):
        names = re.findall(r"^([a-z]\w*) =", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert names
        build(home(**dict.fromkeys(set(names) - HOME.keys() - {"ssh_strict_host_key_checking", "wan_probe_suffix"})))
