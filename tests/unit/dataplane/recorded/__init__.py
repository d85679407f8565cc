"""What a lab's router said: BIRD 2.17.6 on its control socket and `ip` beside it. Neighbours are FRR 10.3.

`bird-up.txt`: three IPv4 neighbours and three IPv6 ones (one of the own AS) with ECMP, and one that never answered.
`bird-killed.txt`: 2 s after node02 lost its power, without ECMP.
"""

from __future__ import annotations

from pathlib import Path

from anycastlab.virtual_router.dataplane.bird_control import decode
from anycastlab.virtual_router.dataplane.bird_look import COMMANDS, Texts


def sections(name: str) -> dict[str, list[str]]:
    """Lines by what was asked."""
    found: dict[str, list[str]] = {}
    asked = "greeting"
    for line in Path(__file__).with_name(f"bird-{name}.txt").read_text().splitlines():
        if line.startswith(">>> "):
            asked = line.removeprefix(">>> ")
        else:
            found.setdefault(asked, []).append(line)
    return found


def texts(name: str) -> Texts:
    said = sections(name)
    protocols, bfd, routes = (decode(said[command]).text for command in COMMANDS)
    return Texts(protocols, bfd, routes, "".join(said["ip4"]), "".join(said["ip6"]))
