"""Undoes a fault when the process that made it is gone: a child that outlives it, and a record for after a reboot.

The runner starts `python -m anycastlab.scenarios.guardian LAB` before a run, gives it the undo as a line of JSON before
the fault is made, and the word `done` when it has undone the fault itself. If the pipe closes without that word, the
runner was killed or could not undo, and the guardian does it, and puts back settings that a scenario had the lab
deployed with. The same JSON lies in the state directory until the fault is undone; the next run finds what nobody undid
because the machine went down.

Whoever holds the lab's lock may break the lab. The guardian inherits it, so the next run waits for its work.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from anycastlab import private_file, stored
from anycastlab.errors import AnycastlabError
from anycastlab.paths import state_dir
from anycastlab.scenarios import timing
from anycastlab.scenarios.actions import Action, from_json, to_json
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.stage import LabStage, Stage, open_stage
from anycastlab.site import Site
from anycastlab.site.settings import SECRETS

DONE, READY, ARMED = "done", "ready", "armed"


def orders(stage: LabStage, actions: Sequence[Action]) -> str:
    """Everything another process needs to carry out `actions` in this lab; one line. Holds no secret."""
    site = stage.site.model_dump(mode="json", exclude={"bgp": {"password"}})
    return json.dumps({
        "lab": stage.lab.name,
        "site": site,
        "inventory": str(Path(stage.inventory).absolute()),
        "folder": stage.folder,
        "settings": [list(pair) for pair in stage.settings if pair[0] not in SECRETS],
        "actions": [to_json(action) for action in actions],
    })  # fmt: skip


def parse(text: str) -> tuple[LabStage, tuple[Action, ...]]:
    """What `orders` wrote; raises ScenarioError."""
    try:
        read: Any = stored.parse_json(text)
        settings = tuple((key, value) for key, value in read["settings"])
        stage = open_stage(Site.model_validate(read["site"]), read["lab"], read["inventory"], settings)
        stage.folder = read["folder"]
        return stage, tuple(from_json(action) for action in read["actions"])
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        why = error if isinstance(error, stored.Damaged) else "it is none of this version's"
        raise ScenarioError(
            f"The record of an unfinished fault cannot be read: {why}.",
            "`anycastlab up` heals most of what a fault breaks; `anycastlab down` and `up` all of it.",
        ) from None


def undo(stage: Stage, actions: Sequence[Action], sleep: Callable[[float], None] = time.sleep) -> None:
    """Carry out every action, each tried again for passing trouble; raises ScenarioError naming what stays broken.

    One that fails does not keep the others from being done.
    """
    failed = []
    for action in actions:
        for left in reversed(range(timing.UNDO_TRIES)):
            try:
                stage.do(action)
            except (AnycastlabError, OSError) as error:
                if not left:
                    failed.append(f"{action}: {str(error).rstrip('.')}")
                else:
                    sleep(timing.UNDO_RETRY_S)
            else:
                break
    if failed:
        raise ScenarioError(
            f"The fault could not be undone: {'; '.join(failed)}.", "`anycastlab up` puts the lab back."
        )


def record_path(lab: str) -> Path:
    """What undoes the fault that is in force; absent when none is."""
    return state_dir() / "faults" / f"{lab}.json"


def settings_path(lab: str) -> Path:
    """What puts back the settings that a scenario had the lab deployed with; absent when they are its own."""
    return state_dir() / "faults" / f"{lab}-settings.json"


def flat_path(lab: str) -> Path:
    """There while a lab in the layout `flat` is ours, built for a scenario: only such a one is removed."""
    return state_dir() / "faults" / f"{lab}-flat.json"


def write_record(path: Path, text: str) -> None:
    """All of it or nothing; raises ScenarioError."""
    try:
        private_file.replace(path, text)
    except OSError as error:
        raise ScenarioError(
            f"How to undo a fault cannot be written to {path}: {error.strerror}; nothing was broken."
        ) from None


@contextlib.contextmanager
def exclusive(lab: str, say: Callable[[str], None]) -> Iterator[int]:
    """Hold the lab's lock, waiting for whoever still undoes something; yields its file descriptor."""
    path = record_path(lab).with_suffix(".lock")
    with _lock_file(path) as lock:
        end = time.monotonic() + timing.LOCK_LIMIT_S
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ScenarioError(
                        f"Another scenario is being run in the lab {lab}.", "Wait for it, or stop it with Ctrl-C."
                    ) from None
                if not told:
                    say("waiting for another run in this lab to end")
                    told = True
                time.sleep(timing.LOCK_POLL_S)
        yield lock.fileno()


