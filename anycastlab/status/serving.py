"""A pyinfra operation that changes nothing: this node is announced to the router, or the run has failed.

A no-op for a node that is announced already, and for one that a person drained. A new node needs a few seconds after
its set-up: BGP connects, the probe makes sure, the router takes the route.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Generator
from typing import Any

from pyinfra import context, host
from pyinfra.api import FunctionCommand, StringCommand, operation

from anycastlab.node import layout
from anycastlab.shell_fact import ShellFact, asked
from anycastlab.site import Node, Site
from anycastlab.status.check import complaints_of, failed
from anycastlab.stored import parse_json

# Seconds: FRR's first announcement takes 5 after a start, a session that met a restarting router up to 15 more.
ANNOUNCED_LIMIT_S = 45.0
POLL_S = 0.5


class AnnouncedFact(ShellFact[bool]):
    """Whether the node announces `prefix` to `neighbor`, or is drained by a person's wish."""

    @staticmethod
    def default() -> bool:
        return False

    def command(self, neighbor: str, prefix: str) -> StringCommand:
        show = shlex.quote(f"show bgp ipv4 unicast neighbors {neighbor} advertised-routes json")
        return asked(
            f'case "$(head -n1 {layout.DRAINED} 2>/dev/null)" in'
            f' ""|{layout.DRAINED_BY_DEPLOY}) ;; *) echo drained;; esac;'
            f" echo {shlex.quote(prefix)}; vtysh -c {show} 2>/dev/null; true"
        )

    def read(self, output: list[str]) -> bool:
        if output[:1] == ["drained"]:
            return True
        prefix, document = output[0], "".join(output[1:])
        try:
            return prefix in parse_json(document).get("advertisedRoutes", {})
        except ValueError:
            return False


@operation()
def announced(site: Site, node: Node) -> Generator[FunctionCommand, None, None]:
    """The node announces the service address to the router."""
    if not context.state.is_executing:
        return  # what is planned may not be there yet, and a check is no change
    if _announced(context.host, site, node):
        host.noop(f"{node.name} is announced")
        return
    yield FunctionCommand(_wait, (site, node), {})


def _announced(machine: Any, site: Site, node: Node) -> bool:
    return bool(machine.get_fact(AnnouncedFact, neighbor=str(node.gateway), prefix=str(site.service.prefix)))


# pyinfra passes `state` and `host`, and heeds the answer, only for a function with parameters of these names.
def _wait(state: Any, host: Any, site: Site, node: Node) -> bool:  # noqa: ARG001
    end = time.monotonic() + ANNOUNCED_LIMIT_S
    while time.monotonic() < end:
        if _announced(host, site, node):
            return True
        time.sleep(POLL_S)
    sentence = f"{node.name} was not announced to the router within {ANNOUNCED_LIMIT_S:g} s."
    # A node that other machines do not reach waits for them.
    return failed(host, [sentence, *(complaints_of(site, node) or ["`anycastlab status` says more."])])
