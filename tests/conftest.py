"""Settings for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from gevent import monkey
from hypothesis import settings

# A process started in the background of a script ignores Ctrl-C, and so would every program that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The probe's cases are in a module of their own, which two test modules run.
pytest.register_assert_rewrite("tests.lab.probe_cases")

# A shared machine may pause any test; how long one example takes says nothing.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begin first: what waits for real machines, before what only computes."""
    slow = [str(Path(__file__).parent / folder) for folder in ("lab", "contract")]
    items.sort(key=lambda item: next((i for i, folder in enumerate(slow) if str(item.path).startswith(folder)), 2))


@pytest.fixture(autouse=True)
def the_standard_library_is_its_own() -> Iterator[None]:
    """pyinfra's command line replaces sockets and threads for the whole process; a test that lets it would hang others.

    Use a process of its own for whatever imports `pyinfra_cli` or `anycastlab.fleet`.
    """
    yield
    assert not monkey.is_module_patched("socket")
