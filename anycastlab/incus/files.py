"""Files in an instance, running or stopped, with owner and mode; on Incus 6 and 7.

The server honours owner and mode only for a file that is new, and writes an existing one in place. So `replace.put`
always makes a new file beside the old one and renames it (one short command); a stopped instance, where nobody can look
at a half-written file, has the old one removed first.

Headers are sent under both names: Incus reads `X-Incus-*`, and until 7.2 also `X-LXD-*`. Modes are octal only with a
leading zero.
"""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Literal

from .errors import MissingError
from .rest import Rest

FileType = Literal["file", "directory", "symlink"]


@dataclass(frozen=True)
class Status:
    """What the server says about one path."""

    type: FileType
    mode: int
    uid: int
    gid: int


def headers(
    kind: FileType = "file", mode: int | None = None, uid: int | None = None, gid: int | None = None
) -> dict[str, str]:
    """Request headers for a file of this kind; what is None is left to the server."""
    values: dict[str, str] = {"type": kind}
    if kind == "file":
        values["write"] = "overwrite"
    if mode is not None:
        values["mode"] = f"0{mode:o}"  # without the zero the server reads it as decimal
    if uid is not None:
        values["uid"] = str(uid)
    if gid is not None:
        values["gid"] = str(gid)
    return {f"X-{brand}-{key}": value for key, value in values.items() for brand in ("Incus", "LXD")}


def beside(path: str) -> str:
    """A fresh hidden name in the same directory, so that renaming it over `path` is atomic."""
    directory, name = posixpath.split(path)
    return posixpath.join(directory, f".{name[:200]}.{secrets.token_hex(6)}")


def create(
    rest: Rest,
    instance: str,
    path: str,
    content: bytes | IO[bytes],
    *,
    mode: int = 0o644,
    uid: int = 0,
    gid: int = 0,
) -> None:
    """Writes a file that does not exist yet."""
    rest.write(f"/instances/{instance}/files", content, headers("file", mode, uid, gid), path=path)


def place(
    rest: Rest,
    instance: str,
    path: str,
    content: bytes | IO[bytes],
    *,
    mode: int = 0o644,
    uid: int = 0,
    gid: int = 0,
) -> None:
    """Like `replace.put`, for a stopped instance. Replaces whatever is there, a link too, and makes missing folders."""
    remove(rest, instance, path)
    try:
        create(rest, instance, path, content, mode=mode, uid=uid, gid=gid)
    except MissingError:
        make_directories(rest, instance, posixpath.dirname(path))
        if not isinstance(content, bytes):
            content.seek(0)
        create(rest, instance, path, content, mode=mode, uid=uid, gid=gid)


def make_directories(rest: Rest, instance: str, path: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
    """`mkdir -p`: new folders get this mode and owner, existing ones stay as they are."""
    missing: list[str] = []
    while path not in ("", "/") and status(rest, instance, path) is None:
        missing.append(path)
        path = posixpath.dirname(path)
    for directory in reversed(missing):
        rest.write(f"/instances/{instance}/files", b"", headers("directory", mode, uid, gid), path=directory)


def get(rest: Rest, instance: str, path: str) -> bytes:
    """The content of a file."""
    return rest.read(f"/instances/{instance}/files", path=path)


def stream(rest: Rest, instance: str, path: str) -> Iterator[bytes]:
    """The content of a file, piece by piece."""
    return rest.stream(f"/instances/{instance}/files", path=path)


def status(rest: Rest, instance: str, path: str) -> Status | None:
    """Type, mode and owner; None when nothing is there. Symbolic links are not followed."""
    try:
        answer = rest.headers(f"/instances/{instance}/files", path=path)
    except MissingError:
        return None

    def field(name: str) -> str:
        return answer.get(f"X-Incus-{name}") or answer.get(f"X-LXD-{name}") or "0"

    kind = field("type")
    known: FileType = "directory" if kind == "directory" else "symlink" if kind == "symlink" else "file"
    return Status(known, int(field("mode"), 8), int(field("uid")), int(field("gid")))


def remove(rest: Rest, instance: str, path: str) -> None:
    """Removes a file, link or empty folder; nothing there is fine."""
    with suppress(MissingError):
        rest.call("delete", f"/instances/{instance}/files", None, path=path)
