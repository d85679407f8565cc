"""Everything the configuration of a node is decided from, read in one command.

One shell script, because each command on a container costs tens of milliseconds and there are many things to know. It
works on an empty machine too, and reads the two witnesses of the architecture (see `architecture`).
"""

from __future__ import annotations

import base64
import binascii
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyinfra.api import StringCommand
from pyinfra.api.exceptions import FactProcessError

from anycastlab import elf, stored
from anycastlab.node import architecture, frr_config, layout, ports
from anycastlab.node.architecture import Evidence
from anycastlab.shell_fact import ShellFact, asked


@dataclass(frozen=True)
class FileState:
    """A file as it lies on the machine; `mode` as a number, `sha256` of its content."""

    mode: int
    owner: str
    group: str
    sha256: str


@dataclass(frozen=True)
class UnitState:
    """What systemd says about a unit, in its own words."""

    active: str = "inactive"
    enabled: str = ""
    loaded: str = "not-found"
    needs_reload: bool = False

    @property
    def running(self) -> bool:
        return self.active == "active"


@dataclass(frozen=True)
class NodeState:
    """A node as it is. The default is a machine that does not exist yet, so that a plan on nothing is a whole plan."""

    present: bool = False
    hostname: str = ""
    ipv4_forwarding: bool = False
    ipv6_forwarding: bool = False
    frr_own: str = ""  # `frr_config.MACHINES_OWN` lines of the present frr.conf
    evidence: Evidence = field(default_factory=Evidence)
    files: Mapping[str, FileState] = field(default_factory=dict)
    units: Mapping[str, UnitState] = field(default_factory=dict)
    packages: frozenset[str] = frozenset()
    link_up: bool = False
    link_prefixes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()  # gateway and interface of the default routes in our table, "10.1.2.1 eth0"
    interfaces: frozenset[str] = frozenset()
    addresses: tuple[tuple[str, str], ...] = ()  # interface and IPv4 prefix
    drained_by: str | None = None
    applied: Mapping[str, str] = field(default_factory=dict)
    root: bool = True  # looked at with root's rights
    originals: Mapping[str, Any] = field(default_factory=dict)  # see `keep.Record`
    held: tuple[ports.Holder, ...] = ()  # who listens on ports of ours
    adguard_yaml: str | None = field(default=None, repr=False)
    running_config: str = field(default="", repr=False)

    def unit(self, name: str) -> UnitState:
        return self.units.get(name, UnitState())

    @property
    def serving(self) -> bool:
        """Whether clients may be asking this node now: a resolver runs and the service address is up."""
        return self.link_up and any(self.unit(unit).running for unit in layout.RESOLVER_UNITS.values())


class NodeFact(ShellFact[NodeState]):
    """State of one node for the given files, units and packages."""

    @staticmethod
    def default() -> NodeState:
        return NodeState()

    def command(self, paths: Iterable[str], units: Iterable[str], packages: Iterable[str]) -> StringCommand:
        return asked(script(tuple(paths), tuple(units), tuple(packages)))

    def read(self, output: list[str]) -> NodeState:
        try:
            return parse(output)
        except (ValueError, KeyError, IndexError, RecursionError) as error:
            why = str(error) if isinstance(error, stored.Damaged) else "its answer is not understood"
            raise FactProcessError(f"the node's state cannot be read: {why}") from error


class ServingFact(ShellFact[bool]):
    """Whether clients may be asking this node now: its link is up, a resolver runs, and a router knows of it.

    False for a machine that does not exist yet, and for one whose router has not been configured: nobody can notice it.
    """

    @staticmethod
    def default() -> bool:
        return False

    def command(self) -> StringCommand:
        active = " || ".join(f"systemctl -q is-active {unit}" for unit in layout.RESOLVER_UNITS.values())
        return asked(
            f'[ -n "$(ip -o link show dev {layout.LINK} up 2>/dev/null)" ] && {{ {active}; }} &&'
            " vtysh -c 'show bgp summary established' 2>/dev/null | grep -q '^Neighbor' && echo serving; true"
        )

    def read(self, output: list[str]) -> bool:
        return "serving" in output


class SessionFact(ShellFact[str]):
    """`frr_config.session_digest` of the running configuration: a digest, because pyinfra may print what facts read."""

    @staticmethod
    def default() -> str:
        return ""

    def command(self) -> StringCommand:
        return asked(
            "vtysh -c 'show running-config' 2>/dev/null"
            f" | grep -E {shlex.quote(frr_config.SESSION_LINES)} | LC_ALL=C sort | sha256sum | cut -d' ' -f1"
        )

    def read(self, output: list[str]) -> str:
        return "".join(output).strip()


class HasAddressFact(ShellFact[bool]):
    """Whether the machine has this address now; a rebuilt one may get another."""

    @staticmethod
    def default() -> bool:
        return False

    def command(self, address: str) -> StringCommand:
        return asked(f"ip -o address show | grep -qF 'inet {address}/' && echo yes; true")

    def read(self, output: list[str]) -> bool:
        return "yes" in output


