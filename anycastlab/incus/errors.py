"""What can go wrong between us and an Incus server.

IncusError                    anything else the server refuses; also the base of all
├── UnreachableError               no daemon, no permission on its socket, no route, wrong certificate
├── MissingError                   the instance, project, network, image … is not there
├── ExistsError                    it is already there (somebody else was faster)
├── NotRunningError                the instance is there, but stopped or frozen
└── BusyError                      the server was in its own way for a moment; trying again is right
"""

from __future__ import annotations

from anycastlab.errors import AnycastlabError


class IncusError(AnycastlabError):
    """The Incus server, or something on it, is not as it must be."""


class UnreachableError(IncusError):
    """No conversation with the server is possible."""


class MissingError(IncusError):
    """The thing asked for does not exist on the server."""


class ExistsError(IncusError):
    """The thing to be created exists already."""


class BusyError(IncusError):
    """The server could not reach its own helper, or lost sight of an interface; the request was not carried out."""


class NotRunningError(IncusError):
    """The instance exists, but nothing can run in it now."""
