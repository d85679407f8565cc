"""The resolver's administrator: a password from the environment, or one generated once and kept outside the repository.

`ANYCASTLAB_ADGUARD_PASSWORD` wins; otherwise `adguardhome-password` in the state directory, mode 0600, made at the
first deploy. Nodes only ever see a bcrypt hash.
"""

from __future__ import annotations

import os
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Final

import bcrypt

from anycastlab import private_file, stored
from anycastlab.node.errors import NodeError
from anycastlab.outside_text import one_line
from anycastlab.paths import state_dir

VARIABLE: Final = "ANYCASTLAB_ADGUARD_PASSWORD"
USER: Final = "admin"
_FILE: Final = "adguardhome-password"
_LONGEST: Final = 72  # bytes; bcrypt ignores what follows, AdGuard Home refuses it
_MOST_FILE: Final = 1024  # bytes of the file that are read
_COST: Final = 10  # the least AdGuard Home accepts; about 50 ms per check here
_RANDOM_BYTES: Final = 18  # 24 characters


def adguard_password(*, create: bool) -> str | None:
    """The administrator's password. Without one: a new one is stored if `create`, else None (as in a dry run)."""
    if given := os.environ.get(VARIABLE):
        if len(given.encode()) > _LONGEST:
            raise NodeError(
                f"{VARIABLE} is longer than {_LONGEST} bytes.", "bcrypt takes no more; choose a shorter one."
            )
        if one_line(given, _LONGEST) != given:
            raise NodeError(f"{VARIABLE} has characters that nobody can type into a form.", "Choose another password.")
        return given
    path = password_file()
    try:
        kept = stored.read_text(path, _MOST_FILE)
    except FileNotFoundError:
        return _generate(path) if create else None
    except OSError as error:
        raise NodeError(f"The password file {path} cannot be read: {error.strerror}.", "Correct its owner.") from None
    except stored.Damaged:
        kept = ""
    password = kept.strip()
    if not password or one_line(password, _LONGEST) != password or len(password.encode()) > _LONGEST:
        # Never a new one in silence: the nodes have the old one, and somebody may have written it down.
        raise NodeError(
            f"The password file {path} is {'damaged' if password else 'empty or damaged'}.",
            f"Write the password there, or set {VARIABLE}; without the file the next deploy makes a new one.",
        )
    return password


def password_file() -> Path:
    """Where a generated password lies."""
    return state_dir() / _FILE


def _generate(path: Path) -> str:
    password = secrets.token_urlsafe(_RANDOM_BYTES)
    try:
        if not private_file.create(path, f"{password}\n"):  # another run made one meanwhile: it is everybody's
            return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise NodeError(
            f"The password file {path} cannot be written: {error.strerror}.",
            f"Make room or correct its owner, or set {VARIABLE}.",
        ) from None
    return password


@lru_cache(maxsize=64)
def bcrypt_hash(password: str) -> str:
    """A salted hash; one per password and run, so that all nodes of a run get the same text."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(_COST)).decode()


@lru_cache(maxsize=256)
def bcrypt_matches(password: str, hashed: str) -> bool:
    """Whether `hashed` (any bcrypt variant) is of `password`."""
    try:
        return bcrypt.checkpw(password.encode(), hashed.encode())
    except ValueError:
        return False
