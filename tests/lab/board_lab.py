"""Two boards: instances that nothing but SSH on 127.0.0.1 is used of once they run.

One is reached as an ordinary user with sudo, as boards come, the other as root. Their host keys are made here, so the
known hosts are known; each has a file of its owner where a deploy puts one of its own.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from anycastlab.image import build
from anycastlab.incus import instances, labs
from anycastlab.incus.exec import check, execute
from anycastlab.incus.rest import Rest, connect
from anycastlab.incus.spec import InstanceSpec, Lab, Nic
from anycastlab.site import topology
from tests.lab.conftest import RunningLab

_SSH = 22
BOOT_LIMIT_S = 60

# What the owner had there before: a configuration of FRR's own name, and a resolver that was running.
OWNERS_FRR = b"! mine\nfrr version 10\nfrr defaults traditional\nhostname board01\nlog syslog warnings\n"

GREETING = "echo Welcome; umask 077"

# What one of them lacks, as boards do; apt finds it in an archive on the board, for nothing here reaches the internet.
MISSING_PACKAGE = "python3-dnspython"
_REPACK = """
set -e
name=$1; new=$(mktemp -d); mkdir -p /srv/archive "$new/DEBIAN"; chmod 755 "$new"
dpkg -L "$name" | while read -r path; do if [ -f "$path" ] || [ -L "$path" ]; then echo "$path"; fi; done |
  tar -C / -cf - -T - 2>/dev/null | tar -C "$new" -xf -
dpkg-query -s "$name" | grep -vE '^(Status|Conffiles| /)' > "$new/DEBIAN/control"
dpkg-deb -b "$new" "/srv/archive/$name.deb" >/dev/null
cd /srv/archive
{ cat "$new/DEBIAN/control"; echo "Filename: ./$name.deb"; echo "Size: $(stat -c %s "$name.deb")"
  echo "SHA256: $(sha256sum "$name.deb" | cut -d' ' -f1)"; } > Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* "$new"
echo 'deb [trusted=yes] file:/srv/archive ./' > /etc/apt/sources.list
dpkg --purge --force-depends "$name" >/dev/null
"""

# A package whose new version somebody unpacked and left: dpkg would ask whose configuration file shall stay.
ASKING_CONFIG = "/srv/asking.conf"
OWNERS_ASKING = "version 1\nmine\n"
_ASK_ABOUT_A_FILE = f"""
set -e
new=$(mktemp -d); mkdir -p "$new/DEBIAN" "$new/srv"; chmod 755 "$new"
echo {ASKING_CONFIG} > "$new/DEBIAN/conffiles"
for version in 1 2; do
  printf 'Package: asking\\nVersion: %s\\nArchitecture: all\\nMaintainer: x <x@example.com>\\nDescription: x\\n' \
    $version > "$new/DEBIAN/control"
  echo "version $version" > "$new{ASKING_CONFIG}"
  dpkg-deb -b "$new" /srv/asking-$version.deb >/dev/null
done
dpkg -i /srv/asking-1.deb >/dev/null; echo mine >> {ASKING_CONFIG}; dpkg --unpack /srv/asking-2.deb >/dev/null
rm -rf "$new"
"""

# Every file, link and folder of the places a deploy writes to, each with what makes it what it is.
_MANIFEST = """
import hashlib, json, os, sys
found = {}
for top in ("/etc", "/usr/local", "/var/lib", "/opt", "/root", "/run/anycastlab"):
    for folder, folders, files in os.walk(top):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            what = [oct(status.st_mode), status.st_uid, status.st_gid]
            if os.path.islink(path):
                what.append(os.readlink(path))
            elif os.path.isfile(path):
                what.append(hashlib.sha256(open(path, "rb").read()).hexdigest())
            found[path] = what
