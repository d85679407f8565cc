"""Settings for every test."""

from __future__ import annotations

from hypothesis import settings

# A shared machine may pause any test; how long one example takes says nothing.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
