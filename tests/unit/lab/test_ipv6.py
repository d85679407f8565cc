"""IPv6 on the lab's interfaces: what has to be done, from what is wanted and what is there."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest

from anycastlab.lab import ipv6, router
from anycastlab.lab.ipv6 import Addresses, Leg, changes, parse
from anycastlab.site import topology
from anycastlab.virtual_router.config import Config

LEG = Leg("eth0", IPv6Address("fd00:10:1:1::101"), IPv6Address("fd00:10:1:1::1"))
# What `AddressesFact` prints on a client that has it all (recorded).
THERE = [
    "file /etc/systemd/network/10-eth0.network.d/ipv6.conf:[Address]",
    "file /etc/systemd/network/10-eth0.network.d/ipv6.conf:Address=fd00:10:1:1::101/64",
    "file /etc/systemd/network/10-eth0.network.d/ipv6.conf:DuplicateAddressDetection=none",
    "file /etc/systemd/network/10-eth0.network.d/ipv6.conf:[Route]",
    "file /etc/systemd/network/10-eth0.network.d/ipv6.conf:Gateway=fd00:10:1:1::1",
    "30: eth0    inet6 fd00:10:1:1::101/64 scope global nodad \\       valid_lft forever preferred_lft forever",
    "default via fd00:10:1:1::1 dev eth0 metric 1024 pref medium",
]


@pytest.mark.parametrize(
    ("network", "number", "address"),
    [
        (topology.DNS6, 11, "fd00:10:1:2::11"),
        (topology.LAN6, 101, "fd00:10:1:1::101"),
        (topology.LAN6, 9, "fd00:10:1:1::9"),
    ],
)
def test_an_address_looks_like_its_ipv4_twin(network: IPv6Network, number: int, address: str) -> None:
    assert str(topology.twin_address(network, number)) == address


def test_what_is_there_is_left_alone() -> None:
    assert changes((LEG,), parse(THERE)) == []
    assert changes((), Addresses()) == []


def test_a_machine_without_any_gets_address_and_way_out_now_and_for_the_next_boot() -> None:
    (command,) = changes((LEG,), Addresses())
    assert "> /etc/systemd/network/10-eth0.network.d/ipv6.conf" in command
    assert "ip -6 address replace fd00:10:1:1::101/64 dev eth0 nodad" in command
    assert "ip -6 route replace default via fd00:10:1:1::1 dev eth0" in command


@pytest.mark.parametrize("missing", range(len(THERE)))
def test_any_missing_part_is_put_back(missing: int) -> None:
    lines = [line for number, line in enumerate(THERE) if number != missing]
    assert changes((LEG,), parse(lines))[-1] == LEG.add()


def test_without_the_service_address_everything_of_it_goes() -> None:
    (command,) = changes((), parse(THERE))
    assert "ip -6 address del fd00:10:1:1::101/64 dev eth0" in command
    assert "ip -6 route del default via fd00:10:1:1::1 dev eth0" in command
    assert "rm -rf /etc/systemd/network/10-eth0.network.d" in command
    assert "anycast0" not in command


def test_another_address_replaces_the_former_one() -> None:
    other = Leg("eth0", IPv6Address("fd00:10:1:1::102"), LEG.gateway)
    gone, made = changes((other,), parse(THERE))
    assert "ip -6 address del fd00:10:1:1::101/64" in gone
    assert made == other.add()


def test_the_routers_rows_show_its_ipv6_addresses_only_with_the_twin() -> None:
    def addresses(config: Config) -> set[str]:
        return {address for interface in config.interfaces for address in interface.addresses if ":" in address}

    assert addresses(router.config("7.22.3", "user", "key")) == set()
    with_twin = router.config("7.22.3", "user", "key", ipv6=True)
    assert addresses(with_twin) == {leg.prefix for leg in ipv6.router_legs()}
    assert Config.from_json(with_twin.to_json()) == with_twin
