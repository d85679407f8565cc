"""The nodes' configuration on real machines: both resolvers, again and again, interrupted, drifted, and refused."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from anycastlab.image import build
from anycastlab.node import layout, template
from anycastlab.site import Node, Resolver
from anycastlab.site.topology import DNS, ROUTER_DNS
from tests.lab.node_lab import NodeLab, debian_package
from tests.lab.probe_lab import ROUTER

SERVICE = "10.1.9.53"
QUESTIONS: list[list[str]] = [
    ["id.anycast.lan", "TXT", "IN"],
    ["id.anycast.lan", "A", "IN"],
    ["id.anycast.lan", "AAAA", "IN"],
    ["www.lab.example", "A", "IN"],
    ["www.lab.example", "AAAA", "IN"],
    ["gone.lab.example", "A", "IN"],
    ["nas.lan", "A", "IN"],
    ["nope.lan", "A", "IN"],
    ["20.1.1.10.in-addr.arpa", "PTR", "IN"],
    ["ads.lab.example", "A", "IN"],
    ["x.ads.lab.example", "AAAA", "IN"],
    ["ads.lab.example", "MX", "IN"],
    ["_dns.resolver.arpa", "SVCB", "IN"],
]


# A server that knows one zone and its reverse, as one behind a VPN does.
CORP = """
import socket, dns.message, dns.rdatatype, dns.rrset
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 5353))
while True:
    data, peer = sock.recvfrom(4096)
    query = dns.message.from_wire(data)
    question = query.question[0]
    reply = dns.message.make_response(query)
    known = {dns.rdatatype.A: "10.8.0.5", dns.rdatatype.PTR: "host.corp.example."}
    if question.rdtype in known:
        reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", question.rdtype, known[question.rdtype]))
    sock.sendto(reply.to_wire(), peer)
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeLab]:
    """Two nodes: node01 with AdGuard Home, node02 with unbound, both announced."""
    lab = NodeLab(image=build.ensure(), folder=tmp_path_factory.mktemp("nodes"))
    resolver = lab.site.resolver.model_copy(
        update={"upstreams": ("10.1.2.1",), "blocklist": ("ads.lab.example",), "stale_ttl_s": 3}
    )
    members = [lab.site.nodes[0].model_copy(update={"resolver": "adguardhome"}), lab.site.nodes[1]]
    lab.site = lab.site.model_copy(update={"resolver": resolver, "nodes": tuple(members)})
    lab.remove()
    lab.build()
    for node in lab.site.nodes:
        assert lab.configure(node).changed
    lab.wait_announced()
    yield lab
    lab.remove()


@pytest.fixture(params=["node01", "node02"], ids=["adguardhome", "unbound"])
def node(nodes: NodeLab, request: pytest.FixtureRequest) -> Node:
    return nodes.site.node(request.param)


def ask(lab: NodeLab, address: str, questions: list[list[str]]) -> list[Any]:
    return list(
        json.loads(lab.exec(ROUTER, "python3", "/root/ask.py", address, json.dumps(questions), check=True).stdout)
    )


def started(lab: NodeLab, node: Node) -> str:
    units = f"{layout.resolver_unit(node.resolver)} {layout.FRR_UNIT} {layout.PROBE_UNIT} {layout.LINK_UNIT}"
    return lab.shell(node.name, f"systemctl show -p InvocationID {units}")


def link_is_up(lab: NodeLab, node: Node) -> bool:
    return "anycast0" in lab.shell(node.name, "ip -o link show dev anycast0 up")


def until(holds: Any, limit_s: float, what: str) -> float:
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < limit_s, f"not within {limit_s} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - begin


def calm(lab: NodeLab, node: Node) -> None:
    """Let the probe forget how often it changed, or its hold-down would be what is measured."""
    lab.shell(
        node.name, "systemctl stop anycastlab-probe; rm -f /run/anycastlab/probe.json; systemctl start anycastlab-probe"
    )
    lab.wait_announced()


# From outside --------------------------------------------------------------------------------------------------------


