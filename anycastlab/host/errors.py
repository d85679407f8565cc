"""What can go wrong while looking at this machine or setting it up, for people."""

from __future__ import annotations

from anycastlab.errors import AnycastlabError


class HostError(AnycastlabError):
    """This machine cannot run the lab as it is."""
