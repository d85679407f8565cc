"""What can go wrong while a node is described, obtained for, or configured.

NodeError               data or templates of a node; a step on the node that failed
├── ResolverError       obtaining or configuring a resolver
└── ArchitectureError   the node would run emulated, or is not the machine it is said to be
"""

from __future__ import annotations

from anycastlab.errors import AnycastlabError


class NodeError(AnycastlabError):
    """A node cannot be described or configured as asked."""


class ResolverError(NodeError):
    """A resolver cannot be obtained or configured as asked."""


class ArchitectureError(NodeError):
    """The machine is not what its kernel, image or data say it is."""