def test_both_resolvers_answer_alike(nodes: NodeLab) -> None:
    answers = {node.name: ask(nodes, str(node.address), QUESTIONS) for node in nodes.site.nodes}
    # given what differs by intention: the identity
    identity = {name: said[:2] for name, said in answers.items()}
    assert identity == {
        "node01": [["NOERROR", ['10 "node01"']], ["NOERROR", ["10 10.1.2.11"]]],
        "node02": [["NOERROR", ['10 "node02"']], ["NOERROR", ["10 10.1.2.12"]]],
    }
    # then everything else is the same: codes, records, and the TTLs that are ours
    first, second = (
        [[code, [a.partition(" ")[2] for a in found]] for code, found in said[2:]] for said in answers.values()
    )
    assert first == second
    assert first == [
        ["NOERROR", []],
        ["NOERROR", ["192.0.2.80"]],
        ["NOERROR", []],
        ["NXDOMAIN", []],
        ["NOERROR", ["10.1.1.20"]],
        ["NXDOMAIN", []],
        ["NOERROR", ["nas.lan."]],
        ["NOERROR", ["0.0.0.0"]],
        ["NOERROR", ["::"]],
        ["NOERROR", []],
        ["NOERROR", []],
    ]


def test_unbound_names_itself_the_old_way_too(nodes: NodeLab) -> None:
    assert ask(nodes, "10.1.2.12", [["id.server", "TXT", "CH"]]) == [["NOERROR", ['0 "node02"']]]


def test_a_name_past_its_time_is_answered_while_the_upstream_is_silent(nodes: NodeLab, node: Node) -> None:
    question = [["www.lab.example", "A", "IN"]]
    # given an answer of 5 s that has been asked for, and an upstream that says nothing any more
    ask(nodes, str(node.address), question)
    try:
        nodes.shell(ROUTER, "nft add table inet t; nft add chain inet t i '{ type filter hook input priority 0; }';"
                            " nft add rule inet t i udp dport 53 drop")  # fmt: skip
        time.sleep(6)
        # then it is answered, with the TTL that is set for such answers
        assert ask(nodes, str(node.address), question) == [["NOERROR", ["3 192.0.2.80"]]]
    finally:
        nodes.shell(ROUTER, "nft delete table inet t", check=False)
    nodes.wait_announced()


def test_replies_come_from_the_service_address_through_the_router(nodes: NodeLab, node: Node) -> None:
    """Also to a neighbour in the node's own subnet; else the router sees half of each TCP connection."""
    way = nodes.shell(node.name, f"ip route get 10.1.2.99 from {SERVICE}")
    assert "via 10.1.2.1 " in way
    # and the node's own address does as it always did
    assert "via" not in nodes.shell(node.name, f"ip route get 10.1.2.99 from {node.address}")


# Asks for pages: [address to ask from, URL, login or ""]; prints the status, or what came instead.
PAGES = """
import base64, http.client, json, socket, ssl, sys
from urllib.parse import urlsplit
context = ssl.create_default_context(cafile="/root/page.pem")
for source, url, login in json.loads(sys.argv[1]):
    at = urlsplit(url)
    there = {"host": at.hostname, "port": at.port, "timeout": 1, "source_address": (source, 0)}
    if at.scheme == "https":
        connection = http.client.HTTPSConnection(**there, context=context)
    else:
        connection = http.client.HTTPConnection(**there)
    try:
        connection.request("GET", at.path, headers={"Authorization": "Basic " + login} if login else {})
        answer = connection.getresponse()
        print(answer.status, answer.getheader("Location") or "")
    except (OSError, http.client.HTTPException) as error:
        print(type(error).__name__)
"""


