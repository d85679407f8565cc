"""Settings for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gevent import monkey
from hypothesis import settings

# A shared machine may pause any test; how long one example takes says nothing.
_SLOWEST = ("lab", "incus", "contract")  # folders, in this order before all others

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one file share what is costly to make, so they run one after the other on one worker.

    The longest begin first. The two halves of the probe's tests have a home of their own each.
    """
    items.sort(key=lambda item: _SLOWEST.index(item.path.parent.name) if item.path.parent.name in _SLOWEST else 99)
    for item in items:
        half = item.name.partition("[")[2].partition("]")[0].split("-")[0] if item.path.name == "test_probe.py" else ""
        item.add_marker(pytest.mark.xdist_group(f"{item.path.name}:{half}"))


@pytest.fixture(autouse=True)
def the_standard_library_is_its_own() -> Iterator[None]:
    """pyinfra's command line replaces sockets and threads for the whole process; a test that lets it would hang others.

    Use a process of its own for whatever imports `pyinfra_cli` or `anycastlab.fleet`.
    """
    yield
    assert not monkey.is_module_patched("socket")
