"""The filter chains of /routing/filter/rule, as far as they can be read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anycastlab.virtual_router.dataplane.api import Snapshot
from anycastlab.virtual_router.dataplane.filters import RuleError, Statement, parse
from anycastlab.virtual_router.dataplane.peers import Notes
from anycastlab.virtual_router.dataplane.rows import enabled

RULES = "/routing/filter/rule"

Chains = Mapping[str, Sequence[tuple[Statement, ...]]]
"""Name of a chain to its parsed, active rules in order."""

MAX_JUMPS = 8
"""Deepest nesting of jumps, so that chains that jump in a circle end."""


def understand(snapshot: Snapshot) -> tuple[Chains, Notes]:
    """The rules of all chains; a rule that is not emulated is left out and noted as inactive."""
    chains: dict[str, list[tuple[Statement, ...]]] = {}
    notes: Notes = {}
    for row in enabled(snapshot, RULES):
        chain = chains.setdefault(row.get("chain", ""), [])
        try:
            chain.append(parse(row.get("rule", "")))
        except RuleError as error:
            notes[RULES, row.get(".id", "")] = {"inactive": "true", "invalid": "true", ".why": f"not emulated: {error}"}
    return chains, notes