def test_the_web_page_is_https_wants_a_login_and_is_for_the_homes_own_networks(nodes: NodeLab) -> None:
    password = (nodes.folder / "state" / "adguardhome-password").read_text().strip()
    login = base64.b64encode(f"admin:{password}".encode()).decode()
    home, stranger, path = "10.1.2.1", "10.1.1.1", "/control/status"
    http, https = f"http://10.1.2.11:3000{path}", f"https://10.1.2.11:3443{path}"
    nodes.push(ROUTER, "/root/page.pem", nodes.shell("node01", f"cat {layout.TLS_CERTIFICATE}").encode())

    def pages(*asked: tuple[str, str, str]) -> list[str]:
        said = nodes.exec(ROUTER, "python3", "-c", PAGES, json.dumps(asked), check=True)
        return [line.strip() for line in said.stdout.splitlines()]

    # The certificate is right for the address, the other port only says where, and the service address has no page.
    assert pages(
        (home, https, ""), (home, https, login), (home, http, login), (home, f"https://{SERVICE}:3443{path}", login)
    ) == ["401", "200", f"307 {https}", "ConnectionRefusedError"]  # fmt: skip
    # A stranger reaches neither port, and still has an answer to a question.
    assert pages((stranger, https, login), (stranger, http, "")) == ["TimeoutError", "TimeoutError"]
    code = "import dns.message, dns.query; print(dns.query.udp(dns.message.make_query('id.anycast.lan', 'TXT'),"
    code += f" '10.1.2.11', timeout=2, source='{stranger}').rcode())"
    assert nodes.exec(ROUTER, "python3", "-c", code, check=True).stdout.strip() == "0"
    # Whoever reloads a firewall of their own takes the rules along; they come back, and beside the person's own.
    nodes.shell("node01", "nft flush ruleset; nft add table inet mine")
    until(lambda: "chain guests" in nodes.shell("node01", "nft list ruleset"), 2, "the rules of the web page")
    assert pages((stranger, https, login), (home, https, login)) == ["TimeoutError", "200"]
    assert "table inet mine" in nodes.shell("node01", "nft list ruleset; nft delete table inet mine")
    assert not nodes.configure(nodes.site.node("node01")).changed


# Again ---------------------------------------------------------------------------------------------------------------


def test_a_second_run_changes_and_restarts_nothing(nodes: NodeLab, node: Node) -> None:
    before = started(nodes, node)
    assert not nodes.configure(node).changed
    assert started(nodes, node) == before


def test_what_adguard_home_rewrites_and_a_person_sets_is_no_drift(nodes: NodeLab) -> None:
    node = nodes.site.node("node01")
    # given a file that AdGuard Home has rewritten, with a rule and a setting of a person's in it
    change = (
        f'systemctl stop adguardhome; sed -i \'s/^user_rules:/user_rules:\\n  - "||person.example^"/; '
        f"s/anonymize_client_ip: false/anonymize_client_ip: true/' {layout.ADGUARD_CONFIG}; systemctl start adguardhome"
    )
    nodes.shell(node.name, change)
    nodes.wait_announced()
    # then that is no drift
    assert not nodes.configure(node).changed
    # but a managed leaf is, and healing it keeps what the person set
    drift = f"systemctl stop adguardhome; sed -i 's/ratelimit: 0/ratelimit: 20/' {layout.ADGUARD_CONFIG}"
    nodes.shell(node.name, f"{drift}; systemctl start adguardhome")
    nodes.wait_announced()
    dry = nodes.configure(node, None, "--dry", "--diff")
    assert "dns.ratelimit: 20 -> 0" in dry.output
    assert nodes.configure(node).changed
    document = yaml.safe_load(nodes.shell(node.name, f"cat {layout.ADGUARD_CONFIG}"))
    assert document["dns"]["ratelimit"] == 0
    assert document["dns"]["anonymize_client_ip"] is True
    assert "||person.example^" in document["user_rules"]
    assert not nodes.configure(node).changed


OLD_FILES = {
    # filtering.rewrites of schema 30 have no `enabled`; without a migration they would be off
    30: """
http: {address: "0.0.0.0:3000"}
filtering:
  rewrites:
    - {domain: one.person.example, answer: 10.1.1.31}
    - {domain: two.person.example, answer: 10.1.1.32}
schema_version: 30
""",
    # no schema_version: AdGuard Home's very first, with other names for everything
    0: """
bind_host: 0.0.0.0
bind_port: 3000
auth_name: me
auth_pass: secret
coredns:
  bootstrap_dns: 10.1.2.1:53
  upstream_dns: [10.1.2.1]
  rewrites:
    - {domain: one.person.example, answer: 10.1.1.31}
    - {domain: two.person.example, answer: 10.1.1.32}
""",
}


