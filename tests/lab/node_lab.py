"""A small lab for the nodes' configuration: bare machines of the base image, and a router that is FRR and a resolver.

Each run is pyinfra's own command on one node, in a folder of its own, with the site handed over as JSON.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from anycastlab.host import apt, mirror
from anycastlab.image.definition import CODENAMES, DEFAULT_RELEASE
from anycastlab.site import Node, Site
from tests.lab.probe_lab import ROUTER, ProbeLab

# A first run on a slow machine obtains AdGuard Home, which is built for a minute; several tests may wait for it.
RUN_TIMEOUT_S = 600

_DEPLOY = """\
import os
from pathlib import Path
from pyinfra import host
from anycastlab.node.operations import configure
from anycastlab.site import Site

site = Site.model_validate_json(Path("site.json").read_text())
node = site.node(host.data.node)
configure(name="Configure", site=site, node=node, must_serve=bool(host.data.get("must_serve")))
"""

_ROUTER_RESOLVER = b"""\
server:
  interface: 0.0.0.0
  access-control: 0.0.0.0/0 allow
  username: unbound
  directory: "/etc/unbound"
  chroot: ""
  module-config: "iterator"
  local-zone: "lan." static
  local-data: "nas.lan. 60 IN A 10.1.1.20"
  local-zone: "10.in-addr.arpa." static
  local-data-ptr: "10.1.1.20 60 nas.lan"
  local-zone: "example." static
  local-data: "www.lab.example. 5 IN A 192.0.2.80"
  local-data: "ads.lab.example. 5 IN A 192.0.2.66"
"""

# Asks all questions of a JSON list of [name, type, class] at an address; prints what came, in words.
ASK = """
import json, sys, dns.message, dns.query, dns.rcode, dns.rdataclass
address, questions = sys.argv[1], json.loads(sys.argv[2])
said = []
for name, kind, rdclass in questions:
    query = dns.message.make_query(name, kind, rdclass)
    try:
        reply = dns.query.udp(query, address, timeout=2)
        answers = sorted(f"{r.ttl} {item.to_text()}" for r in reply.answer for item in r)
        said.append([dns.rcode.to_text(reply.rcode()), answers])
    except Exception as error:
        said.append([type(error).__name__, []])
print(json.dumps(said))
"""

# Asks the service address every 10 ms for some seconds, each time from a new port; prints who answered and the losses.
FLOOD = """
import collections, json, socket, sys, time
import dns.message
address, seconds = sys.argv[1], float(sys.argv[2])
pending, said, lost = {}, collections.Counter(), 0
end, due = time.monotonic() + seconds, time.monotonic()
while time.monotonic() < end + 1 and (pending or time.monotonic() < end):
    now = time.monotonic()
    if now >= due and now < end:
        due += 0.01
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        try:
            sock.connect((address, 53))
            sock.send(dns.message.make_query("id.anycast.lan", "TXT").to_wire())
            pending[sock] = now
        except OSError:
            lost += 1
            sock.close()
    for sock, sent in list(pending.items()):
        try:
            reply = dns.message.from_wire(sock.recv(4096))
            said[reply.answer[0][0].strings[0].decode()] += 1
        except BlockingIOError:
            if now - sent < 1:
                continue
            lost += 1
        except Exception:
            lost += 1
        sock.close()
        del pending[sock]
    time.sleep(0.002)
print(json.dumps([dict(said), lost]))
"""


def debian_package(name: str, folder: Path) -> Path:
    """A package of the base image's Debian, from the archive that this machine is configured for."""
    source = folder / "sources.list"
    source.write_text(mirror.source_lines(apt.archives(), CODENAMES[DEFAULT_RELEASE]))
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True)
    options = {
        "Dir::Etc::sourcelist": source,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": folder,
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
    }
    command = ["apt-get", "-qq", *(part for key, value in options.items() for part in ("-o", f"{key}={value}"))]
    for arguments in (["update"], ["download", name]):
        subprocess.run([*command, *arguments], cwd=folder, check=True, capture_output=True, timeout=120)
    (found,) = folder.glob(f"{name}_*.deb")
    return found


@dataclass(frozen=True, repr=False)
class Run:
    """What one run of pyinfra said."""

    code: int
    output: str

    @property
    def changed(self) -> bool:
        """Whether the one operation did anything; a failed run counts as neither."""
        assert self.code == 0, self.output
        success, error, no_change = re.findall(r"Configure\s+1\s+(\S+)\s+(\S+)\s+(\S+)", self.output)[-1]
        assert error == "-", self.output
        assert {success, no_change} == {"1", "-"}, self.output
        return bool(success == "1")

    def __repr__(self) -> str:
        return f"exit {self.code}:\n{self.output}"


@dataclass
class NodeLab(ProbeLab):
    """Use `build`, `configure` and `shell`; `remove` leaves nothing."""

    name: str = "nodes"
    count: int = 2
    folder: Path = field(default_factory=Path)

    def set_up_node(self, name: str, site: Site | None = None) -> None:
        """Nodes stay bare: to configure them is what is under test."""

    def _set_up_router(self) -> None:
        super()._set_up_router()
        self.push(ROUTER, "/etc/unbound/unbound.conf", _ROUTER_RESOLVER)
        self.push(ROUTER, "/root/ask.py", ASK.encode())
        self.push(ROUTER, "/root/flood.py", FLOOD.encode())
        self.shell(ROUTER, "systemctl restart unbound; sysctl -qw net.ipv4.fib_multipath_hash_policy=1")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ANYCASTLAB_STATE": str(self.folder / "state"), "CI": "true"}

    def command(
        self, node: Node, site: Site, *arguments: str, host: str = "", data: str = ""
    ) -> tuple[list[str], Path]:
        """The command line of a run, and the folder it belongs into."""
        folder = self.folder / node.name
        folder.mkdir(parents=True, exist_ok=True)
        members = {member.name: member for member in site.nodes} | {node.name: node}
        whole = site.model_copy(update={"nodes": tuple(members.values())})
        (folder / "site.json").write_text(whole.model_dump_json())
        (folder / "deploy.py").write_text(_DEPLOY)
        inventory = (
            f"nodes = [({host or f'@incus/{node.name}'!r}, "
            f"{{'incus_project': {self.lab.project!r}, 'node': {node.name!r}, {data}}})]\n"
        )
        (folder / "inventory.py").write_text(inventory)
        pyinfra = str(Path(sys.executable).with_name("pyinfra"))
        return [pyinfra, "inventory.py", "deploy.py", *arguments], folder

    def configure(self, node: Node, site: Site | None = None, *arguments: str, host: str = "", data: str = "") -> Run:
        """One run on one node; without other arguments a real one."""
        argv, folder = self.command(node, site or self.site, *(arguments or ("-y",)), host=host, data=data)
        done = subprocess.run(
            argv, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
        return Run(done.returncode, done.stdout + done.stderr)
