"""The router: reading it, planning, changing it carefully, and checking what came of it.

connection   RouterOS API sessions; every trap of the wire protocol handled once
version      what a RouterOS version can do
values       when two spellings of a value mean the same
rows         the desired rows, a pure function of site and version
plan         desired against actual, as readable changes
apply        preflight, backup, safe mode, verify, release
verify       sessions, BFD, routes and answers, with causes named
connector, facts, operations   the same for pyinfra
"""

from __future__ import annotations

from anycastlab.routeros.errors import RouterError

__all__ = ["RouterError"]
