"""What a machine had before us: what is asked to be kept, what is kept, and that it is kept once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anycastlab.node import keep, layout, originals, render
from anycastlab.node.errors import NodeError
from anycastlab.node.keep import Record, Unit
from anycastlab.node.managed import ManagedFile
from tests.unit.node.homes import home

SITE = home()
ADGUARD, UNBOUND = SITE.node("node01"), SITE.node("node02")


def files(node: str) -> tuple[ManagedFile, ...]:
    return render.files(SITE, SITE.node(node), render.Machine(node))


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Services that run and are enabled; systemd of this machine is not asked."""
    units: set[str] = set()
    monkeypatch.setattr(originals, "_systemctl", lambda _, unit: unit in units)
    return units


def write(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def record(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / layout.ORIGINALS_INDEX.lstrip("/")).read_text())
    return found


def test_every_written_file_user_and_setting_is_asked_about() -> None:
    order = keep.order(ADGUARD, files("node01"), ())
    assert {layout.FRR_CONFIG, layout.ADGUARD_CONFIG, layout.ADGUARD_PROGRAM, layout.PROBE_PROGRAM} <= {*order["files"]}
    assert {file.path for file in files("node01")} <= {*order["files"]}
    assert set(order["users"]) == {"adguardhome", "anycastlab"}
    assert "net.ipv4.conf.all.arp_ignore" in order["settings"]
    assert "net.ipv4.conf.eth0.accept_redirects" in order["settings"]
    assert layout.ADGUARD_CONFIG not in keep.order(UNBOUND, files("node02"), ())["files"]


def test_a_file_is_kept_with_its_mode_and_what_was_not_there_is_remembered(tmp_path: Path, running: set[str]) -> None:
    write(tmp_path, layout.FRR_CONFIG, "mine\n", 0o640)
    running.add(layout.FRR_UNIT)
    originals.remember(keep.order(ADGUARD, files("node01"), ()), root=str(tmp_path))
    kept = tmp_path / f"{layout.ORIGINALS}{layout.FRR_CONFIG}".lstrip("/")
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("mine\n", 0o640)
    assert (tmp_path / layout.ORIGINALS.lstrip("/")).stat().st_mode & 0o777 == 0o700
    found = keep.parse(record(tmp_path))
    assert found.files[layout.FRR_CONFIG]
    assert not found.files[layout.PROBE_CONFIG]
    assert "/etc/anycastlab" in found.folders
    assert "/etc/frr" not in found.folders
    assert found.units[layout.FRR_UNIT] == Unit(enabled=True, active=True)
    assert found.units[layout.RESOLVER_UNITS["unbound"]] == Unit(enabled=False, active=False)


def test_our_own_file_never_becomes_an_original(tmp_path: Path, running: set[str]) -> None:
    write(tmp_path, layout.FRR_CONFIG, "mine\n")
    order = keep.order(ADGUARD, files("node01"), ())
    originals.remember(order, root=str(tmp_path))
    first = record(tmp_path)
    for path in (layout.FRR_CONFIG, layout.PROBE_CONFIG):
        write(tmp_path, path, "ours\n")
    running.add(layout.PROBE_UNIT)
    originals.remember(order, root=str(tmp_path))
    assert record(tmp_path) == first
    assert (tmp_path / f"{layout.ORIGINALS}{layout.FRR_CONFIG}".lstrip("/")).read_text() == "mine\n"


@pytest.mark.usefixtures("running")
def test_a_change_of_resolver_adds_to_the_record(tmp_path: Path) -> None:
    originals.remember(keep.order(ADGUARD, files("node01"), ()), root=str(tmp_path))
    write(tmp_path, layout.UNBOUND_CONFIG, "debian's\n")
    before = keep.parse(record(tmp_path))
    assert not before.covers(keep.paths(UNBOUND, files("node02")))
    originals.remember(keep.order(UNBOUND, files("node02"), ()), root=str(tmp_path))
    after = keep.parse(record(tmp_path))
    assert after.covers(keep.paths(ADGUARD, files("node01")))
    assert after.files[layout.UNBOUND_CONFIG]


