"""What has to happen on a node: the files it should have against the state it is in. Pure.

A unit is restarted when one of its files changes, and also when the stamp of what it was last started with
(`layout.APPLIED`, written after a restart) differs: so a run that died between writing and restarting is made good by
the next one. Digests and not times are compared, because a board without a clock starts in the past.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from anycastlab.node import adguard_yaml, frr_config, layout
from anycastlab.node.facts import FileState, NodeState
from anycastlab.node.managed import Effect, ManagedFile

# Started in this order where several have to.
_START_ORDER = (
    layout.NETWORKD_UNIT, layout.LINK_UNIT, layout.WEB_UNIT, layout.FRR_UNIT, *layout.RESOLVER_UNITS.values(),
    layout.ESCALATE_UNIT, layout.PROBE_UNIT,
)  # fmt: skip
# FRR's running configuration is looked at itself.
_STAMPED_EFFECTS: tuple[Effect, ...] = ("sysusers", "sysctl", "networkd-reload", "resolved-restart")


@dataclass(frozen=True)
class Program:
    """The resolver program a node should have. `sha256` None: not obtained yet, as in a dry run."""

    version: str
    sha256: str | None
    path: str = layout.ADGUARD_PROGRAM


@dataclass(frozen=True)
class Wanted:
    """A node as it should be."""

    name: str
    files: tuple[ManagedFile, ...]
    units: tuple[str, ...]  # enabled and running
    unwanted_units: tuple[str, ...]
    packages: tuple[str, ...]
    program: Program | None = None
    adguard: adguard_yaml.Document | None = field(default=None, repr=False)
    link_prefixes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()  # as `NodeState.ways`


@dataclass(frozen=True)
class Plan:
    """The steps that make a node as wanted. Empty (`changes` False) when it already is."""

    packages: tuple[str, ...] = ()
    files: tuple[ManagedFile, ...] = ()
    adguard: ManagedFile | None = None
    older_schema: int | None = None  # of AdGuard Home's file: its own program must migrate a copy before ours is merged
    program: Program | None = None
    effects: tuple[Effect, ...] = ()
    daemon_reload: bool = False
    disable: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    resume: bool = False
    stamps: Mapping[str, str] = field(default_factory=dict)
    write_stamps: bool = False
    reasons: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        return bool(self.reasons)

    @property
    def interrupts(self) -> bool:
        """Whether something that serves is stopped on the way; then the node withdraws first."""
        quiet = {layout.NETWORKD_UNIT, layout.ESCALATE_UNIT, layout.OWN_RESOLVER_UNIT, layout.WEB_UNIT}
        return bool({*self.restart, *self.disable} - quiet)


def make(
    wanted: Wanted, state: NodeState, passwords: adguard_yaml.Passwords, migrated: adguard_yaml.Document | None = None
) -> Plan:
    """The steps from `state` to `wanted`. Raises ResolverError for an AdGuard Home file of a newer schema.

    `migrated` is the node's AdGuard Home file as the program brought it to the present schema; a plan with an
    `older_schema` must not be carried out without.
    """
    reasons: list[str] = []
    missing = tuple(package for package in wanted.packages if package not in state.packages)
    reasons += [f"install {package}" for package in missing]
    changed = tuple(file for file in wanted.files if not is_same(file, state.files.get(file.path)))
    reasons += [f"{'change' if file.path in state.files else 'create'} {file.path}" for file in changed]
    older = _older_schema(wanted, state)
    reasons += [f"open {folder} to the daemons that read there" for folder in _shut_folders(state)]
    yaml_file, differences = _adguard(wanted, state, passwords, migrated)
    if older is not None:
        reasons.append(
            f"migrate {layout.ADGUARD_CONFIG} from schema {older}: the new AdGuard Home does that on a copy, then our"
            " settings are merged into it"
        )
    reasons += [f"change {layout.ADGUARD_CONFIG}: {difference}" for difference in differences]
    program = _program(wanted, state)
    if program:
        reasons.append(f"install AdGuard Home {program.version}")

    stamps = _stamps(wanted, state)
    restart = {unit for file in changed for unit in file.restarts}
    resolver = next((unit for unit in layout.RESOLVER_UNITS.values() if unit in wanted.units), None)
    if resolver and (yaml_file or program):
        restart.add(resolver)
    for unit in wanted.units:
        if unit in stamps and unit not in restart and state.applied.get(unit) != stamps[unit]:
            # Files are right, but the unit was not started with them as far as we know.
            restart.add(unit)
            reasons.append(f"restart {unit}: it was not started with its present files")
    if layout.LINK_UNIT not in restart and state.present and not _link_is_right(wanted, state):
        restart.add(layout.LINK_UNIT)
        reasons.append(f"restart {layout.LINK_UNIT}: the link or its rule is not as it should be")
    if layout.LINK_UNIT not in restart and state.present and sorted(state.ways) != sorted(wanted.ways):
        restart.add(layout.LINK_UNIT)
        reasons.append(
            f"restart {layout.LINK_UNIT}: replies leave by {_way(state.ways)} (routing table {layout.ROUTING_TABLE}), "
            f"not by {_way(wanted.ways)}"
        )
    if not state.unit(layout.NETWORKD_UNIT).running:
        restart.discard(layout.NETWORKD_UNIT)  # a machine that does its network otherwise

    effects: set[Effect] = {effect for file in changed for effect in file.effects}
    for effect in _STAMPED_EFFECTS:
        if effect not in effects and effect in stamps and state.applied.get(effect) != stamps[effect]:
            effects.add(effect)
            reasons.append(f"apply {effect}: its present files were not applied yet")
    if "frr-reload" not in effects and layout.FRR_UNIT not in restart and state.unit(layout.FRR_UNIT).running:
        config = next((file for file in wanted.files if file.path == layout.FRR_CONFIG), None)
        if config and not frr_config.agrees(state.running_config, config.content.decode()):
            effects.add("frr-reload")
            reasons.append("reload FRR: it does not run what its file says")
    if "frr-reload" in effects and (layout.FRR_UNIT in restart or not state.unit(layout.FRR_UNIT).running):
        effects.discard("frr-reload")
        restart.add(layout.FRR_UNIT)

    start = tuple(unit for unit in wanted.units if not state.unit(unit).running and unit not in restart)
    reasons += [f"start {unit}" for unit in start if not any(unit in reason for reason in reasons)]
    enable = tuple(unit for unit in wanted.units if state.unit(unit).enabled != "enabled")
    reasons += [f"enable {unit}" for unit in enable]
    disable = _disable(wanted, state)
    reasons += [f"disable {unit}" for unit in disable]
    reload = any(file.is_unit for file in changed) or any(state.unit(unit).needs_reload for unit in wanted.units)
    if reload and not any(file.is_unit for file in changed):
        reasons.append("have systemd reread its units")
    resume = state.drained_by is not None and not layout.asked_for(state.drained_by)
    if resume:
        reasons.append("resume: an earlier deploy took this node out of service and did not finish")
    return Plan(
        packages=missing,
        files=changed,
        adguard=yaml_file,
        older_schema=older,
        program=program,
        effects=tuple(sorted(effects)),
        daemon_reload=reload,
        disable=disable,
        enable=enable,
        restart=_ordered(restart),
        start=_ordered(start),
        resume=resume,
        stamps=stamps,
        write_stamps=dict(state.applied) != stamps,
        reasons=tuple(reasons),
    )


def _disable(wanted: Wanted, state: NodeState) -> tuple[str, ...]:
    """Units that are in the way. A resolver is so only if an earlier deploy started it: a person's own holds no port
    of ours (`ports.require_free` would have said so), and may be somebody's upstream on another one."""

    def is_on(unit: str) -> bool:
        return state.unit(unit).running or state.unit(unit).enabled in ("enabled", "enabled-runtime")

    ours = {*started(state), layout.WEB_UNIT}
    found = [unit for unit in wanted.unwanted_units if is_on(unit) and unit in ours]
    own = layout.OWN_RESOLVER_UNIT
    unbound = layout.RESOLVER_UNITS["unbound"]
    comes = unbound in wanted.units and "unbound" in wanted.packages and "unbound" not in state.packages
    if state.unit(own).running or (unbound in wanted.units and is_on(own)) or (state.present and comes):
        found.append(own)
    return tuple(found)


