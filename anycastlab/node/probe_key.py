"""The key of the probes' own conversation: made by the first deploy, kept with the other secrets, one per home.

A new one is made when a deploy is told so (`--data new_probe_key=true`). The one before is then accepted for a while
longer, so that nodes which have the new one and nodes which do not yet hear each other (see `probe.seal`).
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from anycastlab import private_file, stored
from anycastlab.node import timing
from anycastlab.node.errors import NodeError
from anycastlab.paths import state_dir
from anycastlab.probe import seal
from anycastlab.site import Site

_renewed: set[Path] = set()  # by this process: all nodes of one run get the same key


def for_site(site: Site, *, create: bool, renew: bool = False) -> str | None:
    """The nodes' key file. Without one, or if it is to be renewed: a new one if `create`, else None (a dry run)."""
    path = key_file(site)
    stored = _read(path)
    renew = renew and path not in _renewed
    if stored and not renew:
        return seal.dump(stored)
    if not create:
        return None
    now = int(time.time())
    made = seal.Key(secrets.token_bytes(seal.KEY_BYTES))
    earlier = tuple(seal.Key(key.secret, key.until or now + timing.OLD_PROBE_KEY_S) for key in stored)
    kept = tuple(key for key in earlier if key.until and key.until > now)
    text = seal.dump((made, *kept)[: seal.MOST_KEYS])
    try:
        if stored:
            private_file.replace(path, text)
        elif not private_file.create(path, text):  # another run made one meanwhile: it is everybody's
            return seal.dump(_read(path))
    except OSError as error:
        raise NodeError(
            f"The probes' key {path} cannot be written: {error.strerror}.", "Make room or correct its owner."
        ) from None
    _renewed.add(path)
    return text


def key_file(site: Site) -> Path:
    """Where the key of this home lies on the control machine."""
    return state_dir() / f"probe-key-{site.lab or site.service.address}"


def _read(path: Path) -> tuple[seal.Key, ...]:
    """Empty where there is no file yet. A damaged one is not replaced in silence: nodes may have what it was."""
    try:
        return seal.parse(stored.read_text(path, seal.MOST_FILE))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise NodeError(f"The probes' key {path} cannot be read: {error.strerror}.", "Correct its owner.") from None
    except (seal.BadKeyFile, stored.Damaged) as error:
        raise NodeError(
            f"The probes' key {path} is damaged: {error}.",
            "Restore it, or remove it; then the next deploy makes a new one and gives it to all nodes.",
        ) from None
