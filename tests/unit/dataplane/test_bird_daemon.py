"""BIRD is touched only for what changed: its socket answers what was recorded, programs are not run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import pytest

from anycastlab.virtual_router.dataplane.api import CommandRefused
from anycastlab.virtual_router.dataplane.bird_daemon import Bird
from anycastlab.virtual_router.dataplane.kernel import Result
from anycastlab.virtual_router.dataplane.routing import Look, Rendered
from tests.unit.dataplane.bird_socket import bird_socket
from tests.unit.dataplane.recorded import sections

CONFIGURED = ["0002-Reading configuration from /etc/bird/bird.conf", "0003 Reconfigured"]
STARTED = ["systemctl reset-failed bird", "systemctl restart bird"]


class Machine:
    """Answers as a machine with BIRD would; `start` opens its socket, as `systemctl restart bird` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = sections("up")
        self.answers: dict[str, list[str]] = {"configure": CONFIGURED}
        self.check = Result(0, "", "")
        self.starts = True
        self.ran: list[str] = []
        self.asked: list[str] = []
        self.stack = AsyncExitStack()

    async def start(self) -> None:
        self.asked = await self.stack.enter_async_context(bird_socket(self.folder / "ctl", self.answer))

    async def stop(self) -> None:
        await self.stack.aclose()

    def answer(self, command: str) -> Sequence[str]:
        return self.answers.get(command) or self.said.get(command) or ["9001 syntax error"]

    async def __call__(self, argv: Sequence[str], stdin: str = "", timeout_s: float = 1) -> Result:  # noqa: ARG002
        if argv[0] == "ip":
            return Result(0, "".join(self.said["ip6" if "-6" in argv else "ip4"]), "")
        if argv[0] == "bird":
            self.ran.append(f"check {Path(argv[3]).read_text().strip()}")
            return self.check
        self.ran.append(" ".join(argv))
        if argv[:3] == ["systemctl", "restart", "bird"]:
            if not self.starts:
                return Result(1, "", "Job for bird.service failed.\n")
            await self.stop()
            await self.start()
        if argv[:3] == ["systemctl", "disable", "--now"]:
            self.units[argv[3]] = ("inactive", "disabled")
        return Result(0, "", "")


@pytest.fixture(autouse=True)
def _no_user_bird(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.chown", lambda *_: None)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bird.conf").write_text("old\n")
    return Machine(tmp_path)


def text_of(machine: Machine) -> str:
    return (machine.folder / "bird.conf").read_text()


def rendered(text: str) -> Rendered:
    return Rendered(text, None, {})


def with_bird(machine: Machine, do: Callable[[Bird], Awaitable[None]], running: bool = True) -> Bird:
    """Does something to a BIRD that runs, or does not."""
    bird = Bird(
        machine, machine.folder, machine.folder / "ctl", now=lambda: datetime.fromisoformat("2026-11-30 04:15:00")
    )

    async def go() -> None:
        if running:
            await machine.start()
        try:
            await do(bird)
        finally:
            await machine.stop()

    asyncio.run(go())
    return bird


def apply(machine: Machine, *texts: str, running: bool = True) -> Bird:
    async def do(bird: Bird) -> None:
        for text in texts:
            await bird.apply(rendered(text))

    return with_bird(machine, do, running)


def test_a_new_text_is_checked_taken_and_not_applied_again(machine: Machine) -> None:
    bird = apply(machine, "new\n", "new\n")
    assert machine.ran == ["check new"]
    assert machine.asked.count("configure") == 1
    assert text_of(machine) == "new\n"
    assert (machine.folder / "bird.conf").stat().st_mode & 0o777 == 0o640
    assert bird.problem is None


def test_a_file_that_is_already_right_is_read_once(machine: Machine) -> None:
    """Whoever wrote it may have died before BIRD was told."""
    apply(machine, "old\n", "old\n")
    assert machine.asked.count("configure") == 1


def test_a_refused_text_leaves_the_good_file_and_is_tried_again(machine: Machine) -> None:
    line = f"{machine.folder}/bird.conf.candidate:1:1 syntax error, unexpected CF_SYM_UNDEFINED"

    async def do(bird: Bird) -> None:
        machine.check = Result(1, "", f"bird: {line}\n")
        await bird.apply(rendered("bad\n"))
        assert bird.problem == line
        assert text_of(machine) == "old\n"
        assert not (machine.folder / "bird.conf.candidate").exists()
        assert "configure" not in machine.asked
        machine.check = Result(0, "", "")
        await bird.apply(rendered("bad\n"))
        assert bird.problem is None

    with_bird(machine, do)
    assert text_of(machine) == "bad\n"


