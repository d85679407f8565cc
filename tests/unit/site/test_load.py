"""A home's data is checked as a whole, and each mistake is one sentence that names the setting."""

from __future__ import annotations

from typing import Any

import pytest

from anycastlab.site.load import Machines, SiteError, build, router_version

SHARED: dict[str, Any] = {
    "service_address": "10.1.9.53",
    "layout": "routed",
    "upstreams": ["203.0.113.53"],
    "router_dns": "10.1.2.1",
    "router_id": "10.1.1.1",
    "lan_networks": ["10.1.1.0/24", "10.1.2.0/24"],
    "wan_interface": "ether1",
}


def lab(node_changes: dict[str, dict[str, Any]] | None = None, count: int = 3, **changes: Any) -> Machines:
    shared = {**SHARED, "lab": "lab", **changes}
    nodes = tuple(
        (f"@incus/node{n:02d}", {**shared, "number": n, **(node_changes or {}).get(f"node{n:02d}", {})})
        for n in range(1, count + 1)
    )
    return Machines(nodes, (("@routeros/router", {**shared, "router_api_host": "127.0.0.1"}),))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"upstreams": ["10.1.9.53"]}, "upstreams has 10.1.9.53, which is the service address 10.1.9.53: the nodes"),
        ({"upstreams": ["203.0.113.53", "10.1.2.12:5353"]}, "upstreams has 10.1.2.12:5353, which is node02 (10.1.2."),
        ({"upstreams": ["tls://10.1.9.53#dns.lan"]}, "upstreams has tls://10.1.9.53#dns.lan, which is the service a"),
        ({"upstreams": ["https://10.1.2.11/dns-query"]}, "upstreams has https://10.1.2.11/dns-query, which is node01"),
        ({"upstreams": ["127.0.0.1"]}, "upstreams has 127.0.0.1, which is each node itself: the nodes would ask the"),
        ({"upstreams": ["[::1]:53"]}, "upstreams has [::1]:53, which is each node itself"),
        ({"upstreams": ["127.0.0.53"]}, "upstreams has 127.0.0.53, which is each node itself"),
        ({"upstreams": ["0.0.0.0"]}, "upstreams has 0.0.0.0, which is each node itself"),
        ({"upstreams": ["tls://dns.quad9.net"], "bootstrap": ["10.1.9.53"]}, "bootstrap has 10.1.9.53, which is the"),
        ({"router_dns": "10.1.9.53"}, "router_dns has 10.1.9.53, which is the service address"),
        ({"router_dns": "10.1.2.13"}, "router_dns has 10.1.2.13, which is node03 (10.1.2.13)"),
        ({"router_dns": "127.0.0.1"}, "router_dns has 127.0.0.1, which is each node itself"),
        ({"blocklist": ["lan"]}, "blocklist has lan, which would block id.anycast.lan, by which the nodes say who t"),
        ({"blocklist": ["probe.anycast.lan"]}, "blocklist has probe.anycast.lan, which would block probe.anycast.la"),
        ({"blocklist": ["example.com"]}, "blocklist has example.com, which would block probe.anycast.example.com, the"),
        ({"blocklist": ["com"]}, "blocklist has com, which would block probe.anycast.example.com, the names by which"),
        ({"blocklist": ["home"], "local_zones": ["lan", "home"]}, "blocklist has home, which would block home, a lo"),
        ({"blocklist": ["in-addr.arpa"]}, "blocklist has in-addr.arpa, which would block 10.in-addr.arpa, a reverse"),
        ({"forward_zones": {"corp.example": ["10.1.9.53"]}}, "forward_zones has 10.1.9.53, which is the service addr"),
        ({"forward_zones": {"corp.example": "10.1.2.12"}}, "forward_zones has 10.1.2.12, which is node02 (10.1.2.12)"),
        ({"forward_zones": {"corp.example": ["127.0.0.1"]}}, "forward_zones has 127.0.0.1, which is each node itself"),
        ({"forward_zones": {"lan": ["10.8.0.1"]}}, "forward_zones has lan, which is a local zone, too; name it in on"),
        ({"forward_zones": {"10.in-addr.arpa": "10.8.0.1"}}, "forward_zones has 10.in-addr.arpa, which is a reverse"),
        ({"forward_zones": {"anycast.lan": "10.8.0.1"}}, "forward_zones has anycast.lan, whose servers would be aske"),
        ({"forward_zones": {"example.com": "10.8.0.1"}}, "whose servers would be asked for probe.anycast.example.com"),
        ({"forward_zones": {"corp.example": "10.8.0.1"}, "blocklist": ["corp.example"]}, "a forward zone"),
        ({"local_zones": []}, "local_zones is empty; the probes ask the router for names in the first of them"),
    ],
)  # fmt: skip
def test_what_leads_back_to_the_nodes_or_blocks_what_they_need_is_refused(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SiteError) as refused:
        build(lab(**changes))
    assert sentence in refused.value.problem


