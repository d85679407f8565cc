"""The end of a resolver's process is heard in the moment it happens, and what is no end is none."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anycastlab.probe.loop import Loop
from anycastlab.probe.process import Watch


class Processes:
    """Real processes, and the file in which the kernel would list them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.roots = (str(folder / "gone"), str(folder))
        (folder / "x.service").mkdir()
        self.running: list[subprocess.Popen[bytes]] = []
        self._write()

    def start(self) -> subprocess.Popen[bytes]:
        self.running.append(subprocess.Popen(["sleep", "60"]))
        self._write()
        return self.running[-1]

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.running.remove(process)
        self._write()

    def _write(self) -> None:
        (self.folder / "x.service/cgroup.procs").write_text("".join(f"{process.pid}\n" for process in self.running))


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    for process in list(made.running):
        made.end(process)


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def until(loop: Loop, holds: Callable[[], bool], limit_s: float = 2.0) -> float:
    began = time.monotonic()
    while not holds() and time.monotonic() - began < limit_s:
        loop.call_later(0.01, lambda: None)
        loop.turn()
    return time.monotonic() - began


def test_an_end_is_heard_once_and_at_once(processes: Processes, loop: Loop) -> None:
    ended: list[float] = []
    resolver = processes.start()
    watch = Watch(loop, "x.service", lambda: ended.append(time.monotonic()), processes.roots)
    watch.look()
    assert watch.active
    until(loop, lambda: bool(ended), 0.05)
    assert ended == []
    processes.end(resolver)
    assert until(loop, lambda: bool(ended)) < 0.5
    assert not watch.active
    # Nothing is there any more, so there is nothing to watch
    watch.look()
    assert not watch.active
    until(loop, lambda: False, 0.05)
    assert len(ended) == 1


def test_a_new_process_is_watched_after_the_old_one(processes: Processes, loop: Loop) -> None:
    ended: list[None] = []
    watch = Watch(loop, "x.service", lambda: ended.append(None), processes.roots)
    for count in (1, 2):
        resolver = processes.start()
        watch.look()
        processes.end(resolver)
        until(loop, lambda count=count: len(ended) == count)  # type: ignore[misc]
        assert len(ended) == count


def test_a_helper_that_ends_beside_the_resolver_is_no_end(processes: Processes, loop: Loop) -> None:
    ended: list[None] = []
    resolver, helper = processes.start(), processes.start()
    watch = Watch(loop, "x.service", lambda: ended.append(None), processes.roots)
    watch.look()
    processes.end(helper)
    until(loop, lambda: bool(ended), 0.1)
    assert ended == []
    # One that comes later does not count at all
    later = processes.start()
    watch.look()
    processes.end(resolver)
    until(loop, lambda: bool(ended))
    assert len(ended) == 1
    processes.end(later)


@pytest.mark.parametrize("content", [None, "", "0\n", "x\n", "4194305\n", "".join(f"{n}\n" for n in range(1, 100))])
def test_what_cannot_be_watched_is_not_watched(tmp_path: Path, loop: Loop, content: str | None) -> None:
    (tmp_path / "x.service").mkdir()
    if content is not None:
        (tmp_path / "x.service/cgroup.procs").write_text(content)
    watch = Watch(loop, "x.service", lambda: pytest.fail("nothing ended"), [str(tmp_path)])
    watch.look()
    assert not watch.active


def test_without_a_folder_nothing_is_watched(loop: Loop) -> None:
    watch = Watch(loop, "", lambda: pytest.fail("nothing ended"))
    watch.look()
    assert not watch.active


def test_nothing_stays_open(processes: Processes) -> None:
    loop = Loop()
    processes.start()
    watch = Watch(loop, "x.service", lambda: None, processes.roots)
    before = set(Path("/proc/self/fd").iterdir())
    watch.look()
    assert len(set(Path("/proc/self/fd").iterdir())) == len(before) + 1
    loop.close()
    assert len(set(Path("/proc/self/fd").iterdir())) == len(before)
