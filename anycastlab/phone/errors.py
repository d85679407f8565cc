"""What the phone refuses or cannot do, as a sentence for a person.

    PhoneError
    ├── MixError            the list of names cannot be used
    └── InterceptedError    port 53 is answered by somebody on the way: every number would be about them

The package stands alone on machines, so it does not share the base error of the control side; `problem` and `hint` mean
the same there.
"""

from __future__ import annotations

from anycastlab.outside_text import without_numbers


class PhoneError(Exception):
    """`problem` says what and where, `hint` what to do about it."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = without_numbers(problem)
        self.hint = hint
        super().__init__(f"{self.problem} {hint}".rstrip())


class MixError(PhoneError):
    """The list of names cannot be used."""


class InterceptedError(PhoneError):
    """A query to an address where nothing lives was answered."""
