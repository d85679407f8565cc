"""The base of every error that a person is meant to read.

    AnycastlabError
    ├── site.SiteError            the data of a home contradicts itself
    ├── incus.IncusError          the Incus server or an instance
    ├── routeros.RouterError      the router or its API
    ├── image.ImageError          building or finding the base image
    ├── node.ResolverError        obtaining or configuring a resolver
    └── …                         one per package

An error is one sentence that names what is wrong and where, and a hint that says what to do. The command line prints
both and exits 1; a traceback is a bug.

It derives from pyinfra's own base error, so one raised inside a deploy, fact or connector is shown as a sentence too.
"""

from __future__ import annotations

from typing import Final

from pyinfra.api.exceptions import PyinfraError

from anycastlab.outside_text import lines, without_numbers

MOST: Final = 4000
"""Characters of a problem or a hint. They quote others (a router, a daemon), who may say anything at any length."""


class AnycastlabError(PyinfraError):
    """Something a person can fix. `problem` says what and where, `hint` what to do about it."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = lines(without_numbers(problem), MOST)
        self.hint = lines(without_numbers(hint), MOST)
        super().__init__(f"{self.problem} {self.hint}".rstrip())