def started(state: NodeState) -> frozenset[str]:
    """Units of resolvers that this machine's deploys have started, by their stamps and by whose program runs."""
    kept = state.originals.get("files", {})
    found = {unit for unit in layout.RESOLVER_UNITS.values() if unit in state.applied}
    found |= {holder.unit for holder in state.held if holder.is_our_adguard}
    if layout.UNBOUND_CONFIG in kept and state.applied == {}:
        found.add(layout.RESOLVER_UNITS["unbound"])  # a first deploy that was cut off before its stamp
    return frozenset(found)


def is_same(file: ManagedFile, state: FileState | None) -> bool:
    """Whether the file lies there with that content, owner and mode."""
    return state == FileState(file.mode, file.owner, file.group, file.sha256)


def _older_schema(wanted: Wanted, state: NodeState) -> int | None:
    if wanted.adguard is None or not state.adguard_yaml:
        return None
    found = adguard_yaml.schema(adguard_yaml.parse(state.adguard_yaml))
    return found if found is not None and found < wanted.adguard["schema_version"] else None


def _adguard(
    wanted: Wanted, state: NodeState, passwords: adguard_yaml.Passwords, migrated: adguard_yaml.Document | None
) -> tuple[ManagedFile | None, list[str]]:
    if wanted.adguard is None:
        return None, []
    actual = migrated
    if actual is None:
        actual = adguard_yaml.parse(state.adguard_yaml) if state.adguard_yaml else {}
    merged = adguard_yaml.merge(actual, wanted.adguard, passwords)  # refuses a newer schema even when nothing differs
    found = adguard_yaml.differences(actual, wanted.adguard, passwords)
    if not found and migrated is None:
        return None, []
    file = ManagedFile(
        layout.ADGUARD_CONFIG,
        adguard_yaml.dump(merged).encode(),
        owner=layout.ADGUARD_USER,
        group=layout.ADGUARD_USER,
        mode=0o600,
        secret=True,
    )
    return file, [difference.show() for difference in found]


