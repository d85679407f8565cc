"""Starting what may be started by somebody else at the same moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anycastlab.incus import instances, operations
from anycastlab.incus.desired import Plan, Step
from anycastlab.incus.errors import IncusError, MissingError
from anycastlab.incus.rest import Rest
from anycastlab.incus.spec import InstanceSpec, Lab

from .fake_server import FakeIncus, running

STATE = "PUT /1.0/instances/node01/state"


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeIncus]:
    with running(tmp_path / "unix.socket") as fake:
        fake.answers["GET /1.0/instances/node01"] = (200, {"status": "Stopped"})
        yield fake


@pytest.fixture
def rest(fake: FakeIncus) -> Iterator[Rest]:
    rest = Rest(fake.server)
    yield rest
    rest.client.api.session.close()


def test_one_that_runs_is_not_started(fake: FakeIncus, rest: Rest) -> None:
    fake.answers["GET /1.0/instances/node01"] = (200, {"status": "Running"})
    instances.start(rest, "node01")
    assert STATE not in fake.requests


def test_a_restarted_daemon_that_was_faster_is_no_error(fake: FakeIncus, rest: Rest) -> None:
    # After a restart the daemon calls instances stopped for a moment, then starts them by itself.
    fake.answers[STATE] = (400, "The instance is already running")
    instances.start(rest, "node01")
    assert STATE in fake.requests


def test_one_that_does_not_start_says_why_and_where_to_look(fake: FakeIncus, rest: Rest) -> None:
    fake.answers[STATE] = (400, "Failed to run: forkstart: exit status 1")
    with pytest.raises(IncusError, match=r"node01 does not start: .*forkstart") as caught:
        instances.start(rest, "node01")
    assert "incus info --show-log" in caught.value.hint


def test_deleting_what_is_gone_is_fine(rest: Rest) -> None:
    instances.delete(rest, "nobody")


@pytest.mark.parametrize("step", ["rebuild", "recreate"])
def test_without_its_image_an_instance_is_not_deleted(
    fake: FakeIncus, rest: Rest, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    # Given an instance to be made anew from an image that the server does not have
    monkeypatch.setattr(operations, "_rest", lambda _host, _lab: rest)
    host = cast(Any, SimpleNamespace(connector=None))

    with pytest.raises(MissingError, match=r"has no image gone\."):
        operations._carry_out(host, InstanceSpec("node01", nics=()), "gone", Lab("unit"), [], Plan(step))

    # Then the server was only asked
    assert {request.split()[0] for request in fake.requests} == {"GET"}
