"""FRR's configuration as a set of statements, to see whether the running one says what the file says. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

# What `show running-config` prints besides statements, and what says the same on every FRR.
_NOISE: Final = ("Building configuration", "Current configuration", "frr version", "end")
# What FRR reads from the kernel and never decides here: a machine that was renamed or began to forward is no drift.
# (A name that changed is shown twice, as the daemons know it and as vtysh does, until FRR is started again.)
# An extended regular expression of whole lines, as Python and grep read it.
MACHINES_OWN: Final = "(hostname|domainname) [^ ]+|(no )?ip(v6)? forwarding"


@dataclass(frozen=True)
class MachinesOwn:
    """What a configuration tells of its machine. FRR has no line for what forwards, one for what does not."""

    hostname: str = ""
    ipv4_forwarding: bool = True
    ipv6_forwarding: bool = True


def machines_own(text: str) -> MachinesOwn:
    """What the `MACHINES_OWN` lines of `text` tell."""
    lines = text.splitlines()
    names = [line.partition(" ")[2] for line in lines if line.startswith("hostname ")]
    return MachinesOwn(names[0] if names else "", "no ip forwarding" not in lines, "no ipv6 forwarding" not in lines)


def statements(text: str) -> frozenset[tuple[str, str]]:
    """(enclosing block, statement) of every line that means something, whatever their order."""
    found: set[tuple[str, str]] = set()
    blocks: list[tuple[int, str]] = []
    for line in text.splitlines():
        body = line.strip()
        if not body or body == "!" or body.startswith(_NOISE) or body in ("exit", "exit-address-family"):
            continue
        if re.fullmatch(MACHINES_OWN, line):
            continue
        indent = len(line) - len(line.lstrip())
        while blocks and blocks[-1][0] >= indent:
            blocks.pop()
        found.add((" / ".join(block for _, block in blocks), body))
        blocks.append((indent, body))
    return frozenset(found)


# What both ends of a session must agree about, as grep and Python read it: AS numbers and key. Of the IPv4 session: an
# IPv6 one that comes or goes leaves the household's IPv4 answers as they are.
SESSION_LINES: Final = "^router bgp |^ neighbor [0-9.]+ (remote-as|password) "


def session_digest(text: str) -> str:
    """SHA-256 of the lines that both ends must agree about, sorted; no key ever leaves a machine to be compared."""
    lines = sorted(line for line in text.splitlines() if re.match(SESSION_LINES, line))
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def agrees(running: str, wanted: str) -> bool:
    """Whether the running configuration says exactly what the file says, the machine's own aside."""
    return statements(running) == statements(wanted)
