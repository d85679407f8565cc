"""The phone goes first while it runs, where it may, and leaves everything as it was."""

from __future__ import annotations

import os

import pytest

from anycastlab.phone.priority import raised


class System:
    """The scheduler's calls, with a system that allows what a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, realtime: bool, nice: bool) -> None:
        self.policy, self.niceness = os.SCHED_OTHER, 0
        self._realtime, self._nice = realtime, nice
        monkeypatch.setattr(os, "sched_getscheduler", lambda _: self.policy)
        monkeypatch.setattr(os, "sched_getparam", lambda _: os.sched_param(0))
        monkeypatch.setattr(os, "getpriority", lambda *_: self.niceness)
        monkeypatch.setattr(os, "sched_setscheduler", self.set_policy)
        monkeypatch.setattr(os, "setpriority", self.set_niceness)

    def set_policy(self, _process: int, policy: int, _parameters: os.sched_param) -> None:
        if not self._realtime:
            raise PermissionError
        self.policy = policy

    def set_niceness(self, _which: int, _who: int, niceness: int) -> None:
        if not self._nice:
            raise PermissionError
        self.niceness = niceness


@pytest.mark.parametrize(
    ("realtime", "nice", "name", "policy", "niceness"),
    [
        (True, True, "realtime", os.SCHED_RR, 0),
        (False, True, "nice", os.SCHED_OTHER, -10),
        (False, False, "normal", os.SCHED_OTHER, 0),
    ],
)
def test_the_best_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, realtime: bool, nice: bool, name: str, policy: int, niceness: int
) -> None:
    system = System(monkeypatch, realtime, nice)

    with raised() as reached:
        assert (reached, system.policy, system.niceness) == (name, policy, niceness)

    assert (system.policy, system.niceness) == (os.SCHED_OTHER, 0)


def test_it_is_left_alone_when_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, realtime=True, nice=True)

    with raised(wanted=False) as reached:
        assert (reached, system.policy) == ("normal", os.SCHED_OTHER)


def test_an_error_inside_restores_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, realtime=True, nice=True)

    with pytest.raises(ZeroDivisionError), raised():
        raise ZeroDivisionError

    assert system.policy == os.SCHED_OTHER


def test_on_the_real_system_nothing_stays_changed() -> None:
    before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)

    with raised():
        pass

    assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before
