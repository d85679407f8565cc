"""Boards: the whole node deploy over pyinfra's own SSH, as root and with sudo, and the way back.

The tests build on each other's machines, in the order of the file; each also works alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anycastlab.node import layout
from tests.lab.board_lab import ASKING_CONFIG, MISSING_PACKAGE, OWNERS_ASKING, OWNERS_FRR, Board, BoardLab
from tests.lab.conftest import changed_by
from tests.lab.test_deploy import ask


@dataclasses.dataclass
class Bare:
    """The boards before their first deploy, and what lay on them then."""

    lab: BoardLab
    before: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    lab = BoardLab("boards", folder=tmp_path_factory.mktemp("boards"))
    lab.remove()
    try:
        lab.build()
        yield Bare(lab, {board.instance: lab.manifest(board) for board in lab.boards})
    finally:
        lab.remove()


@pytest.fixture(scope="module")
def boards(bare: Bare) -> BoardLab:
    # Somebody reads apt's lists (unattended upgrades) while the first deploy wants to install a package.
    bare.lab.sh(bare.lab.boards[0], f"systemd-run -q python3 -c {shlex.quote(_HOLD_LISTS)}")
    bare.lab.up()
    return bare.lab


_HOLD_LISTS = """
import fcntl, time
file = open("/var/lib/apt/lists/lock", "w")
fcntl.lockf(file, fcntl.LOCK_EX)
time.sleep(20)
"""


def run(lab: BoardLab, *arguments: str) -> str:
    """pyinfra with our files; must succeed. The wide terminal keeps its table whole."""
    result = lab.pyinfra(*arguments)
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    return output


# The way in ---------------------------------------------------------------------------------------------------------


def test_a_plan_shows_everything_and_changes_nothing(bare: Bare) -> None:
    before = {board.instance: bare.lab.manifest(board) for board in bare.lab.boards}
    result = bare.lab.command("plan", "--diff", "-i", bare.lab.inventory)
    output = result.stdout + result.stderr
    assert result.returncode == 2, output
    for name in ("node01", "node02"):
        assert f"\n{name}  " in f"\n{output}"
    for part in (
        f"install {MISSING_PACKAGE}",
        "install AdGuard Home",
        layout.UNBOUND_CONFIG,
        "-log syslog warnings",
        "+router bgp 65053",
    ):
        assert part in output, part
    assert {board.instance: bare.lab.manifest(board) for board in bare.lab.boards} == before


def test_a_user_without_root_rights_is_told_so_before_anything_happens(bare: Bare) -> None:
    board = bare.lab.boards[0]
    before = bare.lab.manifest(board)
    result = bare.lab.pyinfra("-y", "--data", "_sudo=false", "--limit", board.host, bare.lab.inventory, "deploy.py")
    output = result.stdout + result.stderr
    assert result.returncode != 0
    assert "node01 is reached as a user without root's rights." in output
    assert "Traceback" not in output
    assert bare.lab.manifest(board) == before


def test_a_board_that_would_run_emulated_gets_nothing_not_even_packages(bare: Bare) -> None:
    """Its kernel is another machine's than its programs, as under qemu-user; what `uname -m` says does not count."""
    board = bare.lab.boards[0]
    other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
    before = bare.lab.manifest(board)
    bare.lab.sh(board, f"echo {other} > /run/arch; mount --bind /run/arch /proc/sys/kernel/arch")
    try:
        for command in ("plan", "up"):
            result = bare.lab.command(command, "-i", bare.lab.inventory, "--limit", board.host)
            output = result.stdout + result.stderr
            assert result.returncode == 1, output
            assert f"node01 would run emulated: its programs are {os.uname().machine}, the kernel is {other}." in output
            assert "Traceback" not in output
        assert bare.lab.manifest(board) == before
        assert not bare.lab.has_package(board, MISSING_PACKAGE)
    finally:
        bare.lab.sh(board, "umount /proc/sys/kernel/arch")


def test_a_board_with_an_unknown_host_key_gets_nothing(bare: Bare) -> None:
    board = bare.lab.boards[1]
    stranger = bare.lab.folder / "nobody-known"
    stranger.write_text("")
    result = bare.lab.pyinfra(
        *("-y", "--data", f"ssh_known_hosts_file={stranger}"),
        *("--limit", board.host, bare.lab.inventory, "deploy.py"),
    )
    output = result.stdout + result.stderr
    assert result.returncode != 0
    assert "No host key for [127.0.0.1]:" in output
    assert "Traceback" not in output
    assert stranger.read_text() == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo Use the other host; exit 0", 'said "Use the other host"'),
        ("exit 0", "said nothing and did not do what it was told"),
    ],
)
def test_a_login_shell_that_ends_early_is_refused_by_its_line(bare: Bare, line: str, said: str) -> None:
    board = bare.lab.boards[1]
    bare.lab.sh(board, f"cp -a /root/.bashrc /root/.bashrc.kept; sed -i {shlex.quote(f'1i {line}')} /root/.bashrc")
    try:
        result = bare.lab.command("up", "-i", bare.lab.inventory, "--limit", board.host)
    finally:
        bare.lab.sh(board, "mv /root/.bashrc.kept /root/.bashrc")
    output = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 1, output
    assert "The login shell of " in output
    assert said in output
    assert "Traceback" not in output


