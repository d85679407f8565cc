"""The lab's router password: the environment's, or one made at the first deploy and kept outside the repository."""

from __future__ import annotations

from anycastlab.lab.topology import Lab
from anycastlab.paths import state_dir
from anycastlab.routeros.credentials import credentials, generated_password
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
