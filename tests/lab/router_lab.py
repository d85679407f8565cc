"""A small lab for the virtual router's data plane: the router, two FRR neighbours with a DNS answerer each, a client.

Seconds to build, without the deploy: what is under test is what rows do, so the rows are written by hand over the API.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import librouteros

from anycastlab.bundle import bundle
from anycastlab.image import build
from anycastlab.incus import exec as incus_exec
from anycastlab.incus import files, instances, labs, replace
from anycastlab.incus.rest import Rest, connect
from anycastlab.incus.spec import InstanceSpec, Lab, Nic
from anycastlab.lab import router
from anycastlab.routeros.rows_fallback import REDIRECT_TAG
from anycastlab.site.topology import DNS, LAN, ROUTER_DNS, ROUTER_LAN, ROUTER_WAN, WAN
from anycastlab.virtual_router.config import Config, Interface, User

T = TypeVar("T")

SERVICE = "10.1.9.53"
NODES = ("node01", "node02")
CONVERGENCE_S = 20.0
"""Longest wait for a session, route or switch; each takes one to five seconds on an idle machine."""

_NODE_FRR = """\
frr defaults traditional
hostname {name}
service integrated-vtysh-config
!
bfd
 profile LAB
  transmit-interval 100
  receive-interval 100
 exit
exit
!
ip prefix-list LOOSE seq 5 permit any
route-map DENY deny 10
exit
!
router bgp 65053
 bgp router-id {address}
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 no bgp network import-check
 neighbor 10.1.2.1 remote-as 65000
 neighbor 10.1.2.1 timers 3 9
 neighbor 10.1.2.1 timers connect 1
 neighbor 10.1.2.1 bfd
 neighbor 10.1.2.1 bfd profile LAB
 address-family ipv4 unicast
  network 10.1.9.53/32
  neighbor 10.1.2.1 activate
  neighbor 10.1.2.1 route-map DENY in
 exit-address-family
exit
"""

# Answers everything with this node's name (TXT) or address (A).
_ANSWERER = """\
import socket, sys
import dns.message, dns.rrset, dns.flags
name, address = sys.argv[1:]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("10.1.9.53", 53))
while True:
    wire, client = sock.recvfrom(4096)
    query = dns.message.from_wire(wire)
    reply = dns.message.make_response(query)
    asked = query.question[0]
    kind, value = ("TXT", f'"{name}"') if asked.rdtype == 16 else ("A", address)
    reply.answer.append(dns.rrset.from_text(asked.name, 1, "IN", kind, value))
    sock.sendto(reply.to_wire(), client)
"""
_ANSWERER_UNIT = """\
[Unit]
Description=DNS answerer of this node
[Service]
ExecStart=/usr/bin/python3 /root/answerer.py {name} {address}
"""

_ASK = """\
import json, sys, time
import socket
import dns.message, dns.rdatatype, dns.rcode
server, name, kind, count, port, timeout, pause = sys.argv[1:]
results = []
kept = None
for _ in range(int(count)):
    sock = kept
    if sock is None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if int(port):
            sock.bind(("", int(port)))
            kept = sock
        sock.connect((server, 53))
    sock.settimeout(float(timeout))
    query = dns.message.make_query(name, kind)
    try:
        sock.send(query.to_wire())
        reply = dns.message.from_wire(sock.recv(4096))
        texts = [item.to_text().strip('"') for rrset in reply.answer for item in rrset]
        results.append(texts[0] if texts else dns.rcode.to_text(reply.rcode()))
    except OSError as error:
        results.append(type(error).__name__)
    if kept is None:
        sock.close()
    time.sleep(float(pause))
print(json.dumps(results))
"""


def eventually(look: Callable[[], T], good: Callable[[T], bool], timeout_s: float = CONVERGENCE_S) -> T:
    """Looks until it is good; fails with what was seen last."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if good(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s; last seen: {seen}")
        time.sleep(0.2)