def _program(wanted: Wanted, state: NodeState) -> Program | None:
    """The program to install, or None if the right one is there.

    Where it is not known what the right bytes are, the node's own stamp counts: this version, and unchanged since.
    """
    program = wanted.program
    if program is None:
        return None
    have = state.files.get(program.path)
    if have is None or have.mode != 0o755 or (have.owner, have.group) != ("root", "root"):
        return program
    if program.sha256 is not None:
        return None if have.sha256 == program.sha256 else program
    return None if state.applied.get("program") == f"{program.version} {have.sha256}" else program


def _stamps(wanted: Wanted, state: NodeState) -> dict[str, str]:
    """What each unit is started with, and each effect was brought about with, as a digest of the files behind it."""
    stamps: dict[str, str] = {}
    for unit in wanted.units:
        if files := [file for file in wanted.files if unit in file.restarts]:
            stamps[unit] = _digest(files)
    for effect in _STAMPED_EFFECTS:
        if files := [file for file in wanted.files if effect in file.effects]:
            stamps[effect] = _digest(files)
    if wanted.program:
        known = wanted.program.sha256
        stamps["program"] = f"{wanted.program.version} {known}" if known else state.applied.get("program", "")
    return stamps


def _digest(files: list[ManagedFile]) -> str:
    return hashlib.sha256("\n".join(f"{file.path} {file.sha256}" for file in files).encode()).hexdigest()


def _way(ways: tuple[str, ...]) -> str:
    return " and ".join(sorted(ways)) or "no route"


def _shut_folders(state: NodeState) -> list[str]:
    found = {path: state.files[path].mode for path in layout.FOLDERS if path in state.files}
    return [path for path, mode in found.items() if mode & layout.FOLDER_MODE != layout.FOLDER_MODE]


def _link_is_right(wanted: Wanted, state: NodeState) -> bool:
    return set(state.link_prefixes) == set(wanted.link_prefixes) and sorted(state.rules) == sorted(wanted.rules)


def _ordered(units: set[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(units, key=lambda unit: (_START_ORDER.index(unit) if unit in _START_ORDER else 99, unit)))