class MachineFact(ShellFact[str]):
    """The machine whose programs run there natively (`x86_64`, `aarch64` …), by the ELF header of its shell."""

    def command(self) -> StringCommand:
        return asked(f"head -c {elf.HEADER_BYTES} /bin/sh | base64 -w0")

    def read(self, output: list[str]) -> str:
        try:
            return elf.machine(base64.b64decode("".join(output)))
        except (elf.NotElfError, binascii.Error) as error:
            raise FactProcessError(f"/bin/sh on the node is no program ({error})") from error


@dataclass(frozen=True)
class Migrated:
    """What AdGuard Home made of a copy of its file; `said` is its complaint where it could not."""

    ok: bool
    text: str = field(default="", repr=False)
    said: str = ""


class MigratedFact(ShellFact[Migrated]):
    """AdGuard Home's file as `program` brings it to its own schema, on a copy: `--check-config` migrates in place."""

    def command(self, program: str) -> StringCommand:
        check = f"{program} --check-config --no-check-update -c $d/AdGuardHome.yaml -w $d"
        return asked(
            "d=$(mktemp -d) && trap 'rm -rf $d' EXIT"
            f" && chmod 755 {program} && cp {layout.ADGUARD_CONFIG} $d/AdGuardHome.yaml"
            f" && {{ said=$({check} 2>&1) && echo ok || echo refused; }}"
            " && printf '%s' \"$said\" | base64 -w0 && echo && base64 -w0 $d/AdGuardHome.yaml"
        )

    def read(self, output: list[str]) -> Migrated:
        try:
            word, said, text = (*output, "")[:3]
        except ValueError as error:
            raise FactProcessError("AdGuard Home's file could not be copied on the node") from error
        return Migrated(word == "ok", _decoded(text), _decoded(said))


class ContentFact(ShellFact[dict[str, str]]):
    """Text of files, by path; unreadable ones are left out. For showing differences."""

    @staticmethod
    def default() -> dict[str, str]:
        return {}

    def command(self, paths: Iterable[str]) -> StringCommand:
        return asked(
            f"for f in {shlex.join(paths)}; do [ ! -r $f ] || printf '%s\\t%s\\n' $f \"$(base64 -w0 $f)\"; done"
        )

    def read(self, output: list[str]) -> dict[str, str]:
        return {path: _decoded(text) for path, _, text in (line.partition("\t") for line in output)}


# Octets of a record of ours: the one of what was on the node before has a line per file. One more is read, to see more.
_MOST_RECORD: Final = 1 << 20
_MOST_READ: Final = _MOST_RECORD + 1
# Octets of AdGuard Home's file, which a person may have filled: ten thousand rules and rewrites are one megabyte.
_MOST_ADGUARD: Final = 8 << 20
_UNIT_PROPERTIES: Final = "Id,ActiveState,UnitFileState,LoadState,NeedDaemonReload"