def test_a_service_whose_package_came_with_us_was_not_running_before(tmp_path: Path, running: set[str]) -> None:
    running.update({layout.FRR_UNIT, layout.RESOLVER_UNITS["unbound"]})  # Debian starts what it installs
    originals.remember(keep.order(ADGUARD, files("node01"), ["frr"]), root=str(tmp_path))
    units = keep.parse(record(tmp_path)).units
    assert units[layout.FRR_UNIT] == Unit(enabled=False, active=False)
    assert units[layout.RESOLVER_UNITS["unbound"]] == Unit(enabled=True, active=True)


def test_a_deploy_that_dies_after_the_packages_does_not_take_their_services_for_the_owners(
    tmp_path: Path, running: set[str]
) -> None:
    # given the record of the services from before the packages, and a run that died right after them
    order = {**keep.order(ADGUARD, (), ()), "files": [], "fresh_units": []}
    originals.remember(order, root=str(tmp_path))
    running.add(layout.FRR_UNIT)  # Debian starts what it installs
    before = keep.parse(record(tmp_path))
    assert not before.covers(keep.paths(ADGUARD, files("node01")))
    # when the next run, for which nothing is to be installed, records the rest
    originals.remember(keep.order(ADGUARD, files("node01"), ()), root=str(tmp_path))
    after = keep.parse(record(tmp_path))
    assert after.covers(keep.paths(ADGUARD, files("node01")))
    assert after.units[layout.FRR_UNIT] == Unit(enabled=False, active=False)


@pytest.mark.usefixtures("running")
def test_a_link_is_kept_as_a_link(tmp_path: Path) -> None:
    write(tmp_path, "/etc/frr/elsewhere", "x")
    os.symlink("elsewhere", tmp_path / layout.FRR_CONFIG.lstrip("/"))
    originals.remember(keep.order(ADGUARD, files("node01"), ()), root=str(tmp_path))
    assert os.readlink(tmp_path / f"{layout.ORIGINALS}{layout.FRR_CONFIG}".lstrip("/")) == "elsewhere"


@pytest.mark.usefixtures("running")
def test_settings_are_read_where_a_slash_stands_for_a_dot(tmp_path: Path) -> None:
    write(tmp_path, "/proc/sys/net/ipv4/conf/eth0.53/accept_redirects", "1\n")
    order = {
        **keep.order(ADGUARD, files("node01"), ()),
        "settings": ["net.ipv4.conf.eth0/53.accept_redirects", "no.such"],
    }
    originals.remember(order, root=str(tmp_path))
    assert keep.parse(record(tmp_path)).settings == {"net.ipv4.conf.eth0/53.accept_redirects": "1", "no.such": None}


def test_the_program_runs_alone_and_says_in_a_sentence_what_fails(tmp_path: Path) -> None:
    text = keep.program(ADGUARD, files("node01"), ()).replace(
        "json.loads(base64.b64decode(ORDER))",
        f"{{'name': 'node01', 'index': '{tmp_path}/no/such', 'folder': '/proc/x'}}",
    )
    done = subprocess.run([sys.executable, "-I", "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("node01: what was there before cannot be kept: ")
    assert "Traceback" not in done.stderr


def test_only_machines_that_are_not_the_labs_outlive_us() -> None:
    board = ADGUARD.model_copy(update={"platform": "ssh"})
    assert keep.outlives(SITE, board)
    assert not keep.outlives(SITE, ADGUARD)
    assert keep.outlives(SITE.model_copy(update={"lab": None}), ADGUARD)


def test_no_record_is_an_empty_one() -> None:
    assert keep.parse({}) == Record()


@pytest.mark.parametrize(
    "damage", [{"files": 3}, {"folders": None}, {"units": {"frr.service": {"odd": 1}}}, {"settings": "x"}]
)
def test_a_damaged_record_is_a_sentence(damage: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"files": {}, "folders": [], "units": {}, "users": {}, "settings": {}}
    assert keep.parse(whole) == Record()
    with pytest.raises(NodeError, match="is damaged"):
        keep.parse({**whole, **damage})


def test_a_record_with_a_part_missing_is_damaged() -> None:
    with pytest.raises(NodeError, match="is damaged"):
        keep.parse({"files": {}})
