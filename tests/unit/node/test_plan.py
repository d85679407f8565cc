"""What has to happen on a node, from every state it can be found in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from anycastlab.node import adguard_yaml, layout, plan, render
from anycastlab.node.errors import ResolverError
from anycastlab.node.facts import FileState, NodeState, UnitState
from anycastlab.node.plan import Plan, Program, Wanted
from tests.unit.node.homes import home

PASSWORDS = adguard_yaml.Passwords(lambda plain, hashed: hashed == f"#{plain}", lambda plain: f"#{plain}")
SITE = home()
ADGUARD_UNIT = layout.RESOLVER_UNITS["adguardhome"]
UP = UnitState("active", "enabled", "loaded", False)


def wanted(name: str = "node01", **changes: Any) -> Wanted:
    node = SITE.node(name)
    adguard = node.resolver == "adguardhome"
    values: dict[str, Any] = {
        "name": name,
        "files": render.files(SITE, node, render.Machine(name)),
        "units": layout.wanted_units(node.resolver),
        "unwanted_units": layout.other_resolver_units(node.resolver),
        "packages": layout.packages(node.resolver),
        "program": Program("v1", "f" * 64) if adguard else None,
        "adguard": render.adguard(SITE, node, "secret") if adguard else None,
        "link_prefixes": layout.link_prefixes(SITE.service),
        "rules": layout.rules(SITE.service),
    }  # fmt: skip
    return Wanted(**{**values, **changes})


def make(target: Wanted, state: NodeState) -> Plan:
    return plan.make(target, state, PASSWORDS)


def done(target: Wanted) -> NodeState:
    """The state that `target` leaves behind when it was carried out."""
    first = make(target, NodeState(present=True))
    files = {f.path: FileState(f.mode, f.owner, f.group, f.sha256) for f in target.files}
    if target.program:
        files[target.program.path] = FileState(0o755, "root", "root", str(target.program.sha256))
    frr = next(f.content.decode() for f in target.files if f.path == layout.FRR_CONFIG)
    return NodeState(
        present=True,
        hostname=target.name,
        files=files,
        units={**dict.fromkeys(target.units, UP), layout.NETWORKD_UNIT: UP},
        packages=frozenset(target.packages),
        link_up=True,
        link_prefixes=target.link_prefixes,
        rules=target.rules,
        applied=dict(first.stamps),
        adguard_yaml=adguard_yaml.dump(adguard_yaml.merge({}, target.adguard, PASSWORDS)) if target.adguard else None,
        running_config=f"frr version 10.3\n{frr}end\n",
    )


@pytest.mark.parametrize("name", ["node01", "node02"])
def test_an_empty_machine_gets_everything(name: str) -> None:
    target = wanted(name)
    found = make(target, NodeState())
    assert found.files == target.files
    assert found.packages == target.packages
    assert set(found.restart) | set(found.start) >= set(target.units)
    assert found.restart[0] == layout.LINK_UNIT  # the link before what binds and announces
    assert found.restart[-1] == layout.PROBE_UNIT  # and last the probe, which raises it
    assert found.program == target.program
    assert set(found.effects) == {"sysctl", "sysusers", "networkd-reload"}
    assert found.daemon_reload


@pytest.mark.parametrize("name", ["node01", "node02"])
def test_a_finished_node_needs_nothing(name: str) -> None:
    found = make(wanted(name), done(wanted(name)))
    assert found.reasons == ()
    assert not found.changes
    assert not found.restart
    assert not found.start


def with_(state: NodeState, **changes: Any) -> NodeState:
    return dataclasses.replace(state, **changes)


def without_unit(state: NodeState, unit: str, **changes: Any) -> NodeState:
    return with_(state, units={**state.units, unit: dataclasses.replace(state.units[unit], **changes)})


def other_file(state: NodeState, path: str) -> NodeState:
    return with_(state, files={**state.files, path: dataclasses.replace(state.files[path], sha256="0" * 64)})


NEIGHBOR = " neighbor 10.1.2.1 bfd\n"
Drift = Callable[[NodeState], NodeState]


@pytest.mark.parametrize(
    ("drift", "restart", "start", "effects", "interrupts"),
    [
        (lambda s: other_file(s, layout.PROBE_CONFIG), (layout.PROBE_UNIT,), (), (), True),
        (lambda s: other_file(s, layout.FRR_CONFIG), (), (), ("frr-reload",), False),
        (lambda s: other_file(s, layout.FRR_DAEMONS), (layout.FRR_UNIT,), (), (), True),
        (lambda s: other_file(s, layout.ADGUARD_PROGRAM), (ADGUARD_UNIT,), (), (), True),
        (lambda s: other_file(s, f"/etc/systemd/system/{ADGUARD_UNIT}"), (ADGUARD_UNIT,), (), (), True),
        (lambda s: without_unit(s, ADGUARD_UNIT, active="failed"), (), (ADGUARD_UNIT,), (), False),
        (lambda s: without_unit(s, layout.PROBE_UNIT, active="inactive"), (), (layout.PROBE_UNIT,), (), False),
        (lambda s: with_(s, link_prefixes=("10.1.9.54/32",)), (layout.LINK_UNIT,), (), (), True),
        (lambda s: with_(s, rules=()), (layout.LINK_UNIT,), (), (), True),
        (lambda s: with_(s, running_config=s.running_config.replace(NEIGHBOR, "")), (), (), ("frr-reload",), False),
        (lambda s: with_(s, adguard_yaml=None), (ADGUARD_UNIT,), (), (), True),
        (lambda s: with_(s, adguard_yaml=str(s.adguard_yaml).replace("34", "33")), (ADGUARD_UNIT,), (), (), True),
    ],
)  # fmt: skip
def test_only_what_drifted_is_touched(
    drift: Drift, restart: tuple[str, ...], start: tuple[str, ...], effects: tuple[str, ...], interrupts: bool
) -> None:
    found = make(wanted(), drift(done(wanted())))
    assert found.changes
    assert (found.restart, found.start, found.effects) == (restart, start, effects)
    assert found.interrupts is interrupts


def test_a_run_that_died_between_writing_and_restarting_is_made_good() -> None:
    # given a node whose files are all right, but whose probe was last started with other ones
    state = done(wanted())
    state = with_(state, applied={**state.applied, layout.PROBE_UNIT: "before"})
    # then the restart still happens, and nothing else
    found = make(wanted(), state)
    assert found.restart == (layout.PROBE_UNIT,)
    assert found.files == ()
    assert found.reasons == (f"restart {layout.PROBE_UNIT}: it was not started with its present files",)


def test_kernel_settings_that_were_written_but_not_applied_are_applied() -> None:
    state = done(wanted())
    applied = {key: value for key, value in state.applied.items() if key != "sysctl"}
    assert make(wanted(), with_(state, applied=applied)).effects == ("sysctl",)


def test_a_node_that_a_deploy_left_drained_is_resumed_and_a_persons_drain_is_respected() -> None:
    state = done(wanted())
    assert make(wanted(), with_(state, drained_by="deploy")).resume
    # an empty flag is nobody's: flags are written whole
    assert make(wanted(), with_(state, drained_by="")).resume
    assert not make(wanted(), with_(state, drained_by="someone")).changes


def older(version: Any) -> NodeState:
    """A node whose AdGuard Home file is of another schema, with a rewrite that names no `enabled`."""
    document = {"filtering": {"rewrites": [{"domain": "nas.example", "answer": "10.1.1.20"}]}}
    stamp = {} if version is None else {"schema_version": version}
    return with_(done(wanted()), adguard_yaml=adguard_yaml.dump({**document, **stamp}))


@pytest.mark.parametrize(("version", "schema"), [(30, 30), (33, 33), (10, 10), (0, 0), (None, 0)])
def test_a_file_of_an_older_schema_is_migrated_by_its_own_program_before_ours_is_merged(
    version: int | None, schema: int
) -> None:
    state = older(version)
    todo = make(wanted(), state)
    assert todo.older_schema == schema
    assert f"migrate {layout.ADGUARD_CONFIG} from schema {schema}" in " ".join(todo.reasons)
    rewrites = [{"domain": "nas.example", "answer": "10.1.1.20", "enabled": True}]
    migrated = {"schema_version": 34, "filtering": {"rewrites": rewrites}}
    merged = plan.make(wanted(), state, PASSWORDS, migrated).adguard
    assert merged is not None
    assert adguard_yaml.parse(merged.content.decode())["filtering"]["rewrites"] == rewrites
    # also where the migration already made it as it should be: the file on the node is still the old one
    whole = adguard_yaml.merge(migrated, wanted().adguard or {}, PASSWORDS)
    assert plan.make(wanted(), state, PASSWORDS, whole).adguard is not None


@pytest.mark.parametrize("version", ["34", 34.5, True, -1, [34]])
def test_a_schema_that_is_no_number_is_a_sentence(version: Any) -> None:
    with pytest.raises(ResolverError, match=r"says schema_version: .*, which is no schema"):
        make(wanted(), older(version))


def test_an_empty_file_of_adguard_home_is_one_without_settings() -> None:
    assert make(wanted(), with_(done(wanted()), adguard_yaml="")).older_schema is None
    assert make(wanted(), done(wanted())).older_schema is None


def test_changing_the_resolver_stops_the_other_one() -> None:
    found = make(wanted("node02"), done(wanted("node01")))
    # and the unit that the package brings beside it: the node would become its own resolver
    assert found.disable == (ADGUARD_UNIT, layout.WEB_UNIT, layout.OWN_RESOLVER_UNIT)
    assert layout.RESOLVER_UNITS["unbound"] in found.restart
    assert found.interrupts


def test_a_machine_without_networkd_keeps_its_own_network() -> None:
    found = make(wanted(), NodeState(present=True))
    assert layout.NETWORKD_UNIT not in found.restart


def test_an_unknown_program_is_judged_by_the_nodes_own_stamp() -> None:
    """A dry run that has not obtained the program must not claim that a good one has to be replaced."""
    target = wanted(program=Program("v1", None))
    state = done(wanted())
    assert make(target, state).program is None
    assert make(wanted(program=Program("v2", None)), state).program == Program("v2", None)
    assert make(target, other_file(state, layout.ADGUARD_PROGRAM)).program is not None


def test_modes_and_owners_count() -> None:
    state = done(wanted())
    files = {**state.files, layout.FRR_CONFIG: dataclasses.replace(state.files[layout.FRR_CONFIG], mode=0o644)}
    assert [f.path for f in make(wanted(), with_(state, files=files)).files] == [layout.FRR_CONFIG]


def test_folders_of_ours_that_are_shut_to_the_daemons_are_opened() -> None:
    target = wanted("node02")
    shut = {layout.LIB: FileState(0o700, "root", "root", ""), layout.STATE: FileState(0o755, "root", "root", "")}
    found = make(target, with_(done(target), files={**done(target).files, **shut}))
    assert found.reasons == (f"open {layout.LIB} to the daemons that read there",)
    assert not found.interrupts


@pytest.mark.parametrize(("ways", "said"), [((), "no route"), (("10.1.2.254 end0",), "10.1.2.254 end0")])
def test_a_route_that_is_missing_or_another_in_our_table_is_seen(ways: tuple[str, ...], said: str) -> None:
    target = wanted("node02", ways=("10.1.2.1 eth0",))
    assert not make(target, with_(done(target), ways=("10.1.2.1 eth0",))).changes
    found = make(target, with_(done(target), ways=ways))
    assert found.restart == (layout.LINK_UNIT,)
    assert found.reasons == (
        f"restart anycast0.service: replies leave by {said} (routing table 953), not by 10.1.2.1 eth0",
    )