def test_an_interface_that_is_not_there_is_told_before_anything_happens(bare: Bare) -> None:
    board = bare.lab.boards[0]
    before = bare.lab.manifest(board)
    result = bare.lab.command("up", "-i", bare.lab.inventory, "--limit", board.host, "--data", "interface=end0")
    output = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 1, output
    assert "node01 has no interface end0; it has eth0." in output
    assert f"Set `interface` for it in the inventory to eth0, which has {board.address}" in output
    assert bare.lab.manifest(board) == before


def test_boards_serve_after_one_run(boards: BoardLab) -> None:
    status = json.loads(boards.command("status", "-i", boards.inventory, "--json").stdout)
    found = [(n["name"], n["resolver"], n["bgp"], n["bfd"], n["announced"], n["answers"]) for n in status["nodes"]]
    assert found == [
        ("node01", "adguardhome", "Established", "up", True, True),
        ("node02", "unbound", "Established", "up", True, True),
        ("node03", "adguardhome", "Established", "up", True, True),
    ]
    assert status["router"]["next_hops"] == ["10.1.2.11", "10.1.2.12", "10.1.2.13"]
    assert boards.has_package(boards.boards[0], MISSING_PACKAGE)
    # what dpkg would have asked about did not stop it, and the owner's file stayed
    assert boards.has_package(boards.boards[0], "asking")
    assert boards.sh(boards.boards[0], f"cat {ASKING_CONFIG}") == OWNERS_ASKING
    for board in boards.boards:
        assert f'"{board.node}"' in asked(boards, str(board.address), "id.anycast.lan", "TXT")
        assert asked(boards, str(board.address), "www.lab.example") == "NOERROR False 198.18.0.10"


def test_a_second_run_over_ssh_changes_nothing(boards: BoardLab) -> None:
    started = "systemctl show -p MainPID,ActiveEnterTimestampMonotonic frr anycastlab-probe adguardhome unbound"
    before = {board.instance: boards.manifest(board) for board in boards.boards}
    running = {board.instance: boards.sh(board, started) for board in boards.boards}
    result = boards.up(*(option for board in boards.boards for option in ("--limit", board.host)))
    assert changed_by(result) == [], result.stdout + result.stderr
    for board in boards.boards:
        changed = differences(before[board.instance], boards.manifest(board))
        # What the services write as they go: statistics, and the probe's state each second.
        alive = (f"{layout.ADGUARD_STATE}/data/", "/run/anycastlab/")
        assert [path for path in changed if not path.startswith(alive)] == []
        assert boards.sh(board, started) == running[board.instance]


def test_folders_of_ours_are_open_whatever_the_umask_and_are_opened_again(boards: BoardLab) -> None:
    board = boards.boards[1]
    modes = f"stat -c %a {' '.join(layout.FOLDERS)}"
    assert set(boards.sh(board, modes).split()) == {"755"}
    boards.sh(board, f"chmod 700 {layout.LIB} {layout.STATE}")
    result = boards.command("plan", "-i", boards.inventory, "--diff", "--limit", board.host)
    assert f"open {layout.LIB} to the daemons that read there" in result.stdout + result.stderr
    boards.up("--limit", board.host)
    assert set(boards.sh(board, modes).split()) == {"755"}


def test_drain_and_probe_read_nothing_but_the_answer(boards: BoardLab) -> None:
    board = boards.boards[1]
    drained = boards.command("drain", "-i", boards.inventory, board.node, check=True)
    assert f"{board.node} is out of service" in drained.stdout
    try:
        assert boards.sh(board, f"cat {layout.DRAINED}").strip() == "operator"
    finally:
        boards.command("undrain", "-i", boards.inventory, board.node, check=True)
    states = json.loads(boards.command("probe", "-i", boards.inventory, "--json").stdout)
    assert {state["name"]: state["state"] for state in states} == dict.fromkeys(
        ("node01", "node02", "node03"), "announcing"
    )


def test_a_card_gone_read_only_is_a_sentence_and_the_board_goes_on(boards: BoardLab) -> None:
    board = boards.boards[1]
    boards.sh(board, "mount --bind /etc /etc && mount -o remount,bind,ro /etc")
    try:
        result = boards.command("up", "-i", boards.inventory, "--limit", board.host, "--data", "stale_ttl_s=7")
        output = result.stdout + result.stderr
        assert result.returncode == 1, output
        assert "Read-only file system" in output
        assert "Traceback" not in output
        assert boards.succeeds(board, "ip link show anycast0 up | grep -q UP && systemctl is-active unbound")
    finally:
        boards.sh(board, "umount /etc")


