"""What this machine keeps about the lab's router, outside the repository: its password, and backups of its rows.

The password is the environment's, or one made at the first deploy. Both go when the lab goes.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, operation

from anycastlab.incus.spec import Lab
from anycastlab.paths import state_dir
from anycastlab.routeros import backup
from anycastlab.routeros.connection import router_label
from anycastlab.routeros.credentials import credentials, forget_credentials, generated_password, has_credentials
from anycastlab.routeros.errors import NoCredentials

# Stands for a password that a dry run does not make.
_LATER = "made by the first deploy"


def lab_password(lab: Lab, user: str, *, create: bool) -> str:
    """The password of the lab's router. Without one: a new one is stored if `create`, else a placeholder."""
    if create:
        return generated_password(lab.project, user, state_dir())
    try:
        return credentials(lab.project, user, state_dir())[1]
    except NoCredentials:
        return _LATER


@operation()
def forgotten(lab: Lab) -> Generator[FunctionCommand, None, None]:
    """Nothing about the lab's router is left on this machine."""
    if not has_credentials(lab.project, state_dir()) and not _backups(lab).exists():
        host.noop(f"nothing is kept about the router of lab {lab.name}")
        return
    yield FunctionCommand(_forget, (lab,), {})


def _backups(lab: Lab) -> Path:
    return backup.directory(state_dir(), router_label("127.0.0.1", lab.api_port, tls=False))


# pyinfra heeds the answer of a function with parameters of these names.
def _forget(state: Any, host: Any, lab: Lab) -> bool:  # noqa: ARG001
    forget_credentials(lab.project, state_dir())
    shutil.rmtree(_backups(lab), ignore_errors=True)
    return True
