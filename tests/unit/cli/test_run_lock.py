"""One run at a time on a home, however it was started; who has the turn is named."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anycastlab import run_lock
from anycastlab.site import Site
from anycastlab.site.load import Machines
from tests.unit import full_disk
from tests.unit.site.test_load import build, lab

ROOT = Path(__file__).parents[3]
SITE = build(lab())

TAKE = """
import sys, time
from anycastlab.run_lock import take_run_lock
from tests.unit.site.test_load import build, lab
take_run_lock(build(lab()))
print("taken", flush=True)
time.sleep(float(sys.argv[1]))
"""

HOME = """
node = {"node_name": "node01", "address": "192.0.2.11", "prefix_length": 24, "gateway": "192.0.2.1",
        "router_id": "192.0.2.1", "router_dns": "192.0.2.1", "lan_networks": ["192.0.2.0/24"],
        "wan_interface": "ether1", "upstreams": ["192.0.2.2"], "service_address": "10.1.9.53"}
nodes = [("@local", node)]
router = [("@routeros/192.0.2.1", node)]
"""


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "argv", ["pyinfra"])
    monkeypatch.setattr(run_lock, "_held", {})


@contextmanager
def held_by(content: str, site: Site = SITE) -> Iterator[None]:
    """Somebody else has the turn and has written `content`."""
    path = run_lock.lock_path(site)
    path.parent.mkdir(parents=True)
    with path.open("w") as handle:
        handle.write(content)
        handle.flush()
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def other_process(seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TAKE, str(seconds)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_who_has_the_turn_is_named_and_what_to_do() -> None:
    with held_by("4711 1700000000\n"), pytest.raises(run_lock.RunLockError) as caught:
        run_lock.take_run_lock(SITE)
    assert caught.value.problem.startswith("Another run is at work on the lab lab: process 4711, since 2023-11-1")
    assert "`kill 4711`" in caught.value.hint


@pytest.mark.parametrize("content", ["", "nonsense\n", "4711\n"])
def test_a_holder_that_has_not_written_itself_down_yet(content: str) -> None:
    with held_by(content), pytest.raises(run_lock.RunLockError, match=r"Another run is at work on the lab lab\. Wait"):
        run_lock.take_run_lock(SITE)


def test_a_process_takes_its_turn_once_and_others_wait_until_it_ends() -> None:
    first = other_process(60)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "taken\n"
        with pytest.raises(run_lock.RunLockError, match=f"process {first.pid}, since"):
            run_lock.take_run_lock(SITE)
    finally:
        first.send_signal(signal.SIGKILL)  # leaves no lock behind
        first.communicate()
    run_lock.take_run_lock(SITE)
    run_lock.take_run_lock(SITE)
    second = other_process(0)
    said = second.communicate()[1]
    assert second.returncode != 0
    assert f"process {os.getpid()}, since" in said
    for handle in run_lock._held.values():
        os.close(handle)


@pytest.mark.parametrize("said", ["soon", "-1", "nan", "1e9", ""])
def test_a_wait_that_is_no_time_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str) -> None:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    monkeypatch.setenv(run_lock.WAIT_VARIABLE, said)
    with pytest.raises(run_lock.RunLockError, match=r"ANYCASTLAB_RUN_LOCK_WAIT_S is .*: it must be seconds"):
        run_lock.share_run_lock(SITE.model_copy(update={"lab": "other"}))


def test_whoever_is_told_to_wait_gets_the_turn_when_the_other_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    first = other_process(1)
    assert first.stdout is not None
    assert first.stdout.readline() == "taken\n"
    monkeypatch.setenv(run_lock.WAIT_VARIABLE, "30")
    run_lock.take_run_lock(SITE)
    assert first.wait(5) == 0
    first.communicate()
    for handle in run_lock._held.values():
        os.close(handle)


def test_drains_share_a_turn_and_wait_for_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with held_by("4711 1767323045\n"), pytest.raises(run_lock.RunLockError, match="process 4711"):
        run_lock.share_run_lock(SITE)  # `up` works: it may have another node out of service
    run_lock.share_run_lock(SITE)
    monkeypatch.setattr(run_lock, "_held", {})
    run_lock.share_run_lock(SITE)  # as a second process would
    monkeypatch.setattr(run_lock, "_held", {})
    with pytest.raises(
        run_lock.RunLockError, match=r"Another run is at work on the lab lab\. Wait until it has ended\."
    ):
        run_lock.take_run_lock(SITE)


def test_a_dry_run_needs_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pyinfra", "inventory/lab.py", "deploy.py", "--dry"])
    with held_by("4711 1700000000\n"):
        run_lock.take_run_lock(SITE)
    assert not run_lock._held


def test_only_its_owner_reads_the_lock() -> None:
    run_lock.take_run_lock(SITE)
    path = run_lock.lock_path(SITE)
    modes = [entry.stat().st_mode & 0o777 for entry in (path.parent.parent, path.parent, path)]
    assert modes == [0o700, 0o700, 0o600]
    for handle in run_lock._held.values():
        os.close(handle)


def test_a_state_folder_that_is_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(run_lock.RunLockError, match="cannot be opened"):
        run_lock.take_run_lock(SITE)


def test_labs_and_homes_have_turns_of_their_own_and_clones_of_one_home_do_not() -> None:
    machines = lab()
    other = build(
        Machines(
            tuple((name, {**data, "lab": "try"}) for name, data in machines.nodes),
            tuple((name, {**data, "lab": "try"}) for name, data in machines.router),
        )
    )
    home = SITE.model_copy(update={"lab": None, "router": SITE.router.model_copy(update={"api_host": "a/../b"})})
    paths = {run_lock.lock_path(site) for site in (SITE, other, home)}
    assert len(paths) == 3
    assert {path.parent for path in paths} == {run_lock.lock_path(SITE).parent}
    assert run_lock.lock_path(replace_inventory(SITE)) == run_lock.lock_path(SITE)


def replace_inventory(site: Site) -> Site:
    """The same lab as another inventory would describe it: with another node."""
    return site.model_copy(update={"nodes": site.nodes[:1]})


@pytest.mark.parametrize("file", ["deploy.py", "teardown.py"])
def test_plain_pyinfra_takes_the_turn_too(file: str, tmp_path: Path) -> None:
    """Nothing could be changed by this even without a lock: pyinfra asks first, and nobody answers."""
    inventory = tmp_path / "mine.py"
    inventory.write_text(HOME, encoding="utf-8")
    router = SITE.router.model_copy(update={"api_host": "192.0.2.1"})
    with held_by("4711 1700000000\n", SITE.model_copy(update={"lab": None, "router": router})):
        result = subprocess.run(
            [str(Path(sys.executable).with_name("pyinfra")), str(inventory), file, "--limit", "@local"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode == 1
    assert "Another run is at work on the home of router 192.0.2.1: process 4711" in result.stderr
    assert "Traceback" not in result.stderr


TWICE = """
import subprocess, sys, time
import anycastlab.run_lock as run_lock
from anycastlab.errors import AnycastlabError
from tests.unit.site.test_load import build, lab
if len(sys.argv) == 1:
    run_lock.take_run_lock(build(lab()))
    print("taken", flush=True)
    subprocess.run([sys.executable, "-c", sys.orig_argv[2], "second"])
else:
    try:
        run_lock.take_run_lock(build(lab()))
        print("taken twice", flush=True)
    except AnycastlabError as error:
        print(error, flush=True)
"""


@pytest.mark.parametrize("options", ["size=8k", "size=64k"])
def test_on_a_full_disk_the_turn_is_one_runs_all_the_same(tmp_path: Path, options: str) -> None:
    (tmp_path / "state").mkdir()
    done = full_disk.run(tmp_path / "state", "cat /dev/zero >filler", [sys.executable, "-c", TWICE], options)
    assert done.stderr == ""
    assert done.stdout.splitlines()[:2] == [
        "taken",
        "Another run is at work on the lab lab. Wait until it has ended.",
    ]


def test_a_disk_without_room_for_a_lock_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    done = full_disk.run(tmp_path / "state", "", [sys.executable, "-c", TWICE, "second"], "nr_inodes=1")
    assert done.stdout.startswith("The lock ")
    assert done.stdout.endswith("cannot be opened: No space left on device. Make room, or correct its owner.\n")
    assert done.stderr == ""