@pytest.mark.parametrize(
    "changes",
    [
        {"upstreams": ["127.0.0.1:5335"]},  # a person's own recursive resolver on each node
        {"upstreams": ["10.1.2.1"]},  # the router
        {"upstreams": ["https://dns10.quad9.net/dns-query"], "bootstrap": ["9.9.9.9"]},
        {"blocklist": ["tv.lan", "ads.example.com", "an"]},
    ],
)
def test_what_leads_elsewhere_is_not(changes: dict[str, Any]) -> None:
    build(lab(**changes))


def test_lab_nodes_get_addresses_from_their_numbers() -> None:
    site = build(lab(count=4))
    assert [str(n.address) for n in site.nodes] == ["10.1.2.11", "10.1.2.12", "10.1.2.13", "10.1.2.14"]
    assert {str(n.gateway) for n in site.nodes} == {"10.1.2.1"}


@pytest.mark.parametrize(
    ("layout", "first_node", "router"), [("flat", "10.1.1.11", "10.1.1.1"), ("routed", "10.1.2.11", "10.1.2.1")]
)
def test_the_layout_alone_puts_the_labs_nodes_into_a_subnet_with_their_router(
    layout: str, first_node: str, router: str
) -> None:
    site = build(lab(layout=layout, router_dns=None))
    assert str(site.nodes[0].address) == first_node
    assert str(site.nodes[0].gateway) == router
    assert str(site.resolver.router_dns) == router
    assert str(build(lab(layout=layout, router_dns="10.1.1.9")).resolver.router_dns) == "10.1.1.9"


@pytest.mark.parametrize(
    ("layout", "first_node", "router"),
    [("routed", "fd00:10:1:2::11", "fd00:10:1:2::1"), ("flat", "fd00:10:1:1::11", "fd00:10:1:1::1")],
)
def test_with_an_ipv6_service_address_the_labs_nodes_have_ipv6_too(layout: str, first_node: str, router: str) -> None:
    site = build(lab(layout=layout, service_address6="fd00:10:1:9::53"))
    assert str(site.nodes[0].address6) == first_node
    assert {str(node.gateway6) for node in site.nodes} == {router}
    assert {node.address6 for node in build(lab(layout=layout)).nodes} == {None}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"service_address6": "fd00:10:1:2::53"}, "lies inside the connected subnet fd00:10:1:2::/64 of node01"),
        ({"service_address6": "fe80::53"}, "service address fe80::53 is no ordinary address"),
        ({"service_address6": "10.1.9.53"}, "service_address6"),
        ({"service_address6": "fd00:10:1:9::53", "gateway6": "fd00:9::1"}, "node01: gateway6 fd00:9::1 must be"),
        ({"service_address6": "fd00:10:1:9::53", "address6": "fd00:10:1:2::5"}, "address6 fd00:10:1:2::5 is used 3"),
    ],
)
def test_an_ipv6_service_address_that_cannot_work_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SiteError) as caught:
        build(lab(**changes))
    assert sentence in str(caught.value)


