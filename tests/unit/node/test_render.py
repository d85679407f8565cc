"""Every file of a node, against golden copies: routed with AdGuard Home, flat and IPv6 with unbound.

The golden copies are read by a person when they change (see `tests.golden`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from anycastlab.node import layout, render, reverse, template
from anycastlab.node.errors import NodeError
from anycastlab.node.render import Certificate, Machine
from anycastlab.probe import config as probe_config
from anycastlab.site import Bfd, Bgp, Service, Site
from anycastlab.site.upstreams import UpstreamError
from tests import golden
from tests.unit.node.homes import home

GOLDEN = Path(__file__).parent / "golden"
# Other packages' texts: their own tests pin them.
OTHERS = ("/etc/systemd/system/anycastlab-", "/etc/sysusers.d/anycastlab.conf", layout.PROBE_PROGRAM)


def twin() -> Site:
    """Flat layout, an IPv6 twin, a key, other timers, DNS over TLS: everything that is off by default."""
    addresses = {"address6": "fd01::11", "gateway6": "fd01::1"}
    return home(
        layout="flat",
        nodes=2,
        node01=addresses,
        node02={"address6": "fd01::12", "gateway6": "fd01::1"},
        service=Service(address6="fd53::53"),
        bgp=Bgp(password="k3y", keepalive_s=60, hold_s=180, connect_retry_s=120),
        bfd=Bfd(interval_ms=300, multiplier=5),
        resolver={"upstreams": ("tls://9.9.9.9#dns.quad9.net",), "bootstrap": ("9.9.9.9",), "dot": True},
    )


def compare(folder: str, path: str, text: str) -> None:
    golden.compare(GOLDEN / folder / path.lstrip("/").replace("/", "_"), text)


@pytest.mark.parametrize(
    ("folder", "site", "name", "machine"),
    [
        ("routed-adguardhome", home(), "node01", Machine("node01")),
        ("routed-unbound", home(), "node02", Machine("node02")),
        ("twin-adguardhome", twin(), "node01", Machine("pi4", ipv4_forwarding=True, ipv6_forwarding=True)),
        ("twin-unbound", twin(), "node02", Machine("node02")),
    ],
)
def test_files_are_the_golden_ones(folder: str, site: Site, name: str, machine: Machine) -> None:
    node = site.node(name)
    made = render.files(site, node, machine, Certificate("CERTIFICATE\n", "KEY\n"), f"{'0' * 64}\n")
    for file in made:
        if not file.path.startswith(OTHERS):
            compare(folder, file.path, file.content.decode())
    if node.resolver == "adguardhome":
        compare(folder, layout.ADGUARD_CONFIG, yaml.safe_dump(render.adguard(site, node, "secret"), sort_keys=False))
    # Each of them once, and none forgotten.
    listing = sorted(f"{f.path} {f.owner}:{f.group} {f.mode:o}{' secret' if f.secret else ''}" for f in made)
    compare(folder, "files", "\n".join(listing) + "\n")
    assert len({f.path for f in made}) == len(made)


def test_a_key_makes_the_file_secret_and_is_in_no_other() -> None:
    site = twin()
    holding = [f for f in render.files(site, site.nodes[0], Machine("n"), Certificate("C", "K")) if b"k3y" in f.content]
    assert [f.path for f in holding] == [layout.FRR_CONFIG]
    assert holding[0].secret
    assert holding[0].mode == 0o640


def test_only_the_service_prefix_passes() -> None:
    """The announcement's safety catch: whatever else is connected on a node, FRR lets only the /32 out."""
    site = home()
    frr = next(f for f in render.files(site, site.nodes[0], Machine("n")) if f.path == layout.FRR_CONFIG)
    permits = [line for line in frr.content.decode().splitlines() if "prefix-list" in line and "permit" in line]
    assert permits == ["ip prefix-list ANYCAST seq 5 permit 10.1.9.53/32"]


def test_the_probe_on_the_node_can_read_its_configuration() -> None:
    site = home()
    file = next(f for f in render.files(site, site.nodes[0], Machine("n")) if f.path == layout.PROBE_CONFIG)
    config = probe_config.from_json(file.content.decode())
    assert [peer.name for peer in config.peers] == ["node02", "node03"]
    assert config.frr.neighbors == ("10.1.2.1",)


def test_a_missing_template_variable_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    shutil.copytree(template.TEMPLATES, folder)
    (folder / "designs/anycast/frr.conf.j2").write_text("hostname {{ no_such_thing }}\n")
    monkeypatch.setattr(template, "TEMPLATES", folder)
    template._environment.cache_clear()
    try:
        with pytest.raises(NodeError) as caught:
            render.files(home(), home().nodes[0], Machine("n"))
    finally:
        monkeypatch.undo()
        template._environment.cache_clear()
    assert str(caught.value) == (
        "The template designs/anycast/frr.conf.j2 uses something that is not there: 'no_such_thing' is undefined. "
        "Correct the template or give the variable."
    )


