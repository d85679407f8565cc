"""The way back on a machine that outlives us: withdrawn, stopped, our files gone, what was there before given back.

What was there before stands in the record that the first deploy made on the machine (see `keep`). Packages stay, and so
does everything that is not ours. The record goes last: a removal that died half-way is finished by the next one.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from pyinfra import context
from pyinfra.api import FunctionCommand, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from anycastlab import tell
from anycastlab.errors import AnycastlabError
from anycastlab.node import facts, keep, layout, operations, timing
from anycastlab.node.agent import FRESH
from anycastlab.node.facts import NodeState
from anycastlab.node.keep import Record, Unit
from anycastlab.site import Node, Service, Site

# Ours alone, in the order they are stopped in: whoever could raise the link first.
_OUR_UNITS: Final = (
    layout.PROBE_UNIT, layout.ESCALATE_UNIT, layout.RESOLVER_UNITS["adguardhome"], layout.WEB_UNIT,
    layout.LINK_UNIT,
)  # fmt: skip
_RUN: Final = "/run/anycastlab"
# Folder or file of ours → who reads it.
_READERS: Final = (
    ("/etc/systemd/networkd.conf.d/", layout.NETWORKD_UNIT),
    (layout.RESOLVED_CONFIG, layout.RESOLVED_UNIT),
)


@dataclass(frozen=True)
class Removal:
    """What leaves a machine and what comes back. Empty (`changes` False) where nothing of ours is left."""

    link: bool = False
    stop: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()  # made by us; removed if empty, the innermost first
    trees: tuple[str, ...] = ()  # state of ours
    units: tuple[tuple[str, Unit], ...] = ()  # the distribution's, put back
    users: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    restarts: tuple[str, ...] = ()
    """Services that read one of our files; also where a removal that was killed has taken the file away already."""

    @property
    def changes(self) -> bool:
        return bool(self.link or self.stop or self.delete or self.restore or self.trees)

    def lines(self) -> list[str]:
        """Everything that happens, for a person."""
        return [
            *(f"- service {unit}" for unit in self.stop),
            *([f"- link {layout.LINK}, its rule and routing table {layout.ROUTING_TABLE}"] if self.link else []),
            *(f"- {path}" for path in (*self.delete, *self.trees)),
            *(f"~ {path} as it was before" for path in self.restore),
            *(f"~ service {name} {_words(unit)}, as it was before" for name, unit in self.units),
            *(f"~ {key} = {value}, as it was before" for key, value in self.settings),
            *(f"- user {user}" for user in self.users),
        ]


@operation()
def removed(site: Site, node: Node) -> Generator[PyinfraCommand, None, None]:
    """`node` is as it was before the first deploy, packages and logs aside. Shows the list under `--diff`."""
    paths = keep.paths(node, operations.render_names(site, node))
    state = context.host.get_fact(
        facts.NodeFact, paths=tuple(paths), units=layout.UNITS, packages=layout.packages(node.resolver)
    )
    try:
        if not state.present and node.platform == "ssh":
            raise operations.answered_nothing(node)
        if state.present:
            operations.require_root(node, state)
        removal = plan(state, keep.parse(state.originals), paths)
    except AnycastlabError as error:
        if not context.state.is_executing:
            raise  # before anything ran: the whole run ends here
        yield FunctionCommand(operations.fail, [str(error)], {})
        return
    if not removal.changes:
        context.host.noop(f"nothing of anycastlab is on {node.name}")
        return
    tell.change("remove what is ours", removal.lines)
    yield StringCommand(script(node, site.service, removal), _timeout=timing.CONFIGURE_LIMIT_S)


def plan(state: NodeState, record: Record, paths: list[str]) -> Removal:
    """What to do on a machine in `state`; `paths` are those a deploy writes now. Pure.

    A file of the distribution's name without a record is not ours to judge and stays.
    """
    distributions = (layout.FRR_CONFIG, layout.FRR_DAEMONS, layout.UNBOUND_CONFIG)
    # A record may name files of a resolver that the node had earlier.
    looked_at = {*paths}
    ours = [path for path in paths if path in state.files and path not in record.files and path not in distributions]
    ours += [
        path for path, there in record.files.items() if not there and (path in state.files or path not in looked_at)
    ]
    restore = tuple(path for path, there in record.files.items() if there)
    link = bool(state.link_prefixes or state.rules or state.link_up)
    trees = []
    if record.files or state.applied or state.drained_by is not None:
        trees = [_RUN, layout.STATE]
        if not record.files.get(layout.ADGUARD_CONFIG, True):
            trees.insert(0, layout.ADGUARD_STATE)
    return Removal(
        link=link,
        stop=tuple(unit for unit in _OUR_UNITS if _file_of(unit) in (*ours, *restore)),
        delete=tuple(ours),
        restore=restore,
        folders=tuple(sorted(record.folders, key=lambda folder: (-folder.count("/"), folder))),
        trees=tuple(trees),
        # Not those that we brought, only the distribution's and what a person had under the same name.
        units=tuple(
            (name, unit)
            for name, unit in record.units.items()
            if record.files.get(_file_of(name), True) and not _untouched(name, unit, state, record)
        ),
        users=tuple(user for user, there in record.users.items() if not there),
        settings=tuple((key, value) for key, value in record.settings.items() if value is not None),
        restarts=tuple(
            unit for place, unit in _READERS if any(path.startswith(place) for path in (*ours, *record.files))
        ),
    )


def script(node: Node, service: Service, removal: Removal) -> str:
    """The shell commands of a removal. Every step may be repeated, and the first that fails ends it with a sentence."""
    lines = [
        f'must() {{ said=$("$@" 2>&1) || {{ echo "{node.name}: \\`$*\\` failed: $said" >&2; exit 1; }}; }}',
        f"if ip link show dev {layout.LINK} >/dev/null 2>&1; then",
        operations.withdraw_script(node, service),
        "fi",
        *(f"must systemctl disable --now -q {unit}" for unit in removal.stop),
        f"! ip link show dev {layout.LINK} >/dev/null 2>&1 || must ip link del {layout.LINK}",
    ]
    for family in ("-4", "-6"):
        lines.append(f"while ip {family} rule del priority {layout.RULE_PRIORITY} 2>/dev/null; do :; done")
        lines.append(f"ip {family} route flush table {layout.ROUTING_TABLE} 2>/dev/null || true")
    # A service that is to have its own files back must not run with ours meanwhile.
    lines += [f"systemctl stop -q {name} 2>/dev/null || true" for name, _ in removal.units]
    for path in map(shlex.quote, removal.restore):
        lines.append(f"must cp -a {layout.ORIGINALS}{path} {path}{FRESH}")
        lines.append(f"must mv -fT {path}{FRESH} {path}")
    lines += [f"must rm -f -- {shlex.quote(path)}" for path in removal.delete]
    # What a deploy that was killed had written beside them.
    beside = [shlex.quote(f"{path}{FRESH}") for path in (*removal.delete, *removal.restore)]
    lines += [f"must rm -f -- {' '.join(beside)}"] if beside else []
    lines.append("must systemctl daemon-reload")
    # Not every machine has each of them.
    lines += [f"! systemctl cat -- {it} >/dev/null 2>&1 || must systemctl try-restart {it}" for it in removal.restarts]
    lines += [f"sysctl -qw {shlex.quote(f'{key}={value}')} 2>/dev/null || true" for key, value in removal.settings]
    for name, unit in removal.units:
        if unit.enabled or unit.active:
            lines.append(f"systemctl reset-failed {name} 2>/dev/null || true")
        # A unit whose package is not there can be neither.
        lines.append(f"if systemctl cat -- {name} >/dev/null 2>&1; then")
        lines.append(f"must systemctl {'enable' if unit.enabled else 'disable'} -q {name}")
        lines += [f"must systemctl start {name}"] if unit.active else []
        lines.append("fi")
    lines += [f"! getent passwd {user} >/dev/null || must userdel {user}" for user in removal.users]
    lines += [f"[ ! -d {folder} ] || rmdir --ignore-fail-on-non-empty {folder}" for folder in removal.folders]
    if removal.trees:
        lines.append(f"must rm -rf -- {' '.join(removal.trees)}")  # the record is in the last one
    return "\n".join(lines)


def _file_of(unit: str) -> str:
    return f"/etc/systemd/system/{unit}"


def _untouched(name: str, unit: Unit, state: NodeState, record: Record) -> bool:
    """Whether a service is as it was, with files that never were ours: a person's unbound on a port of its own."""
    files = {layout.FRR_UNIT: layout.FRR_CONFIG, layout.RESOLVER_UNITS["unbound"]: layout.UNBOUND_CONFIG}
    if name in files and files[name] in record.files:
        return False
    now = state.unit(name)
    return name in state.units and (now.enabled == "enabled", now.running) == (unit.enabled, unit.active)


def _words(unit: Unit) -> str:
    return f"{'enabled' if unit.enabled else 'disabled'} and {'running' if unit.active else 'stopped'}"