print(json.dumps(found))
"""
# Packages and logs, and what any machine changes by itself; `/etc/passwd-` and its like are backups of user tools.
_OTHERS = (
    "/var/lib/dpkg/", "/var/lib/apt/", "/var/lib/systemd/", "/var/lib/dbus/", "/etc/.pwd.lock", "/etc/passwd-",
    "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/var/lib/frr/commit-", "/root/.history_frr",
)  # fmt: skip


@dataclass(frozen=True)
class Board:
    """One board as its owner has it."""

    instance: str
    node: str
    user: str
    port: int
    address: IPv4Address
    resolver: str

    @property
    def host(self) -> str:
        """Its name in the inventory."""
        return f"@ssh/{self.instance}"


@dataclass(frozen=True)
class BoardLab(RunningLab):
    """A lab whose first two nodes are boards. `build` makes the boards, the deploy everything else."""

    inventory: str = "tests/lab/inventories/boards.py"
    folder: Path = field(default_factory=Path)

    @property
    def lab(self) -> Lab:
        return Lab(self.name)

    @property
    def rest(self) -> Rest:
        return connect(None, self.lab.project)

    @property
    def boards(self) -> tuple[Board, Board]:
        free = 31_000 + self.lab.api_port % 1_700  # even; above the labs' API ports, below the kernel's own choices
        dns = topology.DNS
        return (
            Board("board01", "node01", "pi", free, dns[11], "adguardhome"),
            Board("board02", "node02", "root", free + 1, dns[12], "unbound"),
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "ANYCASTLAB_TEST_BOARDS": json.dumps(self.hosts()),
            "ANYCASTLAB_STATE": str(self.folder / "state"),
        }

    def hosts(self) -> Mapping[str, dict[str, Any]]:
        """The boards as the inventory has them."""
        return {
            board.host: {
                "lab": self.name,
                "node_name": board.node,
                "address": str(board.address),
                "prefix_length": topology.DNS.prefixlen,
                "gateway": str(topology.ROUTER_DNS),
                "resolver": board.resolver,
                "ssh_hostname": "127.0.0.1",
                "ssh_port": board.port,
                "ssh_user": board.user,
                "ssh_key": str(self.folder / "id"),
                "ssh_known_hosts_file": str(self.folder / "known_hosts"),
                "ssh_strict_host_key_checking": "yes",
                "_sudo": board.user != "root",
            }
            for board in self.boards
        }

    def build(self) -> None:
        """The boards, running, with sshd; not yet nodes of anything."""
        self._keygen("id")
        labs.ensure_lab_networks(self.rest, self.lab)
        image = build.ensure()
        known = []
        for board in self.boards:
            host_key = self._keygen(board.instance)
            known.append(f"[127.0.0.1]:{board.port} {host_key}")
            instances.create(self.rest, self._spec(board), self.lab, image)
            instances.start(self.rest, board.instance)
        (self.folder / "known_hosts").write_text("\n".join(known) + "\n")
        for board in self.boards:
            instances.wait_booted(self.rest, board.instance, BOOT_LIMIT_S)
            self.sh(board, "systemctl enable -q --now ssh.service")
        pi, root = self.boards
        self.sh(
            pi,
            "useradd -m -s /bin/bash pi && install -d -o pi -g pi -m 700 /home/pi/.ssh"
            " && install -o pi -g pi -m 600 /root/.ssh/authorized_keys /home/pi/.ssh/authorized_keys"
            " && rm -r /root/.ssh"  # nobody comes in as root here
            " && echo 'pi ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/010_pi-nopasswd",
        )
        self.sh(pi, f"set -- {MISSING_PACKAGE}\n{_REPACK}")
        self.sh(pi, _ASK_ABOUT_A_FILE)
        self.sh(root, "systemctl enable -q --now unbound.service frr.service")
        # Shells that greet, one without a line feed, files that nobody else may read; a board without SFTP, and one
        # whose owner's other archive is dead. All of that is odd, but legal.
        self.sh(pi, f"printf '%s\n' {shlex.quote(GREETING)} | cat - /etc/skel/.bashrc > /home/pi/.bashrc")
        self.sh(
            root,
            f"printf '%s\n' {shlex.quote(GREETING)} \"printf 'and more'\" \"trap 'echo bye' EXIT\" > /root/.bashrc",
        )
        self.sh(pi, "sed -i /sftp/d /etc/ssh/sshd_config; systemctl restart ssh.service")
        self.sh(
            pi, "mkdir -p /etc/apt/sources.list.d; echo 'deb file:/srv/dead ./' > /etc/apt/sources.list.d/dead.list"
        )

    def remove(self) -> None:
        """Everything, without the boards' help."""
        labs.clear_lab(self.rest, self.lab)

    def _spec(self, board: Board) -> InstanceSpec:
        nic = Nic("eth0", self.lab.bridge("dns"), board.address, topology.DNS.prefixlen, topology.ROUTER_DNS)
        key = (self.folder / board.instance).read_bytes()
        return InstanceSpec(
            board.instance,
            (nic,),
            proxies=(("ssh", f"tcp:127.0.0.1:{board.port}", f"tcp:127.0.0.1:{_SSH}"),),
            files=(
                ("/etc/ssh/ssh_host_ed25519_key", key, 0o600),
                ("/root/.ssh/authorized_keys", (self.folder / "id.pub").read_bytes(), 0o600),
                ("/etc/frr/frr.conf", OWNERS_FRR, 0o644),
            ),
        )

    def _keygen(self, name: str) -> str:
        """Make a key pair; the public half, without its comment."""
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
        return " ".join(path.with_name(f"{name}.pub").read_text().split()[:2])

    def sh(self, board: Board, script: str) -> str:
        """Run a script on the board behind SSH's back, as the witness; it must succeed."""
        return check(self.rest, board.instance, ["sh", "-c", script], timeout_s=60).text

    def succeeds(self, board: Board, script: str) -> bool:
        return execute(self.rest, board.instance, ["sh", "-c", script], timeout_s=60).ok

    def has_package(self, board: Board, name: str) -> bool:
        return self.succeeds(board, f"dpkg-query -W -f='${{db:Status-Status}}' {name} | grep -qx installed")

    def manifest(self, board: Board) -> dict[str, Any]:
        """What lies on the board, packages and logs aside."""
        found: dict[str, Any] = json.loads(
            check(self.rest, board.instance, ["python3", "-I", "-c", _MANIFEST], timeout_s=60).text
        )
        return {path: what for path, what in found.items() if not path.startswith(_OTHERS)}
