"""Tests against a real router or CHR: collected only when a person names one, so never in CI.

ANYCASTLAB_ROUTER=user:password@host[:port]     port 8728 is plain, any other TLS
ANYCASTLAB_ROUTER_TLS=0|1                       … unless this says otherwise
ANYCASTLAB_ROUTER_FINGERPRINT=…                 sha256 of its certificate, when self-signed
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anycastlab.errors import AnycastlabError
from anycastlab.routeros.connection import Connection, Target
from anycastlab.routeros.reading import read
from tests.real.borrowed import Loan, agreed, borrowed, introduction, refuse_ours, target

collect_ignore_glob = [] if os.environ.get("ANYCASTLAB_ROUTER") else ["test_*.py"]


@pytest.fixture(scope="session")
def agreed_target() -> Target:
    """The router, once it is known to be usable and the person at the terminal, if there is one, has agreed."""
    try:
        where = target(os.environ)
        connection = Connection(where)
        try:
            reading = read(connection)
        finally:
            connection.close()
        refuse_ours(reading)
    except AnycastlabError as error:
        pytest.exit(str(error), returncode=1)
    if not _ask(introduction(reading)):
        pytest.exit("Nothing was changed.", returncode=1)
    return where


@pytest.fixture
def loan(agreed_target: Target, tmp_path: Path) -> Iterator[Loan]:
    with borrowed(agreed_target, tmp_path) as lent:
        yield lent


def _ask(text: str) -> bool:
    try:
        # Not standard input: pytest keeps that from tests.
        with open("/dev/tty", encoding="utf-8") as answers, open("/dev/tty", "w", encoding="utf-8") as terminal:
            return agreed(text, terminal, answers)
    except OSError:  # no terminal
        return agreed(text, None, None)
