"""/ip/settings to the kernel's."""

from __future__ import annotations

import pytest

from anycastlab.virtual_router.dataplane.sysctl import refuse6, settings

from .rows_of_a_home import INTERFACES


def test_without_rows_it_is_a_router_out_of_the_box() -> None:
    found = settings({}, INTERFACES)
    assert found["net/ipv4/ip_forward"] == "1"
    assert found["net/ipv4/fib_multipath_hash_policy"] == "0"
    assert found["net/ipv4/conf/lan/send_redirects"] == "1"
    assert found["net/ipv4/conf/all/rp_filter"] == "0"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"ipv4-multipath-hash-policy": "l4"}, {"net/ipv4/fib_multipath_hash_policy": "1"}),
        ({"ipv4-multipath-hash-policy": "l3-inner"}, {"net/ipv4/fib_multipath_hash_policy": "2"}),
        ({"ip-forward": "false"}, {"net/ipv4/ip_forward": "0"}),
        ({"rp-filter": "loose"}, {"net/ipv4/conf/wan/rp_filter": "2", "net/ipv4/conf/all/rp_filter": "2"}),
        # The kernel sends redirects when either says so; all of them must be off.
        (
            {"send-redirects": "false"},
            {f"net/ipv4/conf/{scope}/send_redirects": "0" for scope in ("all", "default", "wan", "lan", "dns")},
        ),
    ],
)
def test_a_set_property_is_written(row: dict[str, str], expected: dict[str, str]) -> None:
    assert expected.items() <= settings({"/ip/settings": [row]}, INTERFACES).items()


def test_ipv6_forwarding_follows_its_own_menu() -> None:
    assert settings({}, INTERFACES)["net/ipv6/conf/all/forwarding"] == "1"
    off = {"/ipv6/settings": [{"disable-ipv6": "true", "forward": "true"}]}
    assert settings(off, INTERFACES)["net/ipv6/conf/all/forwarding"] == "0"


def test_ipv6_flows_are_spread_as_its_own_menu_says() -> None:
    assert settings({}, INTERFACES)["net/ipv6/fib_multipath_hash_policy"] == "0"
    ports = {"/ipv6/settings": [{"multipath-hash-policy": "l4"}]}
    assert settings(ports, INTERFACES)["net/ipv6/fib_multipath_hash_policy"] == "1"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"multipath-hash-policy": "l4", "forward": "false", "disable-ipv6": "false"}, None),
        ({"disable-ipv6": "true"}, "disable-ipv6=true"),
        ({"accept-redirects": "no"}, "accept-redirects=no"),
    ],
)
def test_an_ipv6_setting_that_would_do_nothing_is_refused(row: dict[str, str], told: str | None) -> None:
    assert refuse6(row) == told