def script(paths: tuple[str, ...], units: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """The shell script; each line of its output is `KEY<tab>VALUE`."""
    files, names, wanted = shlex.join(paths), shlex.join(units), shlex.join(packages)
    return f"""\
say() {{ printf '%s\\t%s\\n' "$1" "$2"; }}
one() {{ v=; {{ IFS= read -r v < "$2"; }} 2>/dev/null; say "$1" "$v"; }}
b64() {{ base64 -w0 2>/dev/null; }}
say present 1
say uid "$(id -u)"
one hostname /proc/sys/kernel/hostname
one ipv4_forwarding /proc/sys/net/ipv4/ip_forward
one ipv6_forwarding /proc/sys/net/ipv6/conf/all/forwarding
say frr_own "$(grep -Ex {shlex.quote(frr_config.MACHINES_OWN)} {layout.FRR_CONFIG} 2>/dev/null | b64)"
one kernel_arch /proc/sys/kernel/arch
one modalias /sys/devices/system/cpu/modalias
say cpuinfo "$(grep -m3 -E '^(vendor_id|CPU implementer|isa)' /proc/cpuinfo 2>/dev/null | b64)"
say elf "$(head -c {elf.HEADER_BYTES} /bin/sh | b64)"
stat --printf 'stat\\t%a %U %G %n\\n' -- {files} 2>/dev/null
sha256sum -- {files} 2>/dev/null | while read -r sum path; do say sha256 "$sum $path"; done
systemctl show -p {_UNIT_PROPERTIES} {names} 2>/dev/null | while IFS= read -r line; do say unit "$line"; done
dpkg-query -W -f='package\\t${{Package}} ${{db:Status-Status}}\\n' {wanted} 2>/dev/null
ip -o link show dev {layout.LINK} up 2>/dev/null | while read -r _; do say link up; done
ip -o address show dev {layout.LINK} 2>/dev/null | while read -r _ _ _ a _; do say prefix "$a"; done
{{ ip -4 rule; ip -6 rule; }} 2>/dev/null | grep '^{layout.RULE_PRIORITY}:' | while read -r _ r; do say rule "$r"; done
{{ ip -4 route show default table {layout.ROUTING_TABLE}; ip -6 route show default table {layout.ROUTING_TABLE};
}} 2>/dev/null | while read -r _ _ gateway _ interface _; do say way "$gateway $interface"; done
ip -o -4 address show 2>/dev/null | while read -r _ i _ a _; do say address "$i $a"; done
for i in /sys/class/net/*; do [ ! -d "$i" ] || say interface "${{i##*/}}"; done
[ ! -e {layout.DRAINED} ] || say drained "$(head -c 200 {layout.DRAINED} | head -n1)"
[ ! -e {layout.ORIGINALS_INDEX} ] || say originals "$(head -c {_MOST_READ} {layout.ORIGINALS_INDEX} | b64)"
[ ! -e {layout.APPLIED} ] || say applied "$(head -c {_MOST_READ} {layout.APPLIED} | b64)"
[ ! -e {layout.ADGUARD_CONFIG} ] || say adguard "$(head -c {_MOST_ADGUARD + 1} {layout.ADGUARD_CONFIG} | b64)"
{ports.script()}
say running "$(vtysh -c 'show running-config' 2>/dev/null | b64)"
true"""


_MANY: Final = (
    "stat",
    "sha256",
    "unit",
    "package",
    "prefix",
    "rule",
    "link",
    "socket",
    "holder",
    "way",
    "interface",
    "address",
)


def parse(lines: list[str]) -> NodeState:
    """What the script printed. Raises ValueError or KeyError for anything else."""
    one: dict[str, str] = {}
    many: dict[str, list[str]] = {key: [] for key in _MANY}
    for line in lines:
        key, tab, value = line.partition("\t")
        if not tab:
            continue
        if key in many:
            many[key].append(value)
        else:
            one[key] = value
    if one.get("present") != "1":
        return NodeState()
    applied = _record(one["applied"], layout.APPLIED) if "applied" in one else {}
    return NodeState(
        present=True,
        hostname=one["hostname"],
        # Empty where the kernel has no IPv6: FRR then says nothing of its forwarding, as where it is on.
        ipv4_forwarding=one["ipv4_forwarding"] != "0",
        ipv6_forwarding=one["ipv6_forwarding"] != "0",
        frr_own=_decoded(one.get("frr_own", "")),
        evidence=_evidence(one),
        files=_files(many["stat"], many["sha256"]),
        units=_units(many["unit"]),
        packages=frozenset(
            name for name, _, status in (entry.partition(" ") for entry in many["package"]) if status == "installed"
        ),
        link_up=bool(many["link"]),
        link_prefixes=tuple(many["prefix"]),
        rules=tuple(many["rule"]),
        ways=tuple(many["way"]),
        interfaces=frozenset(many["interface"]),
        addresses=tuple((words[0], words[-1]) for words in map(str.split, many["address"])),
        drained_by=one.get("drained"),
        applied={str(key): str(value) for key, value in applied.items()},
        root=one.get("uid", "0") == "0",
        originals=_record(one["originals"], layout.ORIGINALS_INDEX) if "originals" in one else {},
        held=ports.parse(many["socket"], many["holder"]),
        adguard_yaml=_adguard(one["adguard"]) if "adguard" in one else None,
        running_config=_decoded(one.get("running", "")),
    )


def _record(encoded: str, path: str) -> dict[str, Any]:
    """What we wrote down on the node. One that says nothing is damaged, which is not as if there were none."""
    try:
        found = stored.parse_json(_decoded(encoded), _MOST_RECORD)
    except stored.Damaged as error:
        raise stored.Damaged(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict) or not found:
        raise stored.Damaged(f"{path} is damaged: it is {stored.shown(found) if found else 'empty'}")
    return found


def _adguard(encoded: str) -> str:
    """AdGuard Home's file; half of one would be merged into a file without the rest."""
    text = _decoded(encoded)
    if len(text) > _MOST_ADGUARD:
        raise stored.Damaged(f"{layout.ADGUARD_CONFIG} is damaged: it is larger than {_MOST_ADGUARD >> 20} MiB")
    return text


def _evidence(one: Mapping[str, str]) -> Evidence:
    kernel = architecture.kernel_machine(
        one.get("kernel_arch", ""), one.get("modalias", ""), _decoded(one.get("cpuinfo", ""))
    )
    try:
        userland = elf.machine(base64.b64decode(one["elf"]))
    except (elf.NotElfError, binascii.Error):
        userland = None
    return Evidence(kernel, userland)


def _files(stats: list[str], sums: list[str]) -> dict[str, FileState]:
    digest_of = {path: digest for digest, _, path in (entry.partition(" ") for entry in sums)}
    found = {}
    for entry in stats:
        mode, owner, group, path = entry.split(" ", 3)
        found[path] = FileState(int(mode, 8), owner, group, digest_of.get(path, ""))
    return found


def _units(lines: list[str]) -> dict[str, UnitState]:
    found: dict[str, UnitState] = {}
    block: dict[str, Any] = {}
    for line in [*lines, ""]:
        if line:
            key, _, value = line.partition("=")
            block[key] = value
        elif block:
            found[block["Id"]] = UnitState(
                active=block["ActiveState"],
                enabled=block["UnitFileState"],
                loaded=block["LoadState"],
                needs_reload=block["NeedDaemonReload"] == "yes",
            )
            block = {}
    return found


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace")
