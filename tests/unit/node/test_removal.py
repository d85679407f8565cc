"""What leaves a machine and what comes back: from a finished node, from a half-removed one, from one never ours."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from anycastlab.errors import AnycastlabError
from anycastlab.node import keep, layout, operations, removal
from anycastlab.node.facts import FileState, NodeState, UnitState
from anycastlab.node.keep import Record, Unit
from tests.unit.node.homes import home

SITE = home()
NODE = SITE.node("node01")
PATHS = keep.paths(NODE, operations.render_names(SITE, NODE))
DISTRIBUTION = {layout.FRR_CONFIG, layout.FRR_DAEMONS}
SOME = FileState(0o644, "root", "root", "0")


def deployed(**changes: Any) -> NodeState:
    values = {
        "present": True,
        "files": dict.fromkeys(PATHS, SOME),
        "link_prefixes": ("10.1.9.53/32",),
        "rules": ("from 10.1.9.53 lookup 953",),
        "applied": {"frr.service": "x"},
    }
    return NodeState(**{**values, **changes})


def recorded(**changes: Any) -> Record:
    values = {
        "files": {path: path in DISTRIBUTION for path in PATHS},
        "folders": ("/etc/anycastlab", "/usr/local/lib/anycastlab", "/etc/systemd/system/adguardhome.service.d"),
        "units": {layout.FRR_UNIT: Unit(True, True), layout.PROBE_UNIT: Unit()},
        "users": {"anycastlab": False, "adguardhome": True},
        "settings": {"net.ipv4.conf.all.arp_ignore": "0", "gone": None},
    }
    return Record(**{**values, **changes})


def test_what_we_brought_goes_and_what_we_replaced_comes_back() -> None:
    found = removal.plan(deployed(), recorded(), PATHS)
    assert set(found.restore) == DISTRIBUTION
    assert set(found.delete) == {*PATHS} - DISTRIBUTION
    assert found.stop == (
        layout.PROBE_UNIT, layout.ESCALATE_UNIT, layout.RESOLVER_UNITS["adguardhome"], layout.WEB_UNIT,
        layout.LINK_UNIT,
    )  # fmt: skip
    assert found.link
    assert found.units == ((layout.FRR_UNIT, Unit(True, True)),)
    assert found.users == ("anycastlab",)
    assert found.settings == (("net.ipv4.conf.all.arp_ignore", "0"),)
    assert found.trees == (layout.ADGUARD_STATE, "/run/anycastlab", layout.STATE)


def test_a_machine_that_was_never_ours_is_left_alone_though_it_has_frr() -> None:
    state = NodeState(present=True, files=dict.fromkeys(DISTRIBUTION, SOME))
    assert not removal.plan(state, Record(), PATHS).changes


def test_a_machine_that_does_not_exist_has_nothing_to_remove() -> None:
    assert not removal.plan(NodeState(), Record(), PATHS).changes


@pytest.mark.parametrize(
    "left",
    [
        {"files": {}},
        {"files": {}, "link_prefixes": (), "rules": ()},
        {"files": {}, "link_prefixes": (), "rules": (), "applied": {}},
    ],
    ids=["link", "record and stamps", "record"],
)
def test_a_half_removed_machine_is_finished(left: dict[str, Any]) -> None:
    found = removal.plan(deployed(**left), recorded(), PATHS)
    assert found.changes
    assert layout.STATE in found.trees


def test_an_owners_own_adguard_home_comes_back_with_its_state() -> None:
    unit = f"/etc/systemd/system/{layout.RESOLVER_UNITS['adguardhome']}"
    files = {**recorded().files, unit: True, layout.ADGUARD_CONFIG: True}
    units = {layout.RESOLVER_UNITS["adguardhome"]: Unit(True, True)}
    found = removal.plan(deployed(), recorded(files=files, units=units), PATHS)
    assert layout.ADGUARD_STATE not in found.trees
    assert {unit, layout.ADGUARD_CONFIG} <= {*found.restore}
    assert layout.RESOLVER_UNITS["adguardhome"] in found.stop
    assert found.units == ((layout.RESOLVER_UNITS["adguardhome"], Unit(True, True)),)


def test_files_of_an_earlier_resolver_go_too() -> None:
    old = "/etc/systemd/system/unbound.service.d/10-resolver.conf"
    found = removal.plan(deployed(), recorded(files={**recorded().files, old: False}), PATHS)
    assert old in found.delete


def test_inner_folders_go_first() -> None:
    folders = removal.plan(deployed(), recorded(folders=("/a", "/a/b", "/a/b/c", "/d")), PATHS).folders
    assert folders.index("/a/b/c") < folders.index("/a/b") < folders.index("/a")


def test_the_record_goes_last_and_the_link_before_any_service() -> None:
    lines = removal.script(NODE, SITE.service, removal.plan(deployed(), recorded(), PATHS)).splitlines()
    assert lines[-1].endswith(f" {layout.STATE}")
    down = next(i for i, line in enumerate(lines) if f"ip link set dev {layout.LINK} down" in line)
    stop = next(i for i, line in enumerate(lines) if "systemctl disable --now" in line)
    restore = next(i for i, line in enumerate(lines) if f"cp -a {layout.ORIGINALS}" in line)
    start = next(i for i, line in enumerate(lines) if f"systemctl start {layout.FRR_UNIT}" in line)
    assert down < stop < restore < start < len(lines) - 1


def test_the_script_is_good_shell_and_stops_at_the_first_failure_with_a_sentence() -> None:
    text = removal.script(NODE, SITE.service, removal.plan(deployed(), recorded(), PATHS))
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    must = text.splitlines()[0]
    text = f"{must}\nmust true\nmust sh -c 'echo broken >&2; false'\necho on"
    done = subprocess.run(["sh"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("node01: `sh -c echo broken")
    assert "broken" in done.stderr


def test_a_list_for_people_names_everything() -> None:
    lines = removal.plan(deployed(), recorded(), PATHS).lines()
    for path in PATHS:
        assert any(path in line for line in lines), path
    assert f"~ service {layout.FRR_UNIT} enabled and running, as it was before" in lines
    assert "- user anycastlab" in lines


def test_without_root_rights_nothing_is_begun() -> None:
    operations.require_root(NODE, NodeState(present=True))
    with pytest.raises(AnycastlabError, match="node01 is reached as a user without root's rights"):
        operations.require_root(NODE, NodeState(present=True, root=False))


def test_the_stub_of_systemd_resolved_comes_back() -> None:
    found = removal.plan(deployed(), recorded(), PATHS)
    assert layout.RESOLVED_CONFIG in found.delete
    lines = removal.script(NODE, SITE.service, found).splitlines()
    gone = lines.index(f"must rm -f -- {layout.RESOLVED_CONFIG}")
    unit = layout.RESOLVED_UNIT  # not every machine has it
    assert gone < lines.index(f"! systemctl cat -- {unit} >/dev/null 2>&1 || must systemctl try-restart {unit}")
    # a removal that was killed between the two
    without = deployed(files=dict.fromkeys([path for path in PATHS if path != layout.RESOLVED_CONFIG], SOME))
    script = removal.script(NODE, SITE.service, removal.plan(without, recorded(), PATHS))
    assert f"must systemctl try-restart {layout.RESOLVED_UNIT}" in script
    never = {path: path in DISTRIBUTION for path in PATHS if path != layout.RESOLVED_CONFIG}
    script = removal.script(NODE, SITE.service, removal.plan(without, recorded(files=never), PATHS))
    assert layout.RESOLVED_UNIT not in script


def test_a_persons_unbound_that_was_left_alone_is_left_alone_again() -> None:
    unbound = layout.RESOLVER_UNITS["unbound"]
    record = recorded(units={unbound: Unit(True, True), layout.OWN_RESOLVER_UNIT: Unit(True, True)})
    state = deployed(units={unbound: UnitState("active", "enabled"), layout.OWN_RESOLVER_UNIT: UnitState()})
    # but what made the machine its own resolver comes back
    assert removal.plan(state, record, PATHS).units == ((layout.OWN_RESOLVER_UNIT, Unit(True, True)),)
