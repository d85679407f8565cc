"""What can keep a scenario from being run at all."""

from __future__ import annotations

from anycastlab.errors import AnycastlabError


class ScenarioError(AnycastlabError):
    """The scenario could not be run, or not be undone."""
