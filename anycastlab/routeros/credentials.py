"""Who asks the router: from the environment, or from a file outside the repository.

    ANYCASTLAB_ROUTER_USER, ANYCASTLAB_ROUTER_PASSWORD      both, or only the password
    ANYCASTLAB_BGP_PASSWORD                                 the TCP-MD5 key of the BGP sessions, if they have one
    <state>/router-credentials.json      {"<host>": {"user": "…", "password": "…", "bgp_password": "…"}}, mode 0600

The lab's own router gets generated credentials written to that file by the deploy.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from anycastlab import private_file, stored
from anycastlab.routeros.errors import NoCredentials, RouterDenied

USER_VARIABLE = "ANYCASTLAB_ROUTER_USER"
PASSWORD_VARIABLE = "ANYCASTLAB_ROUTER_PASSWORD"
SESSION_KEY_VARIABLE = "ANYCASTLAB_BGP_PASSWORD"
FILE_NAME = "router-credentials.json"
_RANDOM_BYTES = 18  # 24 characters


def credentials(host: str, user: str, state: Path, environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """User and password for a router. Raises NoCredentials with what to do when there are none."""
    user = environment.get(USER_VARIABLE) or user
    if PASSWORD_VARIABLE in environment:
        return user, environment[PASSWORD_VARIABLE]
    path = state / FILE_NAME
    entry = _entries(path, host).get(host, {})
    if "password" not in entry:
        raise NoCredentials(
            f"There is no password for router {host}.",
            f"Set {PASSWORD_VARIABLE} (and {USER_VARIABLE}), or write it to {path} (mode 0600).",
            host,
        )
    return environment.get(USER_VARIABLE) or entry.get("user", user), entry["password"]


def session_key(entry: str, state: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """The TCP-MD5 key of a home's BGP sessions, from the environment or the file; None where neither has one."""
    if SESSION_KEY_VARIABLE in environment:
        return environment[SESSION_KEY_VARIABLE]
    return _entries(state / FILE_NAME, entry).get(entry, {}).get("bgp_password")


def generated_password(entry: str, user: str, state: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The password of a router that a run creates itself: the environment's, the stored one, or a new one, stored."""
    try:
        return credentials(entry, user, state, environment)[1]
    except NoCredentials:
        password = secrets.token_urlsafe(_RANDOM_BYTES)
        store_credentials(entry, user, password, state)
        return password


def store_credentials(host: str, user: str, password: str, state: Path) -> Path:
    """Writes or replaces a router's entry; the file is 0600 from its first byte on."""
    path = state / FILE_NAME
    entries = _entries(path, host)
    entries[host] = {**entries.get(host, {}), "user": user, "password": password}
    _write(path, entries, host)
    return path


def has_credentials(host: str, state: Path) -> bool:
    """Whether the credentials file has an entry for a router."""
    return "password" in _entries(state / FILE_NAME, host).get(host, {})


def forget_credentials(host: str, state: Path) -> bool:
    """Removes a router's entry; whether there was one."""
    path = state / FILE_NAME
    entries = _entries(path, host)
    if entries.pop(host, None) is None:
        return False
    _write(path, entries, host)
    return True


def _write(path: Path, entries: dict[str, dict[str, str]], host: str) -> None:
    try:
        private_file.replace(path, json.dumps(entries, indent=1))
    except OSError as error:
        raise RouterDenied(f"{path} cannot be written: {error.strerror}.", "Correct its owner.", host) from None


def _entries(path: Path, host: str) -> dict[str, dict[str, str]]:
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise RouterDenied(f"{path} can be read by others; it holds passwords.", f"chmod 600 {path}", host)
        data = stored.read_json(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RouterDenied(f"{path} cannot be read: {error.strerror}.", "Correct its owner.", host) from error
    except stored.Damaged as error:
        raise RouterDenied(f"{path} is damaged: {error}.", "Correct or remove it.", host) from error
    if not isinstance(data, dict) or not all(
        isinstance(e, dict) and all(isinstance(value, str) for value in e.values()) for e in data.values()
    ):
        raise RouterDenied(f'{path} is not {{"<host>": {{"user": …, "password": …}}}}.', "Correct or remove it.", host)
    return data