def test_what_configure_says_is_the_problem(machine: Machine) -> None:
    machine.answers["configure"] = ["0002-Reading configuration", "8002 bird.conf:3:1 Unknown protocol"]
    bird = apply(machine, "new\n", "new\n")
    assert bird.problem == "bird.conf:3:1 Unknown protocol"
    assert machine.asked.count("configure") == 2


def test_a_bird_that_is_not_running_is_started_with_the_text_in_place(machine: Machine) -> None:
    bird = apply(machine, "new\n", running=False)
    assert machine.ran == ["check new", *STARTED]
    assert "configure" not in machine.asked
    assert text_of(machine) == "new\n"
    assert bird.problem is None


def test_a_bird_that_died_is_started_again_with_the_same_text(machine: Machine) -> None:
    async def do(bird: Bird) -> None:
        await bird.apply(rendered("new\n"))
        await machine.stop()
        await bird.apply(rendered("new\n"))
        await bird.look()
        assert bird.problem is None
        assert bird.last.neighbors

    with_bird(machine, do)
    assert [line for line in machine.ran if line.startswith("systemctl")] == STARTED


def test_with_a_refused_text_bird_is_started_with_the_last_good_one(machine: Machine) -> None:
    machine.check = Result(1, "", "bird: no\n")
    bird = apply(machine, "bad\n", running=False)
    assert machine.ran == ["check bad", *STARTED]
    assert (text_of(machine), bird.problem) == ("old\n", "no")


def test_a_start_that_fails_is_the_problem_and_tried_again(machine: Machine) -> None:
    machine.starts = False
    bird = apply(machine, "new\n", "new\n", running=False)
    assert bird.problem == "it does not start: Job for bird.service failed."
    assert machine.ran.count("systemctl restart bird") == 2


def test_readers_at_the_same_time_share_one_look(machine: Machine) -> None:
    async def do(bird: Bird) -> None:
        await asyncio.gather(*(bird.look() for _ in range(5)))
        assert machine.asked.count("show route all") == 1
        await bird.look(fresh=True)
        assert machine.asked.count("show route all") == 2
        assert len(bird.last.neighbors) == 7
        assert bird.last.routes["10.1.9.53/32"][0].distance == 20

    with_bird(machine, do)


def test_a_lost_neighbour_is_remembered_until_it_is_no_longer_configured(machine: Machine) -> None:
    async def do(bird: Bird) -> None:
        def lost() -> list[str]:
            return [n.address for n in bird.last.neighbors if n.was_established and not n.established]

        await bird.look()
        assert lost() == []
        machine.said = sections("killed")
        await bird.look(fresh=True)
        assert lost() == ["10.1.2.12", "fd01::12"]
        await machine.stop()
        assert (await bird.look(fresh=True)).neighbors == ()
        await machine.start()
        await bird.look(fresh=True)
        assert lost() == ["10.1.2.12", "fd01::12"]
        machine.said = {**sections("killed"), "show protocols all": ["0000 "]}
        await bird.look(fresh=True)
        machine.said = sections("killed")
        await bird.look(fresh=True)
        assert lost() == []

    with_bird(machine, do)


def test_without_bfd_the_rest_is_seen(machine: Machine) -> None:
    machine.said["show bfd sessions all"] = ["9001 There is no BFD protocol running"]

    async def do(bird: Bird) -> None:
        seen = await bird.look()
        assert (len(seen.neighbors), seen.bfd) == (7, ())

    with_bird(machine, do)


def test_a_bird_that_does_not_run_leaves_the_kernels_routes(machine: Machine) -> None:
    async def do(bird: Bird) -> None:
        seen = await bird.look()
        assert seen != Look()
        assert seen.neighbors == ()

    with_bird(machine, do, running=False)


@pytest.mark.parametrize(
    ("verb", "command"),
    [("clear", "restart 'node02'"), ("refresh", "reload in 'node02'"), ("resend", "reload out 'node02'")],
)
def test_a_reset_goes_to_the_neighbours_protocol(machine: Machine, verb: str, command: str) -> None:
    machine.answers[command] = ["0012-node02: restarted", "0000 "]
    with_bird(machine, lambda bird: bird.reset("10.1.2.12", verb))
    assert machine.asked[-1] == command


def test_a_reset_that_cannot_be_done_says_why(machine: Machine) -> None:
    machine.answers["reload in 'node02'"] = ["8006-node02: reload failed", "0000 "]
    for address, words in (("10.1.2.12", "node02: reload failed"), ("10.1.2.77", "no session with 10.1.2.77")):
        with pytest.raises(CommandRefused, match=words):
            with_bird(machine, lambda bird, address=address: bird.reset(address, "refresh"))  # type: ignore[misc]