def _lock_file(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path.open("w")
    except OSError as error:
        raise ScenarioError(f"The lab cannot be locked with {path}: {error.strerror}.") from None


def heal(lab: str, say: Callable[[str], None]) -> None:
    """Undo what an earlier run left, if it did; call it with the lock held."""
    for path, what in ((record_path(lab), "a fault"), (settings_path(lab), "settings")):
        try:
            text = stored.read_text(path)
        except FileNotFoundError:
            continue
        except stored.Damaged as error:
            raise ScenarioError(
                f"The record of an unfinished fault, {path}, is damaged: {error}.",
                "Put the lab back with `anycastlab up`, then remove that file.",
            ) from None
        say(f"undoing {what} that an earlier run left behind")
        try:
            stage, actions = parse(text)
        except ScenarioError as error:
            raise ScenarioError(
                f"{error.problem[:-1]}: {path}.", "Put the lab back with `anycastlab up`, then remove that file."
            ) from None
        undo(stage, actions)
        path.unlink()


class Guard:
    """The runner's end of a guardian. Used as a context: leaving it undoes the fault, whatever happened inside."""

    def __init__(self, stage: LabStage, lock: int, always: Sequence[Action] = ()) -> None:
        self._stage = stage
        self._always = tuple(always)  # done by the guardian alone: what the runner ends in its own way
        self._actions: tuple[Action, ...] = ()
        self._armed = self._ready = False
        self._child: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", __name__, stage.lab.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C and a closed terminal are for the runner
        )

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.undo()
        except ScenarioError as error:
            if not self._dismiss():
                raise
            raise ScenarioError(
                "The run was broken off: its fault could be undone only later, by the guardian.",
                "The lab is as before; run it again.",
            ) from error
        finally:
            self._dismiss()

    def arm(self, actions: Sequence[Action]) -> None:
        """Write the undo down, twice, before the fault is made; raises ScenarioError when the guardian is not there.

        Arming again replaces what was to be undone.
        """
        text = orders(self._stage, (*actions, *self._always))
        write_record(record_path(self._stage.lab.name), text)
        if not self._ready:
            self._expect(READY)
            self._ready = True
        self._actions, self._armed = tuple(actions), True
        self._tell(text)
        self._expect(ARMED)

    def undo(self) -> None:
        """Undo the fault now, undisturbed by signals; does nothing the second time.

        The guardian stays until this context is left, for what only it ends.
        """
        if not self._armed:
            return
        with undisturbed():
            undo(self._stage, self._actions)
            record_path(self._stage.lab.name).unlink(missing_ok=True)
            self._armed = False
            with contextlib.suppress(OSError):
                self._tell(orders(self._stage, self._always))

    def _dismiss(self) -> bool:
        """End the child, and say whether it ended well. One that was not told `done` undoes the fault first, and is
        waited for. Does nothing the second time."""
        with undisturbed():
            assert self._child.stdin is not None
            if self._child.stdin.closed:
                return self._child.returncode == 0
            if not self._armed:
                with contextlib.suppress(OSError):
                    self._tell(DONE)
            with contextlib.suppress(OSError):
                self._child.stdin.close()
            try:
                self._child.wait(timing.LONG_ACTION_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            assert self._child.stdout is not None
            self._child.stdout.close()
            return self._child.returncode == 0

    def _tell(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def _expect(self, word: str) -> None:
        assert self._child.stdout is not None
        said = self._child.stdout.readline().strip()
        if said != word:
            raise ScenarioError(f"The guardian that undoes faults said {said!r} and not {word!r}; nothing was broken.")


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that ask us to end wait until the lab is put back, and are heard then.

    Unless that fails: what could not be put back is what a person must hear.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard: list[int] = []
    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if heard:
        signal.raise_signal(heard[0])


def serve(
    lines: IO[str],
    say: Callable[[str], None],
    lab: str,
    complain: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """The child's whole life; returns its exit code, or raises AnycastlabError when it had to give up."""
    say(READY)
    orders_read = None
    while (line := lines.readline().strip()) not in ("", DONE):
        orders_read = parse(line)  # read now: what cannot be undone must not be done
        say(ARMED)
    if line == DONE:
        return 0
    if orders_read:
        stage, actions = orders_read
        _undo_patiently(stage, actions, complain, sleep)
        record_path(stage.lab.name).unlink(missing_ok=True)
    heal(lab, complain)
    return 0


def _undo_patiently(
    stage: Stage, actions: Sequence[Action], complain: Callable[[str], None], sleep: Callable[[float], None]
) -> None:
    """`undo`, again and again for as long as trouble that passes may take."""
    end = time.monotonic() + timing.PATIENCE_S
    told = False
    while True:
        try:
            return undo(stage, actions, sleep)
        except ScenarioError as error:
            if time.monotonic() > end:
                raise
            if not told:
                complain(f"{error.problem} Trying for {timing.PATIENCE_S:g} s more.")
                told = True
        sleep(timing.ROUND_S)


def _main() -> int:
    def say(word: str) -> None:
        # Nobody may be there any more to read it.
        with contextlib.suppress(OSError):
            print(word, flush=True)

    def complain(text: str) -> None:
        with contextlib.suppress(OSError):
            print(f"anycastlab: {text}", file=sys.stderr, flush=True)

    try:
        return serve(sys.stdin, say, sys.argv[1], complain)
    except AnycastlabError as error:
        # The record stays, so the next run tries again.
        complain(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(_main())