@dataclass
class RouterLab:
    """Use `build`, then `fresh` for each test; `remove` leaves nothing."""

    name: str = "td"
    lab: Lab = field(init=False)
    rest: Rest = field(init=False)

    def __post_init__(self) -> None:
        self.lab = Lab(self.name)
        self.rest = connect(project=self.lab.project)

    # --- making it ----------------------------------------------------------------------------------------------

    def specs(self) -> list[InstanceSpec]:
        wan, lan, dns = self.lab.bridges
        machine = InstanceSpec(
            "router",
            (
                Nic("wan", wan, ROUTER_WAN, WAN.prefixlen),
                Nic("lan", lan, ROUTER_LAN, LAN.prefixlen),
                Nic("dns", dns, ROUTER_DNS, DNS.prefixlen),
            ),
            proxies=(("api", f"tcp:127.0.0.1:{self.lab.api_port}", "tcp:127.0.0.1:8728"),),
        )
        nodes = [
            InstanceSpec(name, (Nic("eth0", dns, DNS[10 + number], DNS.prefixlen, ROUTER_DNS),))
            for number, name in enumerate(NODES, 1)
        ]
        client = InstanceSpec("client01", (Nic("eth0", lan, LAN[101], LAN.prefixlen, ROUTER_LAN),))
        return [machine, *nodes, client]

    def build(self) -> None:
        self.remove()
        image = build.ensure()
        labs.ensure_lab_networks(self.rest, self.lab)
        for spec in self.specs():
            instances.create(self.rest, spec, self.lab, image)
            instances.start(self.rest, spec.name)
        for spec in self.specs():
            instances.wait_booted(self.rest, spec.name)
            for nic in spec.nics:
                eventually(
                    lambda spec=spec, nic=nic: self.run(spec.name, "ip", "-brief", "address", "show", nic.name),  # type: ignore[misc]
                    lambda seen, nic=nic: str(nic.address) in seen,  # type: ignore[misc]
                )
        for number, name in enumerate(NODES, 1):
            self._node(name, str(DNS[10 + number]))
        self.put("client01", "/root/ask.py", _ASK.encode())
        self.put("router", router.PROGRAM, bundle("anycastlab.virtual_router"))
        self.put("router", f"/etc/systemd/system/{router.UNIT}", router.unit().encode())
        self.run("router", "systemctl", "daemon-reload")
        self.run("router", "systemctl", "enable", router.UNIT)

    def _node(self, name: str, address: str) -> None:
        self.put(name, "/root/answerer.py", _ANSWERER.encode())
        unit = _ANSWERER_UNIT.format(name=name, address=address)
        self.put(name, "/etc/systemd/system/answerer.service", unit.encode())
        self.put(name, "/etc/frr/frr.conf", _NODE_FRR.format(name=name, address=address).encode())
        self.run(
            name,
            "sh",
            "-ec",
            f"ip address add {SERVICE}/32 dev lo; chown frr:frr /etc/frr/frr.conf; systemctl daemon-reload;"
            "sed -i 's/^bgpd=no/bgpd=yes/; s/^bfdd=no/bfdd=yes/' /etc/frr/daemons; systemctl start frr answerer",
        )

    def remove(self) -> None:
        labs.clear_lab(self.rest, self.lab)

    # --- talking to machines --------------------------------------------------------------------------------------

    def put(self, machine: str, path: str, content: bytes) -> None:
        files.make_directories(self.rest, machine, path.rsplit("/", 1)[0])
        replace.put(self.rest, machine, path, content)

    def run(self, machine: str, *argv: str, check: bool = True, timeout_s: float = 60) -> str:
        result = incus_exec.execute(self.rest, machine, argv, timeout_s=timeout_s)
        assert result.ok or not check, f"{machine}: {' '.join(argv)}: {result.complaint}"
        return result.text

    def vtysh(self, machine: str, *commands: str) -> str:
        return self.run(machine, "vtysh", *(part for command in commands for part in ("-c", command)))

    def node_bgp(self, machine: str, *lines: str) -> None:
        """Changes the BGP configuration of a node (lines of its address family)."""
        self.vtysh(machine, "configure terminal", "router bgp 65053", "address-family ipv4 unicast", *lines)

    def ask(
        self,
        name: str,
        kind: str = "TXT",
        *,
        server: str = SERVICE,
        count: int = 1,
        port: int = 0,
        timeout_s: float = 1,
        pause_s: float = 0.0,
    ) -> list[str]:
        """Asks from the client; the first answer's text, the response code, or the name of the error, per question."""
        arguments = [server, name, kind, str(count), str(port), str(timeout_s), str(pause_s)]
        return list(json.loads(self.run("client01", "python3", "/root/ask.py", *arguments)))

    # --- the router -----------------------------------------------------------------------------------------------

    def config(self, version: str, startup_delay_s: float | None = 0.0, connection_form: str = "apart") -> Config:
        return Config(
            version=version,
            users=(User("admin", "secret"),),
            interfaces=(
                Interface("ether1-wan", "wan", (f"{ROUTER_WAN}/24",), ("WAN",)),
                Interface("ether2-lan", "lan", (f"{ROUTER_LAN}/24",), ("LAN",)),
                Interface("ether3-dns", "dns", (f"{ROUTER_DNS}/24",), ("LAN",)),
            ),
            static_names={"nas.lan": "10.1.1.20"},
            netwatch_startup_delay_s=startup_delay_s,
            connection_form=connection_form,
        )

    def fresh(self, version: str = "7.22.3", connection_form: str = "apart") -> None:
        """A router out of the box, and both nodes announcing and answering."""
        self.run("router", "sh", "-ec", f"systemctl stop {router.UNIT}; rm -rf /var/lib/anycastlab-router")
        settings = self.config(version, connection_form=connection_form)
        self.put("router", router.CONFIG, settings.to_json().encode())
        self.run("router", "systemctl", "start", router.UNIT)
        for node in NODES:
            self.run(node, "systemctl", "start", "answerer")

    def restart(self) -> None:
        self.run("router", "systemctl", "restart", router.UNIT)

    def power_cut(self) -> None:
        """Off and on again, without a goodbye."""
        self.rest.run("put", "/instances/router/state", {"action": "restart", "force": True, "timeout": 30})
        instances.wait_booted(self.rest, "router")

    @contextlib.contextmanager
    def api(self) -> Iterator[Api]:
        session = librouteros.connect(
            host="127.0.0.1",
            port=self.lab.api_port,
            username="admin",
            password="secret",
            encoding="utf-8",
            timeout=CONVERGENCE_S,
        )
        try:
            yield Api(session)
        finally:
            session.close()


