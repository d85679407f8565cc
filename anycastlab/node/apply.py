"""A plan as the program that carries it out on the node: the agent's source with its order appended. Pure."""

from __future__ import annotations

import base64
import json
from functools import cache
from importlib import resources
from typing import Any, Final

from anycastlab.node import layout, timing
from anycastlab.node.agent import FRESH
from anycastlab.node.managed import ManagedFile
from anycastlab.node.plan import Plan
from anycastlab.site import Node, Site

# Where a program waits until it may replace the present one; the same folder, so that the move is atomic.
STAGED_PROGRAM: Final = f"{layout.ADGUARD_PROGRAM}{FRESH}"
DNS_PORT: Final = 53


def order(site: Site, node: Node, plan: Plan, must_serve: bool = False, waits: bool = True) -> dict[str, Any]:
    """What the agent is told, as JSON values."""
    return {
        "name": node.name,
        "files": [_file(file) for file in plan.files],
        "folders": list(layout.FOLDERS),
        "folder_mode": layout.FOLDER_MODE,
        "adguard": _file(plan.adguard) if plan.adguard else None,
        "adguard_program": layout.ADGUARD_PROGRAM,
        "program": (
            {"staged": STAGED_PROGRAM, "path": plan.program.path, "sha256": plan.program.sha256}
            if plan.program
            else None
        ),
        "effects": list(plan.effects),
        "daemon_reload": plan.daemon_reload,
        "disable": list(plan.disable),
        "enable": list(plan.enable),
        "restart": list(plan.restart),
        "start": list(plan.start),
        "resume": plan.resume,
        "interrupts": plan.interrupts,
        "must_serve": must_serve,
        "waits": waits,
        "stamps": dict(plan.stamps) if plan.write_stamps else None,
        "applied": layout.APPLIED,
        "sysctl_config": layout.SYSCTL_CONFIG,
        "drained": layout.DRAINED,
        "drained_by": layout.DRAINED_BY_DEPLOY,
        "link": layout.LINK,
        "prefix": str(site.service.prefix),
        "neighbors": [str(node.gateway)],
        "frr_unit": layout.FRR_UNIT,
        "resolved_unit": layout.RESOLVED_UNIT,
        "frr_config": layout.FRR_CONFIG,
        "frr_reload": layout.FRR_RELOAD,
        "resolver": {
            "unit": layout.resolver_unit(node.resolver),
            "address": str(node.address),
            "port": DNS_PORT,
            "name": site.service.identity_name,
            "answer": node.name,
            "wait": layout.resolver_unit(node.resolver) in (*plan.restart, *plan.start) or plan.resume,
        },
        "limits": {
            "withdrawn_s": timing.WITHDRAWN_S,
            "route_gone_s": timing.ROUTE_GONE_LIMIT_S,
            "first_answer_s": timing.FIRST_ANSWER_LIMIT_S,
            "link_up_s": timing.LINK_UP_LIMIT_S,
            "announced_s": timing.ANNOUNCED_LIMIT_S,
            "query_s": timing.QUERY_TIMEOUT_S,
            "poll_s": timing.POLL_S,
            "command_s": timing.COMMAND_LIMIT_S,
        },
    }


def program(site: Site, node: Node, plan: Plan, must_serve: bool = False, waits: bool = True) -> str:
    """The whole program, for `python3 -I -` on the node's standard input. Holds secrets: never in argv or a log."""
    return standalone(_agent(), order(site, node, plan, must_serve, waits))


def rehearsal(site: Site, node: Node, plan: Plan) -> str:
    """The whole program that has the daemons of the present machine check what its replacement would get."""
    return standalone(_agent(), {**order(site, node, plan), "rehearsal": True})


def standalone(source: str, order: dict[str, Any]) -> str:
    """A program that carries out `order`: the source of a module with `main(order) -> int`, the order appended."""
    encoded = base64.b64encode(json.dumps(order).encode()).decode()
    lines = "\n".join(f'    "{encoded[at : at + 100]}"' for at in range(0, len(encoded), 100))
    return f"{source}\n\nimport base64\n\nORDER = (\n{lines}\n)\nsys.exit(main(json.loads(base64.b64decode(ORDER))))\n"


@cache
def _agent() -> str:
    return resources.files("anycastlab.node").joinpath("agent.py").read_text(encoding="utf-8")


def _file(file: ManagedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "content": base64.b64encode(file.content).decode(),
        "owner": file.owner,
        "group": file.group,
        "mode": file.mode,
        "check": list(file.check) if file.check else None,
    }
