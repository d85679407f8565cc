"""What can go wrong with the base image, for people."""

from __future__ import annotations

from anycastlab.errors import AnycastlabError


class ImageError(AnycastlabError):
    """The base image cannot be found, built or imported."""