# The way back -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1], ids=["sudo, adguardhome", "root, unbound"])
def test_removal_gives_the_board_back(bare: Bare, boards: BoardLab, which: int) -> None:
    board = boards.boards[which]
    # The owner's own file, in a folder that the deploy made.
    foreign = f"/etc/systemd/system/{layout.resolver_unit(board.resolver)}.d/zz-mine.conf"  # type: ignore[arg-type]
    boards.sh(board, f"printf '[Unit]\\n# mine\\n' > {foreign}; chmod 640 {foreign}")
    left = boards.manifest(board)[foreign]
    arguments = ("--limit", board.host, boards.inventory, "teardown.py")

    plan = run(boards, "--dry", "--diff", *arguments)
    for line in ("- service anycastlab-probe.service", "- link anycast0", f"~ {layout.FRR_CONFIG} as it was before"):
        assert line in plan, plan
    assert boards.succeeds(board, "systemctl is-active anycastlab-probe && ip link show anycast0 up | grep -q UP")

    run(boards, "-y", *arguments)
    after = boards.manifest(board)
    assert after.pop(foreign) == left
    folder = str(Path(foreign).parent)
    assert differences(bare.before[board.instance], after, aside=folder) == {}
    boards.sh(board, f"rm -r {folder}")
    assert_nothing_runs(boards, board)
    assert boards.sh(board, f"cat {layout.FRR_CONFIG}") == OWNERS_FRR.decode()

    again = run(boards, "-y", *arguments)
    assert re.search(r"Grand total +\d+ +- +- ", again), again


def test_a_removed_board_can_be_deployed_again(boards: BoardLab) -> None:
    boards.up()
    assert boards.command("status", "-i", boards.inventory).returncode == 0
    for board in boards.boards:
        kept = boards.sh(board, f"cat {layout.ORIGINALS}{layout.FRR_CONFIG}")
        assert kept == OWNERS_FRR.decode()


def test_a_removal_killed_half_way_is_finished_by_the_next(bare: Bare, boards: BoardLab) -> None:
    board = boards.boards[1]
    drop_ins = f"/etc/systemd/system/{layout.RESOLVER_UNITS['unbound']}.d"
    # What a run leaves that died among the files: services stopped, some files gone, the record still there.
    boards.sh(
        board,
        f"systemctl disable -q --now {layout.PROBE_UNIT} {layout.ESCALATE_UNIT} {layout.LINK_UNIT};"
        f" ip link del anycast0; rm -f /etc/systemd/system/{layout.PROBE_UNIT} {layout.PROBE_CONFIG}"
        f" {layout.LINK_SCRIPT}; rm -f {drop_ins}/anycastlab.conf; systemctl daemon-reload",
    )
    run(boards, "-y", "--limit", board.host, boards.inventory, "teardown.py")
    assert differences(bare.before[board.instance], boards.manifest(board)) == {}
    assert_nothing_runs(boards, board)


def asked(lab: BoardLab, server: str, name: str, kind: str = "A") -> str:
    """Ask on the lab's client, whose inventory is the boards'."""
    return ask(Asking(lab), server, name, kind)  # type: ignore[arg-type]


@dataclasses.dataclass
class Asking:
    """The one thing `ask` needs of a lab."""

    lab: BoardLab

    def exec(self, machine: str, *argv: str) -> Any:
        return self.lab.command("shell", "-i", self.lab.inventory, machine, "--", *argv, timeout_s=30)


def differences(before: dict[str, Any], after: dict[str, Any], aside: str = "") -> dict[str, Any]:
    """What differs, a folder `aside` in which the test put a file of its own."""
    return {
        path: (before.get(path), after.get(path))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path) and path != aside
    }


def assert_nothing_runs(lab: BoardLab, board: Board) -> None:
    """No link, rule, table, service or user of ours; the distribution's services as the owner had them."""
    assert not lab.succeeds(board, "ip link show anycast0")
    assert str(layout.RULE_PRIORITY) not in lab.sh(board, "ip rule; ip -6 rule")
    assert lab.sh(board, f"ip route show table {layout.ROUTING_TABLE} 2>/dev/null || true").strip() == ""
    assert not lab.succeeds(board, f"nft list table ip {layout.WEB_TABLE}")
    ours = (layout.PROBE_UNIT, layout.LINK_UNIT, layout.ESCALATE_UNIT, layout.WEB_UNIT)
    for unit in (*ours, layout.RESOLVER_UNITS["adguardhome"]):
        assert lab.sh(board, f"systemctl show -P LoadState,ActiveState {unit}").split() == ["not-found", "inactive"]
    assert not lab.succeeds(board, "getent passwd anycastlab || getent passwd adguardhome")
    assert lab.sh(board, "sysctl -n net.ipv4.conf.all.arp_ignore net.ipv4.conf.eth0.accept_redirects").split() == [
        "0",
        "1",
    ]
    state = lab.sh(board, "systemctl is-active frr unbound; systemctl is-enabled frr unbound; true").split()
    if board.user == "root":
        assert state == ["active", "active", "enabled", "enabled"]
        assert "log syslog warnings" in lab.sh(board, "vtysh -c 'show running-config'")
    else:
        assert state == ["inactive", "inactive", "disabled", "disabled"]
