"""What the interception check says about the answers it gets. That its script sees them is shown in tests/lab."""

from __future__ import annotations

import pytest

from anycastlab.host.doctor import Severity
from anycastlab.host.interception import intercepted


def test_silence_is_what_we_want() -> None:
    assert intercepted(lambda _argv: (0, '{"answered": false}\n')) is None


def test_an_answer_from_nowhere_is_an_error() -> None:
    finding = intercepted(lambda _argv: (0, '{"answered": true}\n'))

    assert finding is not None
    assert str(finding) == (
        "error: Port 53 is intercepted on the way: a query to 198.51.100.53, where nothing lives, got an answer. "
        "Nothing measured here would be true: look for a DNS redirect on the router or on this host."
    )


@pytest.mark.parametrize("result", [(127, ""), (1, '{"answered": false}'), (0, ""), (0, "Traceback"), (0, "[]")])
def test_a_check_that_could_not_be_made_is_never_taken_for_silence(result: tuple[int, str]) -> None:
    finding = intercepted(lambda _argv: result)

    assert finding is not None
    assert finding.severity is Severity.ERROR
    assert "could not be checked" in finding.problem