def test_a_file_of_an_older_or_newer_schema(nodes: NodeLab) -> None:
    node = nodes.site.node("node01")
    ours = nodes.shell(node.name, f"cat {layout.ADGUARD_CONFIG}").encode()

    def put(text: bytes) -> None:
        nodes.push(node.name, "/root/put.yaml", text)
        place = f"install -m 600 -o adguardhome -g adguardhome /root/put.yaml {layout.ADGUARD_CONFIG}"
        nodes.shell(node.name, f"systemctl stop adguardhome; {place}")

    for text in OLD_FILES.values():
        put(text.encode())
        assert nodes.configure(node).changed
        asked = [[f"{which}.person.example", "A", "IN"] for which in ("one", "two")]
        assert ask(nodes, str(node.address), asked) == [
            ["NOERROR", ["10 10.1.1.31"]],
            ["NOERROR", ["10 10.1.1.32"]],
        ]
        nodes.wait_announced()
        assert not nodes.configure(node).changed
    for text, sentence in (
        (b"schema_version: 99\n", "has schema 99; the pinned version reads up to 34"),
        (b"dns: [1]\nschema_version: 12\n", f"AdGuard Home cannot read {layout.ADGUARD_CONFIG} as schema 12: "),
    ):
        put(text)
        run = nodes.configure(node)
        assert run.code != 0
        assert sentence in run.output
        assert "Traceback" not in run.output
        assert nodes.shell(node.name, f"cat {layout.ADGUARD_CONFIG}").encode() == text
    put(ours)
    nodes.shell(node.name, "systemctl start adguardhome")
    calm(nodes, node)
    assert not nodes.configure(node).changed


@pytest.mark.parametrize(
    ("drift", "sign"),
    [
        ("echo '# touched' >> /etc/frr/frr.conf", "change /etc/frr/frr.conf"),
        ("vtysh -c 'conf t' -c 'router bgp 65053' -c 'neighbor 10.1.2.1 shutdown'", "reload FRR"),
        ("systemctl stop anycastlab-probe", "start anycastlab-probe"),
        ("ip address add 10.1.9.99/32 dev anycast0", "the link or its rule is not as it should be"),
        ("chmod 644 /etc/frr/frr.conf", "change /etc/frr/frr.conf"),
        ("systemctl disable frr", "enable frr.service"),
    ],
)  # fmt: skip
def test_drift_is_told_and_healed(nodes: NodeLab, drift: str, sign: str) -> None:
    node = nodes.site.node("node02")
    nodes.shell(node.name, drift)
    # a dry run tells it and changes nothing: the real one still has it to do
    assert sign in nodes.configure(node, None, "--dry", "--diff").output
    assert nodes.configure(node).changed
    nodes.wait_announced()
    assert not nodes.configure(node).changed


# In service ----------------------------------------------------------------------------------------------------------


