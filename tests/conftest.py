"""Settings for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from gevent import monkey
from hypothesis import settings

from tests import order

# A process started in the background of a script ignores Ctrl-C, and so would every program that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The probe's cases are in a module of their own, which two test modules run.
pytest.register_assert_rewrite("tests.lab.probe_cases")

# A shared machine may pause any test; how long one example takes says nothing. Every run draws other examples, so a few
# each time find what many would find at once. `--hypothesis-profile=thorough` is for whoever changed what is tried.
settings.register_profile("shared", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=300)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("shared")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones begin first (see `order`)."""
    items.sort(key=lambda item: order.place(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As `--dist loadfile`, but files that share a lab go to the same worker, one after the other."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return order.scope(super()._split_scope(nodeid))

    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def the_standard_library_is_its_own() -> Iterator[None]:
    """pyinfra's command line replaces sockets and threads for the whole process; a test that lets it would hang others.

    Use a process of its own for whatever imports `pyinfra_cli` or `anycastlab.fleet`.
    """
    yield
    assert not monkey.is_module_patched("socket")