@dataclass
class Api:
    """One API session; values come as librouteros casts them."""

    session: Any

    def rows(self, menu: str) -> list[dict[str, Any]]:
        return list(self.session(f"{menu}/print"))

    def add(self, menu: str, **properties: str) -> str:
        """Keyword `hold_time` is `hold-time`, `remote__address` is `remote.address`."""
        reply = tuple(self.session(f"{menu}/add", **_named(properties)))
        return str(reply[0]["ret"])

    def set(self, menu: str, row_id: str = "", **properties: str) -> None:
        chosen = {".id": row_id} if row_id else {}
        tuple(self.session(f"{menu}/set", **chosen, **_named(properties)))

    def settled(self) -> None:
        """Waits until the writes so far have taken effect: a reading does that."""
        self.rows("/system/identity")

    def do(self, command: str, **arguments: str) -> list[dict[str, Any]]:
        return list(self.session(command, **_named(arguments)))

    def row(self, menu: str, **match: str) -> dict[str, Any]:
        found = [row for row in self.rows(menu) if all(str(row.get(k)) == v for k, v in _named(match).items())]
        assert len(found) == 1, f"{menu} {match}: {found}"
        return found[0]

    def neighbours(self, version: str = "7.22.3", *, filtered: bool = True, **properties: str) -> None:
        """Both nodes as BGP connections, as that version writes them."""
        own: dict[str, str] = {"local__role": "ebgp", "remote__as": "65053", "use_bfd": "yes", "hold_time": "9s"}
        own |= {"keepalive_time": "3s", "output__filter_chain": "out"}
        if tuple(map(int, version.split(".")[:2])) >= (7, 20):
            more = {"multipath": "8"} if tuple(map(int, version.split(".")[:2])) >= (7, 22) else {}
            self.add("/routing/bgp/instance", name="main", **{"as": "65000"}, router_id="10.1.2.1", **more)
            own["instance"] = "main"
        else:
            own |= {"as": "65000", "router_id": "10.1.2.1"}
        if filtered:
            self.add(
                "/routing/filter/rule", chain="in", rule=f"if (dst == {SERVICE}/32) {{ accept }} else {{ reject }}"
            )
            own["input__filter"] = "in"
        self.add("/routing/filter/rule", chain="out", rule="reject")
        for number, name in enumerate(NODES, 1):
            address = f"10.1.2.1{number}"
            self.add("/routing/bfd/configuration", addresses=address, min_rx="100ms", min_tx="100ms", multiplier="3")
            self.add("/routing/bgp/connection", **{**own, "name": name, "remote__address": address, **properties})

    def established(self, count: int = len(NODES)) -> list[dict[str, Any]]:
        """Waits until that many sessions are up."""
        return eventually(
            lambda: [row for row in self.rows("/routing/bgp/session") if row.get("established")],
            lambda rows: len(rows) == count,
        )

    def next_hops(self, prefix: str = f"{SERVICE}/32") -> dict[str, bool]:
        """Gateway to active, as `/routing/route` has it."""
        rows = [row for row in self.rows("/routing/route") if row["dst-address"] == prefix]
        return {row["gateway"]: bool(row.get("active")) for row in rows}

    def served(self) -> None:
        """Waits until the service address has both next hops."""
        eventually(self.next_hops, lambda hops: len(hops) == len(NODES))


def _named(properties: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()}


def add_redirect(api: Api) -> None:
    for protocol in ("udp", "tcp"):
        api.add(
            "/ip/firewall/nat",
            chain="dstnat",
            action="redirect",
            protocol=protocol,
            dst_address=SERVICE,
            dst_port="53",
            to_ports="53",
            comment=f"{REDIRECT_TAG}:{protocol}",
            disabled="yes",
        )
    api.set("/ip/dns", allow_remote_requests="yes")