def test_a_version_that_pyinfra_took_for_a_number_keeps_its_last_digit() -> None:
    assert (router_version(7.2), router_version(7.16), router_version("7.22.3")) == ("7.20", "7.16", "7.22.3")
    build(lab(router_version=7.2))


@pytest.mark.parametrize("rebuild", ["all", "node02", "node01,node03"])
def test_a_rebuild_of_what_is_there(rebuild: str) -> None:
    build(lab(rebuild=rebuild))


def test_a_node_may_differ_from_the_rest() -> None:
    site = build(lab({"node02": {"resolver": "unbound"}}))
    assert [n.resolver for n in site.nodes] == ["adguardhome", "unbound", "adguardhome"]


def test_real_router_is_reached_over_tls_at_its_own_name() -> None:
    shared = {**SHARED, "lan_networks": ["192.0.2.0/24"]}
    board = {**shared, "node_name": "node01", "address": "192.0.2.11", "prefix_length": 24, "gateway": "192.0.2.1"}
    machines = Machines((("192.0.2.11", board),), (("@routeros/192.0.2.1", shared),))
    site = build(machines)
    assert (site.router.api_host, site.router.api_port, site.router.tls) == ("192.0.2.1", 8729, True)
    assert site.nodes[0].platform == "ssh"


@pytest.mark.parametrize(
    ("machines", "sentence"),
    [
        (Machines((), lab().router), "The inventory has no host in the group 'nodes'."),
        (Machines(lab().nodes, ()), "The inventory has 0 hosts in the group 'router'; exactly one is needed."),
        (
            lab(service_address="10.1.1.53"),
            "contradict each other: service_address 10.1.1.53 lies inside the connected subnet 10.1.1.0/24",
        ),
        (lab({"node02": {"address": "10.1.2.11"}}), "address 10.1.2.11 is used 2 times"),
        (lab({"node02": {"node_name": "node01"}}), "name node01 is used 2 times"),
        (lab({"node03": {"node_router_id": "10.1.1.1"}}), "router-id 10.1.1.1 is used 2 times"),
        (lab(node_asn=0), "The setting 'node_asn' is 0"),
        (lab(node_asn=4294967296), "The setting 'node_asn' is 4294967296"),
        (lab(node_asn=23456), "AS number 23456 is reserved"),
        (lab(router_asn=65535), "AS number 65535 is reserved"),
        (lab(service_address="224.0.0.5"), "service address 224.0.0.5 is no ordinary address"),
        (lab(service_address="127.0.0.1"), "service address 127.0.0.1 is no ordinary address"),
        (lab(service_address="0.0.0.0"), "service address 0.0.0.0 is no ordinary address"),
        (lab(node_cpus="abc"), "The setting 'node_cpus' of @incus/node01 is 'abc'"),
        (lab({"node02": {"node_memory_mib": 1}}), "The setting 'node_memory_mib' of @incus/node02 is 1"),
        (lab(rebuild="node01,node09"), "rebuild names 'node09', which the inventory does not have. It has node01,"),
        (lab(node_asn=65000, router_asn=65000), "node_asn and router_asn are both 65000"),
        (lab(bfd_interval_ms=5), "The setting 'bfd_interval_ms' is 5"),
        (lab(bfd_interval_ms=60000), "The setting 'bfd_interval_ms' is 60000"),
        (lab({"node01": {"resolver": "bind"}}), "The setting 'resolver' of node01 is 'bind'"),
        (lab(layout="star"), "The setting 'layout' is 'star'"),
        (lab(service_address="ten"), "The setting 'service_address' is 'ten'"),
        (lab(bfd_intervall_ms=100), "has the unknown setting 'bfd_intervall_ms'; did you mean 'bfd_interval_ms'?"),
        (lab(router_version="7.15"), "The setting 'router_version' is '7.15'"),
        (lab(router_version=7.15), "The setting 'router_version' is 7.15"),
        (lab(router_version="soon"), "The setting 'router_version' is 'soon'"),
        (lab(upstreams=None), "The setting 'upstreams' is missing."),
        (lab(wan_probe_suffix="*.example"), "The setting 'wan_probe_suffix' is '*.example'"),
        (lab(wan_probe_suffix="example.com."), "The setting 'wan_probe_suffix' is 'example.com.'"),
        (
            lab(wan_probe_suffix="nas.lan"),
            "wan_probe_suffix nas.lan lies in the local zone lan, which the router answers",
        ),
        (lab(upstreams=["[/corp.example/]10.8.0.1"]), "is for some domains only, in AdGuard Home's own words."),
        (lab(upstreams=["203.0.113.53:99999"]), "The upstream '203.0.113.53:99999' has no valid port."),
        (lab(forward_zones={"corp.example": "10.8.0.1:99999"}), "The upstream '10.8.0.1:99999' has no valid port."),
        (lab(upstreams=["tls://dns.quad9.net"], bootstrap=[]), "AdGuard Home has to look up dns.quad9.net before it"),
        (lab(upstreams=["https://dns10.quad9.net/dns-query"]), "bootstrap says nowhere"),
        (lab(upstreams=["tls://dns.quad9.net"], bootstrap=["9.9.9.9"], resolver="unbound"), "unbound cannot ask the"),
        (lab({"node02": {"gateway6": "fd01::1"}}), "node02 has gateway6 and no address6; a node has both, or neither"),
        (lab({"node02": {"address6": "fd01::11"}}), "node02 has address6 and no gateway6; a node has both, or neither"),
        (lab(bgp_hold_s=5), "bgp_hold_s is 5, less than three keepalives of 3 s"),
    ],
)
def test_each_mistake_is_one_sentence(machines: Machines, sentence: str) -> None:
    with pytest.raises(SiteError) as raised:
        build(machines)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "pydantic" not in str(raised.value).lower()