def test_the_types_of_the_site_are_not_the_only_guard_of_files() -> None:
    """Values that a file would misread, brought in behind the back of the types."""
    site = home()
    evil = site.model_copy(update={"resolver": site.resolver.model_copy(update={"blocklist": ('x" \n  include: "y',)})})
    with pytest.raises(NodeError, match="cannot be written into a configuration file"):
        render.files(evil, evil.node("node02"), Machine("n"))
    for password in ("two words", "line\n"):
        keyed = site.model_copy(update={"bgp": site.bgp.model_copy(update={"password": password})})
        with pytest.raises(NodeError, match="A value for FRR or sysctl is not one word") as caught:
            render.frr_conf(keyed, keyed.nodes[0], Machine("n"))
        assert "two" not in str(caught.value)
    node = site.nodes[0].model_copy(update={"interface": "eth0; reboot"})
    script = template.filled("machine/anycast0.sh.j2", render._context(site, node)).decode()
    assert "dev 'eth0; reboot' onlink" in script
    with pytest.raises(NodeError, match="not one word"):
        template.filled("machine/sysctl.conf.j2", render._context(site, node))


def test_unbound_refuses_what_it_cannot_ask() -> None:
    site = home(resolver={"upstreams": ("https://dns10.quad9.net/dns-query",)})
    render.adguard(site, site.node("node01"), "secret")  # AdGuard Home can
    with pytest.raises(UpstreamError, match="unbound cannot ask the upstream 'https://dns10"):
        render.files(site, site.node("node02"), Machine("n"))


def test_unbound_refuses_a_mixture_of_plain_and_tls() -> None:
    site = home(resolver={"upstreams": ("203.0.113.53", "tls://9.9.9.9#dns.quad9.net")})
    with pytest.raises(UpstreamError, match="mix plain DNS and DNS over TLS"):
        render.files(site, site.node("node02"), Machine("n"))


def test_a_node_with_ipv6_but_without_the_twin_has_no_ipv6_session() -> None:
    site = home(nodes=1, node01={"address6": "fd01::11", "gateway6": "fd01::1"})
    assert b"fd01::1" not in render.frr_conf(site, site.nodes[0], Machine("node01"))
    assert render.probe(site, site.nodes[0]).frr.neighbors == ("10.1.2.1",)


ZONES = {
    "corp.example": ["10.8.0.1", "10.8.0.2:5353"],
    "8.10.in-addr.arpa": ["10.8.0.1"],
    "64.100.in-addr.arpa": "10.8.0.1",
}


def unbound_conf(site: Site) -> str:
    made = render.files(site, site.node("node02"), Machine("node02"), None, "key\n")
    return next(file.content.decode() for file in made if file.path == layout.UNBOUND_CONFIG)


def test_forward_zones_are_asked_at_their_own_servers() -> None:
    site = home(resolver={"forward_zones": ZONES})
    document = render.adguard(site, site.node("node01"), "secret")
    assert document["dns"]["upstream_dns"][-3:] == [
        "[/corp.example/]10.8.0.1 10.8.0.2:5353",
        "[/8.10.in-addr.arpa/]10.8.0.1",
        "[/64.100.in-addr.arpa/]10.8.0.1",
    ]
    # AdGuard Home asks about addresses of private networks elsewhere, and refuses any other network there
    assert document["dns"]["local_ptr_upstreams"] == ["10.1.2.1", "[/8.10.in-addr.arpa/]10.8.0.1"]
    text = unbound_conf(site)
    assert '  local-zone: "8.10.in-addr.arpa." transparent\n' in text
    assert 'forward-zone:\n  name: "corp.example."\n  forward-addr: 10.8.0.1\n  forward-addr: 10.8.0.2@5353\n' in text


def test_a_forward_zone_over_tls_is_that_zones_alone() -> None:
    site = home(resolver={"forward_zones": {"corp.example": ["tls://10.8.0.1#dns.corp.example"]}})
    text = unbound_conf(site)
    assert text.count("forward-tls-upstream: yes") == 1
    assert "forward-addr: 10.8.0.1@853#dns.corp.example\n  forward-tls-upstream: yes\n" in text
    assert "tls-cert-bundle" in text
    mixed = home(resolver={"forward_zones": {"corp.example": ["10.8.0.1", "tls://10.8.0.1#dns.corp.example"]}})
    with pytest.raises(UpstreamError, match=r"The servers of corp\.example mix plain DNS and DNS over TLS"):
        unbound_conf(mixed)


@pytest.mark.parametrize(
    ("zone", "private"),
    [
        ("8.10.in-addr.arpa", True), ("10.in-addr.arpa", True), ("16.172.in-addr.arpa", True),
        ("64.100.in-addr.arpa", False), ("32.172.in-addr.arpa", False), ("in-addr.arpa", False), ("arpa", False),
        ("999.10.in-addr.arpa", False), ("1.2.3.4.5.in-addr.arpa", False), ("corp.example", False),
        ("d.f.ip6.arpa", True), ("8.b.d.0.1.0.0.2.ip6.arpa", False), ("ip6.arpa", False), ("fd.ip6.arpa", False),
    ],
)  # fmt: skip
def test_reverse_zones_of_private_networks(zone: str, private: bool) -> None:
    assert reverse.is_private(zone) == private
