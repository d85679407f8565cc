"""A file of a running instance is replaced in one step: made beside the old one and renamed there."""

from __future__ import annotations

from typing import IO

from . import files
from .errors import IncusError
from .exec import check
from .rest import Rest


def put(
    rest: Rest,
    instance: str,
    path: str,
    content: bytes | IO[bytes],
    *,
    mode: int = 0o644,
    uid: int = 0,
    gid: int = 0,
) -> None:
    """Puts a file with exactly this content, mode and owner into a running instance, in one step for its readers."""
    temporary = files.beside(path)
    files.create(rest, instance, temporary, content, mode=mode, uid=uid, gid=gid)
    try:
        if mode > 0o777:  # the server drops set-user-id and its like
            check(rest, instance, ["chmod", f"{mode:o}", "--", temporary])
        check(rest, instance, ["mv", "-fT", "--", temporary, path])
    except IncusError:
        files.remove(rest, instance, temporary)
        raise
