"""A loaded machine is no failure: property tests here have no deadline per example."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("virtual-router", deadline=None)
settings.load_profile("virtual-router")