def test_forward_zones_are_written_as_zones_with_their_servers() -> None:
    site = build(
        lab(
            forward_zones={"Corp.Example.": "10.8.0.1", "8.10.in-addr.arpa": ["10.8.0.1", "tls://10.8.0.2#a"]},
            bootstrap=["9.9.9.9"],
        )
    )
    assert [(zone.name, zone.servers) for zone in site.resolver.forward_zones] == [
        ("corp.example", ("10.8.0.1",)),
        ("8.10.in-addr.arpa", ("10.8.0.1", "tls://10.8.0.2#a")),
    ]
    assert type(site).model_validate_json(site.model_dump_json()) == site
    hash(site)


@pytest.mark.parametrize(
    ("zones", "sentence"),
    [
        (["corp.example"], 'write it as {"corp.example": ["10.8.0.1"]}'),
        ("corp.example=10.8.0.1", 'write it as {"corp.example": ["10.8.0.1"]}'),
        (7, "forward_zones"),
        ({"corp.example": []}, "forward_zones"),
        ({"corp.example": None}, "forward_zones"),
        ({"*.corp.example": ["10.8.0.1"]}, "forward_zones"),
        ({"corp.example/]": ["10.8.0.1"]}, "forward_zones"),
        ({"corp.example\n": ["10.8.0.1"]}, "forward_zones"),
        ({"a": "10.8.0.1", "A": "10.8.0.2"}, "forward zone a is used 2 times"),
    ],
)
def test_what_is_no_forward_zone_is_a_sentence(zones: Any, sentence: str) -> None:
    with pytest.raises(SiteError) as refused:
        build(lab(forward_zones=zones))
    assert sentence in refused.value.problem
    assert "\n" not in refused.value.problem
