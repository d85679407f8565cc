"""Settings for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gevent import monkey
from hypothesis import settings

# A shared machine may pause any test; how long one example takes says nothing.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.fixture(autouse=True)
def the_standard_library_is_its_own() -> Iterator[None]:
    """pyinfra's command line replaces sockets and threads for the whole process; a test that lets it would hang others.

    Use a process of its own for whatever imports `pyinfra_cli` or `anycastlab.fleet`.
    """
    yield
    assert not monkey.is_module_patched("socket")