def test_changing_a_serving_node_loses_no_query(nodes: NodeLab, node: Node) -> None:
    # given somebody who asks a hundred times a second
    nodes.wait_announced()
    flood = ["incus", "--project", nodes.lab.project, "exec", "-T", ROUTER, "--", "python3", "/root/flood.py"]
    asking = subprocess.Popen([*flood, SERVICE, "8"], stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    # when the node gets other settings, for which its resolver must be restarted, and a zone with a server of its own
    nodes.push(ROUTER, "/root/corp.py", CORP.encode())
    nodes.shell(ROUTER, "systemctl is-active -q corp || systemd-run -q -u corp python3 /root/corp.py")
    zones = {"forward_zones": {zone: [f"{ROUTER_DNS}:5353"] for zone in ("corp.example", "8.10.in-addr.arpa")}}
    resolver = Resolver.model_validate(
        {**nodes.site.resolver.model_dump(), "stale_ttl_s": 9, "blocklist": ("ads.lab.example", "new.example"), **zones}
    )
    changed = nodes.site.model_copy(update={"resolver": resolver})
    assert nodes.configure(node, changed).changed
    # then both nodes answered, and not one query was lost
    out, _ = asking.communicate(timeout=30)
    said, lost = json.loads(out)
    assert lost == 0, said
    assert set(said) == {"node01", "node02"}
    # and it was announced again before the run ended
    assert ask(nodes, str(node.address), [["new.example", "A", "IN"]]) == [["NOERROR", ["10 0.0.0.0"]]]
    # and the zone's own server is asked, for names and for addresses
    assert ask(
        nodes, str(node.address), [["host.corp.example", "A", "IN"], ["5.0.8.10.in-addr.arpa", "PTR", "IN"]]
    ) == [
        ["NOERROR", ["60 10.8.0.5"]],
        ["NOERROR", ["60 host.corp.example."]],
    ]
    assert nodes.configure(node).changed
    nodes.wait_announced()


def test_a_resolver_that_ends_takes_the_link_down(nodes: NodeLab, node: Node) -> None:
    unit = layout.resolver_unit(node.resolver)
    nodes.wait_announced()
    # a crash: at once, and back by itself
    nodes.shell(node.name, f"systemctl kill --signal=KILL {unit}")
    until(lambda: not link_is_up(nodes, node), 2, "link down after a crash")
    nodes.wait_announced()
    # a stop: down before the resolver stops, and it stays down
    nodes.shell(node.name, f"systemctl stop {unit}")
    assert not link_is_up(nodes, node)
    time.sleep(2)
    assert not link_is_up(nodes, node)
    # and the next run starts it
    assert nodes.configure(node).changed
    nodes.wait_announced()


def test_a_node_comes_back_from_a_reboot_by_itself(nodes: NodeLab, node: Node) -> None:
    # given one machine whose kernel forwards, as Docker, WireGuard and Tailscale want it, and one that does not
    forwards = "1" if node.resolver == "unbound" else "0"
    somebodys, kernels = "/etc/sysctl.d/99-somebody.conf", "/proc/sys/net/ipv4/ip_forward"
    nodes.shell(node.name, f"echo net.ipv4.ip_forward={forwards} >{somebodys}; sysctl -qp {somebodys}")
    nodes.exec(node.name, "systemctl", "reboot")
    others = [other.name for other in nodes.site.nodes if other.name != node.name]
    nodes.wait_announced(*others, timeout_s=15)
    nodes.wait_announced(timeout_s=60)
    assert "via 10.1.2.1 " in nodes.shell(node.name, f"ip route get 10.1.2.99 from {SERVICE}")
    assert not nodes.configure(node).changed
    # then FRR's start has decided nothing about that
    assert nodes.shell(node.name, f"cat {kernels}; rm {somebodys}; echo 0 >{kernels}") == f"{forwards}\n"


# Refused and interrupted ---------------------------------------------------------------------------------------------


def test_a_file_that_the_daemon_refuses_changes_nothing(nodes: NodeLab, node: Node, tmp_path: Path) -> None:
    before = started(nodes, node)
    # given a template with a mistake that only the daemon's own checker sees
    broken = tmp_path / "templates"
    shutil.copytree(template.TEMPLATES, broken)
    frr = broken / "designs/anycast/frr.conf.j2"
    frr.write_text(frr.read_text().replace("bgp log-neighbor-changes", "bgp log-no-such-thing"))
    argv, folder = nodes.command(node, nodes.site, "-y")
    code = (
        f"from anycastlab.node import template; from pathlib import Path; template.TEMPLATES = Path({str(broken)!r})\n"
    )
    (folder / "deploy.py").write_text(code + (folder / "deploy.py").read_text())
    done = subprocess.run(
        argv, cwd=folder, env=nodes.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    # then the run fails with FRR's own complaint, and the node goes on as it was
    assert done.returncode != 0
    assert f"{node.name}: vtysh refuses the new /etc/frr/frr.conf, the old one stays" in done.stderr
    assert "Traceback" not in done.stderr
    assert started(nodes, node) == before
    assert link_is_up(nodes, node)
    assert nodes.shell(node.name, "find / -xdev -name '*.anycastlab-new' 2>/dev/null || true") == ""
    assert not nodes.configure(node).changed


@pytest.mark.parametrize("after_s", [0.9, 1.5, 2.4])
def test_a_run_that_is_killed_is_healed_by_the_next(nodes: NodeLab, after_s: float) -> None:
    """Killed anywhere: while writing, withdrawn, between the file and the restart, while waiting."""
    node = nodes.site.node("node01")
    calm(nodes, node)
    # given a change of everything that restarts something, killed on the control machine and on the node
    resolver = nodes.site.resolver.model_copy(update={"stale_ttl_s": 20, "max_concurrent": 3000})
    changed = nodes.site.model_copy(update={"resolver": resolver})
    argv, folder = nodes.command(node, changed, "-y")
    run = subprocess.Popen(
        argv, cwd=folder, env=nodes.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    time.sleep(after_s)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    nodes.shell(node.name, "for p in $(pgrep -f 'python3 -I -$'); do kill -KILL $p; done")
    # when the next run goes through
    assert nodes.configure(node, changed).code == 0
    # then the node is whole: announced, and a further run has nothing to do
    nodes.wait_announced()
    assert not nodes.configure(node, changed).changed
    assert "max_goroutines: 3000" in nodes.shell(node.name, f"cat {layout.ADGUARD_CONFIG}")
    # back to where the other tests start
    assert nodes.configure(node).changed
    nodes.wait_announced()


@pytest.mark.parametrize(
    ("folder", "how", "why"),
    [
        (layout.STATE, "mount -t tmpfs -o nr_inodes=1 none {0}", "No space left on device"),
        (layout.ADGUARD_STATE, "mount --bind {0} {0}; mount -o remount,ro,bind {0}", "Read-only file system"),
    ],
    ids=["state-full", "data-read-only"],
)
def test_a_disk_that_takes_nothing_stops_the_deploy_before_anything_stops(
    nodes: NodeLab, folder: str, how: str, why: str
) -> None:
    node = nodes.site.node("node01")
    calm(nodes, node)
    resolver = nodes.site.resolver.model_copy(update={"stale_ttl_s": 21})
    changed = nodes.site.model_copy(update={"resolver": resolver})
    before = started(nodes, node)
    nodes.shell(node.name, how.format(folder))
    try:
        run = nodes.configure(node, changed)
    finally:
        nodes.shell(node.name, f"umount -l {folder}")  # the services see it, too
    assert run.code != 0
    assert re.search(rf"node01: {folder}\S* cannot be written: {why}\.", run.output), run.output
    assert "Traceback" not in run.output
    assert started(nodes, node) == before
    assert link_is_up(nodes, node)
    assert nodes.shell(node.name, f"ls {layout.DRAINED} 2>/dev/null || true") == ""
    assert not nodes.configure(node).changed


# Put behind the agent's source: it is killed at its n-th command, file or move, as by a power cut.
KILL = """
_left = [{step}]


def _dies(function):
    def dying(*arguments, **options):
        if _left[0] == 0:
            os.kill(os.getpid(), 9)
        _left[0] -= 1
        return function(*arguments, **options)

    return dying


Agent._run, Agent._write, os.replace = _dies(Agent._run), _dies(Agent._write), _dies(os.replace)
"""


def first_deploy_killed(nodes: NodeLab, step: int) -> bool:
    """Kill the first deploy of a bare third machine at its `step`, then deploy again; whether it got that far."""
    third = nodes.site.node("node02").model_copy(
        update={
            "name": "node03", "host": "@incus/node03", "address": DNS[13], "router_id": DNS[13],
            "resolver": "adguardhome",
        }
    )  # fmt: skip
    subprocess.run(
        ["incus", "--project", nodes.lab.project, "delete", "-f", "node03"], capture_output=True, check=False
    )
    nodes._machine("node03", third.address, ROUTER_DNS)
    argv, folder = nodes.command(third, nodes.site, "-y")
    source = f"from anycastlab.node import apply\n_whole = apply._agent() + {KILL.format(step=step)!r}\n"
    deploy = (folder / "deploy.py").read_text()
    (folder / "deploy.py").write_text(f"{source}apply._agent = lambda: _whole\n{deploy}")
    died = subprocess.run(argv, cwd=folder, env=nodes.environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)  # fmt: skip
    healed = nodes.configure(third)
    assert healed.code == 0, f"step {step}: {healed}"
    until(lambda: link_is_up(nodes, third), 30, f"node03 is raised, after a death at step {step}")
    assert not nodes.configure(third).changed, step
    assert ask(nodes, str(third.address), [["id.anycast.lan", "TXT", "IN"]]) == [["NOERROR", ['10 "node03"']]]
    return died.returncode != 0


@pytest.mark.parametrize("step", [45, 61], ids=["files", "services"])
def test_a_first_deploy_that_is_killed_is_healed_by_the_next(nodes: NodeLab, step: int) -> None:
    """Two of the steps, on a real machine; `tests/unit/node/test_first_deploy.py` has each of them."""
    assert first_deploy_killed(nodes, step)
    nodes.incus("delete", "-f", "node03")


def test_changing_the_resolver_and_back(nodes: NodeLab) -> None:
    node = nodes.site.node("node02")
    calm(nodes, node)
    other = node.model_copy(update={"resolver": "adguardhome"})
    for wanted in (other, node):
        assert nodes.configure(wanted).changed
        nodes.wait_announced()
        assert ask(nodes, "10.1.2.12", [["id.anycast.lan", "TXT", "IN"]]) == [["NOERROR", ['10 "node02"']]]
        listening = nodes.shell(node.name, "ss -Hlunp 'sport = :53'")
        assert ("AdGuardHome" in listening) == (wanted.resolver == "adguardhome")
        assert ("unbound" in listening) == (wanted.resolver == "unbound")
        assert not nodes.configure(wanted).changed


def test_dns_over_tls_where_it_is_asked_for(nodes: NodeLab, node: Node) -> None:
    calm(nodes, node)
    resolver = nodes.site.resolver.model_copy(update={"dot": True})
    secure = nodes.site.model_copy(update={"resolver": resolver})
    assert nodes.configure(node, secure).changed
    certificate = nodes.shell(node.name, f"cat {layout.TLS_CERTIFICATE}")
    nodes.push(ROUTER, "/root/dot.pem", certificate.encode())
    code = f"""
import dns.message, dns.query, ssl
context = ssl.create_default_context(cafile="/root/dot.pem")
reply = dns.query.tls(dns.message.make_query("id.anycast.lan", "TXT"), "{node.address}", timeout=3,
                      ssl_context=context, server_hostname="{SERVICE}")
print(reply.answer[0][0].to_text())
"""
    assert nodes.exec(ROUTER, "python3", "-c", code, check=True).stdout.strip() == f'"{node.name}"'
    assert not nodes.configure(node, secure).changed
    assert nodes.configure(node).changed
    nodes.wait_announced()


# What else runs there ------------------------------------------------------------------------------------------------

OPT = "/opt/AdGuardHome"
# A person's AdGuard Home, where its own installer puts it, on every address. It shares ours' user, so the kernel lets
# both have the port (SO_REUSEPORT), and each gets a part of the questions.
SECOND = f"""\
mkdir -p {OPT}; cp {layout.ADGUARD_PROGRAM} {OPT}/
cat > {OPT}/a.yaml <<END
http: {{address: "127.0.0.1:3001"}}
dns: {{bind_hosts: [0.0.0.0], port: 53, upstream_dns: [10.1.2.1]}}
schema_version: 34
END
chown -R {layout.ADGUARD_USER}: {OPT}
systemd-run -q --unit=AdGuardHome -p User={layout.ADGUARD_USER} -p AmbientCapabilities=CAP_NET_BIND_SERVICE \
  {OPT}/AdGuardHome --no-check-update -c {OPT}/a.yaml -w {OPT}
n=0
until ss -H -lnup 'sport = :53' | grep -c AdGuardHome | grep -qx 2; do
  n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done
"""
GRAFANA = """\
systemctl stop adguardhome; cp /usr/bin/python3 /usr/local/bin/grafana
systemd-run -q --unit=grafana-server /usr/local/bin/grafana -m http.server 3000
n=0; until ss -H -lnt 'sport = :3000' | grep -q .; do n=$((n+1)); [ $n -lt 60 ] || exit 1; sleep 0.1; done
"""
PIHOLES_UNBOUND = """\
cp -a /etc/unbound/unbound.conf /root/unbound.conf.before
printf 'server:\\n  interface: 127.0.0.1\\n  port: 5335\\n  module-config: "iterator"\\n' > /etc/unbound/unbound.conf
printf 'forward-zone:\\n  name: "."\\n  forward-addr: 10.1.2.1\\n' >> /etc/unbound/unbound.conf
systemctl enable -q --now unbound; systemctl is-active unbound
"""


def test_a_persons_unbound_on_a_port_of_its_own_stays(nodes: NodeLab) -> None:
    """The set-up of the Pi-hole guide: AdGuard Home asks an unbound beside it."""
    node = nodes.site.node("node01")
    resolver = nodes.site.resolver.model_copy(update={"upstreams": ("127.0.0.1:5335",)})
    asking_it = nodes.site.model_copy(update={"resolver": resolver})
    nodes.shell(node.name, PIHOLES_UNBOUND)
    try:
        assert nodes.configure(node, asking_it).changed
        assert nodes.shell(node.name, "systemctl is-active unbound; systemctl is-enabled unbound").split() == [
            "active",
            "enabled",
        ]
        assert ask(nodes, str(node.address), [["www.lab.example", "A", "IN"]])[0][0] == "NOERROR"
        assert not nodes.configure(node, asking_it).changed
    finally:
        nodes.shell(
            node.name, "systemctl disable -q --now unbound; mv /root/unbound.conf.before /etc/unbound/unbound.conf"
        )
    assert nodes.configure(node).changed
    nodes.wait_announced()


@pytest.mark.parametrize(
    ("stranger", "unit", "sentence"),
    [
        (SECOND, "AdGuardHome", f"where the resolver answers, is held by AdGuardHome (AdGuardHome.service, {OPT}"),
        (GRAFANA, "grafana-server", "for AdGuard Home's web page, is held by grafana (grafana-server.service"),
    ],
    ids=["another AdGuard Home", "Grafana"],
)  # fmt: skip
def test_a_port_that_somebody_else_holds_is_refused_by_name(
    nodes: NodeLab, stranger: str, unit: str, sentence: str
) -> None:
    node = nodes.site.node("node01")
    nodes.shell(node.name, stranger)
    try:
        before = started(nodes, node)
        for arguments in ((), ("--dry",)):
            refused = nodes.configure(node, None, *arguments)
            assert refused.code != 0
            assert re.search(rf"node01: port \d+, {re.escape(sentence)}", refused.output), refused.output
            assert f"(`systemctl disable --now {unit}.service`)" in refused.output
            assert "Traceback" not in refused.output
        assert started(nodes, node) == before
    finally:
        nodes.shell(node.name, f"systemctl stop {unit}; systemctl start adguardhome")
    nodes.wait_announced()


@pytest.fixture
def resolved(nodes: NodeLab, node: Node, tmp_path: Path) -> Iterator[Node]:
    """A node beside whose resolver systemd-resolved runs with its stub, which came first: so it is on Ubuntu."""
    package = debian_package("systemd-resolved", tmp_path)
    nodes.push(node.name, "/root/resolved.deb", package.read_bytes())
    unit = layout.resolver_unit(node.resolver)
    nodes.shell(
        node.name,
        f"cp -a /etc/resolv.conf /root/resolv.conf.before; systemctl stop {unit};"
        " mkdir -p /etc/systemd/resolved.conf.d;"
        " printf '[Resolve]\\nDNS=10.1.2.1\\nDNSStubListener=yes\\n' > /etc/systemd/resolved.conf.d/mine.conf;"
        " dpkg -i --force-depends /root/resolved.deb && systemctl restart systemd-resolved",
    )
    yield node
    nodes.shell(
        node.name,
        f"dpkg --purge --force-depends systemd-resolved; rm -rf /etc/systemd/resolved.conf.d {layout.RESOLVED_CONFIG};"
        " rm -f /etc/resolv.conf; cp -a /root/resolv.conf.before /etc/resolv.conf",
    )
    assert nodes.configure(node).code == 0
    nodes.wait_announced()


def test_the_stub_of_systemd_resolved_makes_room_and_the_machine_still_resolves(nodes: NodeLab, resolved: Node) -> None:
    # given a stub on 127.0.0.53, beside which neither resolver can start
    assert "nameserver 127.0.0.53" in nodes.shell(resolved.name, "cat /etc/resolv.conf")
    assert nodes.configure(resolved).changed
    nodes.wait_announced()
    # then the resolver has port 53 alone, and the machine's own names come from where they came from before
    held = nodes.shell(resolved.name, "ss -H -lntup 'sport = :53'")
    assert "systemd-resolve" not in held
    assert "nameserver 10.1.2.1" in nodes.shell(resolved.name, "cat /etc/resolv.conf")
    assert "192.0.2.80" in nodes.shell(resolved.name, "getent ahostsv4 www.lab.example")
    assert not nodes.configure(resolved).changed
