"""A small lab for the probe alone: nodes as the deploy renders them, and a router that is FRR and a resolver.

Seconds to build, so single faults can be tried without the whole deploy. Tests use three things of it only: the names
of the nodes, `exec`, and `router`; so they run on a lab built by `deploy.py` as well.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address

import bcrypt

from anycastlab.incus import files, instances, labs, replace
from anycastlab.incus.exec import execute
from anycastlab.incus.rest import Rest, connect
from anycastlab.incus.spec import InstanceSpec, Lab, Nic
from anycastlab.node import adguard_yaml, certificates, layout, resolver_binary
from anycastlab.node.render import Machine, adguard, probe
from anycastlab.node.render import files as node_files
from anycastlab.probe.config import ProbeConfig
from anycastlab.site.model import Site
from anycastlab.site.parts import Bfd, Node, Resolver, ResolverKind, Router, Service
from anycastlab.site.topology import DNS, ROUTER_DNS, UPSTREAM_WAN

ROUTER = "router"
PASSWORD = "correct horse battery staple"
PROBE_KEY = f"{'5a' * 32}\n"
SERVICE = IPv4Address("10.1.9.53")


def site(lab: Lab, count: int, resolver: ResolverKind) -> Site:
    """The home that this lab stands for."""
    nodes = tuple(
        Node(
            name=f"node{number:02}",
            host=f"@incus/node{number:02}",
            platform="incus",
            address=DNS[10 + number],
            prefix_length=DNS.prefixlen,
            gateway=ROUTER_DNS,
            router_id=DNS[10 + number],
            resolver=resolver,
        )
        for number in range(1, count + 1)
    )
    return Site(
        lab=lab.name,
        service=Service(address=SERVICE),
        bfd=Bfd(),
        resolver=Resolver(
            upstreams=(str(UPSTREAM_WAN),),
            router_dns=ROUTER_DNS,
            blocklist=("blocked.example",),
            wan_probe_suffix="lab.example",
        ),
        nodes=nodes,
        router=Router(
            host="@routeros/none",
            api_host="127.0.0.1",
            api_port=lab.api_port,
            router_id=ROUTER_DNS,
            lan_networks=(DNS,),
            wan_interface="wan",
        ),
    )


def _hash(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(10)).decode()


@dataclass(frozen=True)
class _OnPool(Lab):
    """The same lab, for a machine that is to be elsewhere."""

    own_pool: str = ""

    @property
    def pool(self) -> str:
        return self.own_pool


@dataclass
class ProbeLab:
    """Use `build`, then `exec`; `remove` leaves nothing."""

    name: str = "tg"
    count: int = 3
    resolver: ResolverKind = "unbound"
    image: str = ""
    pools: dict[str, str] = field(default_factory=dict)
    """Machines whose root disk is in a storage pool of its own."""
    lab: Lab = field(init=False)
    rest: Rest = field(init=False)

    def __post_init__(self) -> None:
        self.lab = Lab(self.name)
        self.rest = connect(project=self.lab.project)
        self.site = site(self.lab, self.count, self.resolver)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.site.nodes)

    def address(self, node: str) -> str:
        return str(self.site.node(node).address)

    def probe_config(self, node: str) -> ProbeConfig:
        return probe(self.site, self.site.node(node))

    def build(self) -> None:
        labs.ensure_lab_networks(self.rest, self.lab, [self.lab.bridge("dns")])
        machines = [(ROUTER, ROUTER_DNS, None)] + [(n.name, n.address, ROUTER_DNS) for n in self.site.nodes]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda machine: self._machine(*machine), machines))
            list(pool.map(self._set_up, [ROUTER, *self.nodes]))

    def remove(self) -> None:
        labs.clear_lab(self.rest, self.lab)

    def exec(
        self, machine: str, *argv: str, timeout_s: float = 30, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine; output as text."""
        # Recorded output: what `incus exec` streams is now and then lost on a busy machine.
        done = execute(self.rest, machine, argv, timeout_s=timeout_s)
        text, complaint = done.text, done.stderr.decode("utf-8", "replace")
        result = subprocess.CompletedProcess(argv, done.exit_code, text, complaint)
        if check and result.returncode != 0:
            raise AssertionError(f"{machine}: {shlex.join(argv)} exited {result.returncode}\n{result.stderr}")
        return result

    def incus(self, *arguments: str) -> str:
        """Incus' own client on this lab's project."""
        return subprocess.run(
            ["incus", "--project", self.lab.project, *arguments], capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def shell(self, machine: str, script: str, timeout_s: float = 60, check: bool = True) -> str:
        return self.exec(machine, "sh", "-c", script, timeout_s=timeout_s, check=check).stdout

    def push(self, machine: str, path: str, content: bytes, mode: int = 0o644) -> None:
        files.make_directories(self.rest, machine, path.rsplit("/", 1)[0])
        replace.put(self.rest, machine, path, content, mode=mode)

    # How it is made

    def _machine(self, name: str, address: IPv4Address, gateway: IPv4Address | None) -> None:
        spec = InstanceSpec(
            name=name, nics=(Nic("eth0", self.lab.bridge("dns"), address, DNS.prefixlen, gateway),), cpus=2
        )
        if self.rest.find(f"/instances/{name}") is None:
            lab = _OnPool(self.lab.name, self.pools[name]) if name in self.pools else self.lab
            instances.create(self.rest, spec, lab, self.image)
        instances.start(self.rest, name)
        instances.wait_booted(self.rest, name)

    def _set_up(self, name: str) -> None:
        if name == ROUTER:
            self._set_up_router()
        else:
            self.set_up_node(name)

    def _set_up_router(self) -> None:
        self.push(ROUTER, "/etc/frr/daemons", b'bgpd=yes\nbfdd=yes\nzebra_options="-A 127.0.0.1 -s 90000000"\n')
        neighbors = "".join(
            f" neighbor {n.address} remote-as {self.site.bgp.node_asn}\n neighbor {n.address} bfd\n"
            f" neighbor {n.address} bfd profile NODES\n neighbor {n.address} timers connect 1\n"
            for n in self.site.nodes
        )
        activate = "".join(f"  neighbor {n.address} activate\n" for n in self.site.nodes)
        self.push(
            ROUTER,
            "/etc/frr/frr.conf",
            f"""\
frr defaults traditional
hostname {ROUTER}
!
router bgp {self.site.bgp.router_asn}
 bgp router-id {ROUTER_DNS}
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 timers bgp 3 9
{neighbors} address-family ipv4 unicast
{activate}  maximum-paths 8
 exit-address-family
exit
!
bfd
 profile NODES
  transmit-interval {self.site.bfd.interval_ms}
  receive-interval {self.site.bfd.interval_ms}
 exit
exit
""".encode(),
        )
        self.push(
            ROUTER,
            "/etc/unbound/unbound.conf",
            b"""\
server:
  interface: 0.0.0.0
  interface-automatic: yes
  access-control: 0.0.0.0/0 allow
  username: unbound
  directory: "/etc/unbound"
  chroot: ""
  module-config: "iterator"
  local-zone: "lan." static
  local-data: "nas.lan. 60 IN A 10.1.1.20"
  local-data: "router.lan. 60 IN A 10.1.1.1"
  # The provider's side is this machine as well, on an address of its own.
  local-zone: "example." static
  local-data: "www.lab.example. 5 IN A 192.0.2.80"
""",
        )
        self.shell(
            ROUTER,
            "sysctl -qw net.ipv4.ip_forward=1; ip link show dev lan0 2>/dev/null || ip link add lan0 type bridge;"
            f" ip address replace 10.1.1.1/24 dev lan0; ip address replace {UPSTREAM_WAN}/32 dev lan0;"
            " ip link set lan0 up; "
            "systemctl enable frr unbound; systemctl restart frr unbound; systemctl is-active frr unbound",
        )

    def set_up_node(self, name: str, site: Site | None = None) -> None:
        """As the deploy would set it up for `site`, the lab's own by default."""
        site = site or self.site
        node = site.node(name)
        units = []
        made = node_files(site, node, Machine(hostname=name), certificates.make(site, datetime.now(UTC)), PROBE_KEY)
        for file in made:
            self.push(name, file.path, file.content, mode=file.mode)
        self.exec(name, "systemd-sysusers", check=True)
        for file in made:
            if file.owner != "root" or file.group != "root":
                self.exec(name, "chown", f"{file.owner}:{file.group}", file.path, check=True)
            units += [unit for unit in file.restarts if unit not in units]
        if node.resolver == "adguardhome":
            self._set_up_adguard(name)
        self.shell(
            name,
            "systemctl daemon-reload; sysctl -q --system >/dev/null 2>&1; "
            "mkdir -p /var/lib/anycastlab; systemctl reset-failed; systemctl restart anycast0; "
            "systemctl enable --now anycastlab-escalate.path; "
            f"systemctl restart frr {node.resolver}; systemctl enable anycast0 frr {node.resolver} anycastlab-probe; "
            "systemctl restart anycastlab-probe; systemctl is-active anycastlab-probe",
        )

    def _set_up_adguard(self, name: str) -> None:
        binary = resolver_binary.obtain("auto", self.rest.get("")["environment"]["kernel_architecture"])
        self.push(name, layout.ADGUARD_PROGRAM, binary.path.read_bytes(), mode=0o755)
        wanted = adguard(self.site, self.site.node(name), PASSWORD)
        document = adguard_yaml.merge({}, wanted, adguard_yaml.Passwords(lambda *_: False, _hash))
        self.push(name, layout.ADGUARD_CONFIG, adguard_yaml.dump(document).encode(), mode=0o600)
        self.exec(name, "chown", "-R", f"{layout.ADGUARD_USER}:", layout.ADGUARD_STATE, check=True)

    # What is so

    def next_hops(self) -> set[str]:
        """Nodes in the router's kernel table for the service address."""
        table = self.shell(ROUTER, f"ip -o route show {SERVICE}/32")
        addresses = set(re.findall(r"via ([0-9.]+)", table))
        return {node.name for node in self.site.nodes if str(node.address) in addresses}

    def wait_announced(self, *nodes: str, timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        wanted = set(nodes or self.nodes)
        while (found := self.next_hops()) != wanted:
            if time.monotonic() > deadline:
                raise AssertionError(f"the router has {sorted(found)}, not {sorted(wanted)}, after {timeout_s} s")
            time.sleep(0.2)
