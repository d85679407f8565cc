"""Incus: its API, commands and files of instances, the `@incus` connector, and operations that make a lab's instances.

remotes    which server, and how it is trusted          rest        its API, errors as sentences
exec       commands with recorded output                files       push and pull with owner and mode
desired    what an instance should be (pure)            instances   making and changing them
labs       project and bridges, made and removed        shell       a terminal on an instance
connector, facts, operations                            pyinfra's side of it
"""

from .errors import ExistsError, IncusError, MissingError, NotRunningError, UnreachableError

__all__ = ["ExistsError", "IncusError", "MissingError", "NotRunningError", "UnreachableError"]
