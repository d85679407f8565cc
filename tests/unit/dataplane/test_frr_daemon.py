"""FRR is touched only for what changed: with commands recorded instead of run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from anycastlab.virtual_router.dataplane.frr_daemon import RELOAD, Frr, daemons_file
from anycastlab.virtual_router.dataplane.kernel import Result, run, write_settings
from anycastlab.virtual_router.dataplane.routing import Rendered

DAEMONS = "bgpd=no\nospfd=no\nbfdd=no\nvtysh_enable=yes\n"


class Machine:
    """Answers as a machine with FRR would; `running` is what `show daemons` says."""

    def __init__(self, running: str = "zebra bgpd bfdd staticd mgmtd watchfrr", reload: Result | None = None) -> None:
        self.running = running
        self.reload = reload or Result(0, "", "")
        self.ran: list[str] = []

    async def __call__(self, argv: Sequence[str], stdin: str = "", timeout_s: float = 1) -> Result:  # noqa: ARG002
        self.ran.append(" ".join(argv))
        if argv[:2] == ["systemctl", "restart"]:
            self.running = "zebra bgpd bfdd staticd"
        if "show daemons" in argv:
            return Result(0, f" {self.running}\n", "")
        if RELOAD in argv:
            return self.reload
        return Result(0, "", "")

    @property
    def effective(self) -> list[str]:
        """What ran, without looking."""
        return [line for line in self.ran if "show" not in line]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "daemons").write_text(daemons_file(DAEMONS))
    (tmp_path / "frr.conf").write_text("old\n")
    return tmp_path


def apply(machine: Machine, folder: Path, *texts: str) -> Frr:
    async def go() -> Frr:
        frr = Frr(machine, folder)
        for text in texts:
            await frr.apply(Rendered(text, None, {}))
        return frr

    return asyncio.run(go())


@pytest.fixture(autouse=True)
def _no_user_frr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.chown", lambda *_: None)


def test_daemons_are_switched_on_and_the_rest_stays() -> None:
    assert daemons_file(DAEMONS) == "bgpd=yes\nospfd=no\nbfdd=yes\nvtysh_enable=yes\n"
    assert daemons_file(daemons_file(DAEMONS)) == daemons_file(DAEMONS)
    assert daemons_file("") == "bgpd=yes\nbfdd=yes\n"


def test_the_same_text_touches_nothing(folder: Path) -> None:
    machine = Machine()
    apply(machine, folder, "old\n", "old\n")
    assert machine.effective == []


def test_a_new_text_is_reloaded_and_becomes_the_file(folder: Path) -> None:
    machine = Machine()
    frr = apply(machine, folder, "new\n", "new\n")
    assert [line.split()[1:3] for line in machine.effective] == [[RELOAD, "--reload"]]
    assert (folder / "frr.conf").read_text() == "new\n"
    assert frr.problem is None


def test_a_refused_text_leaves_the_good_file_and_is_tried_again(folder: Path) -> None:
    machine = Machine(reload=Result(1, "", "vtysh failed to process new configuration: line 3: % Unknown\n"))
    frr = apply(machine, folder, "bad\n")
    assert (folder / "frr.conf").read_text() == "old\n"
    assert frr.problem is not None
    assert "line 3" in frr.problem
    assert not (folder / "frr.conf.candidate").exists()
    machine.reload = Result(0, "", "")
    asyncio.run(frr.apply(Rendered("old\n", None, {})))
    assert frr.problem is None


def test_frr_that_is_not_running_is_started_with_the_text_in_place(folder: Path) -> None:
    machine = Machine(running="")
    frr = apply(machine, folder, "new\n")
    assert machine.effective == ["systemctl reset-failed frr", "systemctl restart frr"]
    assert (folder / "frr.conf").read_text() == "new\n"
    assert frr.problem is None


def test_frr_without_our_daemons_is_restarted_once(folder: Path) -> None:
    (folder / "daemons").write_text(DAEMONS)
    machine = Machine(running="zebra staticd")
    apply(machine, folder, "new\n", "new\n")
    assert machine.effective.count("systemctl restart frr") == 1


def test_readers_at_the_same_time_share_one_look() -> None:
    machine = Machine()

    async def go() -> None:
        frr = Frr(machine)
        await asyncio.gather(*(frr.look() for _ in range(5)))
        await frr.look(fresh=True)

    asyncio.run(go())
    assert len(machine.ran) == 2


def test_programs_that_hang_or_are_missing_are_results_not_exceptions() -> None:
    assert asyncio.run(run(["no-such-program-here"])).code == 127
    slow = asyncio.run(run(["sleep", "5"], timeout_s=0.1))
    assert slow.code == 124
    assert "0.1 s" in slow.stderr
    assert asyncio.run(run(["cat"], stdin="ä\n")).stdout == "ä\n"


def test_settings_are_written_only_where_they_differ(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("0\n")
    before = (tmp_path / "a").stat().st_mtime_ns
    problems = write_settings({"a": "1", "b": "1", "missing/c": "1"}, tmp_path)
    assert (tmp_path / "a").stat().st_mtime_ns == before
    assert (tmp_path / "b").read_text() == "1"
    assert problems == ["missing/c=1: No such file or directory"]
