"""The base image in an Incus server: found, imported, pruned; images of other servers fetched.

All images live in the project `default`; the lab's own project shares its images. The server is named by its remote in
the user's own `incus remote` configuration (`local` is this machine).

Invariant: an alias of ours exists only for a complete image. Incus makes the alias after the image, so what can be left
behind is a complete image without alias: it is recognised by its property and either adopted or deleted.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anycastlab.image.definition import REMOTE_ALIAS_PREFIX, ImageDefinition, is_own_alias
from anycastlab.image.errors import ImageError
from anycastlab.image.limits import INCUS_QUERY_TIMEOUT_S, INCUS_TRANSFER_TIMEOUT_S
from anycastlab.image.overlay import DIGEST_PROPERTY

PROJECT: Final = "default"
LOCAL: Final = "local"
_SETTLE_S: Final = 10.0  # a received image is entered within a second; after an interruption that is waited for
_SETTLE_POLL_S: Final = 0.2

Runner = Callable[[Sequence[str], float], str]
"""Runs an `incus` command line (without the program's name) with a timeout in seconds; returns its standard output.
Raises ImageError when it fails."""


@dataclass(frozen=True)
class StoredImage:
    """An image of ours in the server. `digest` is empty where its property was taken away."""

    fingerprint: str
    aliases: tuple[str, ...]
    digest: str
    size: int
    """Bytes."""


def run_incus(arguments: Sequence[str], timeout_s: float) -> str:
    """The real `Runner`: the user's own `incus` client."""
    try:
        done = subprocess.run(
            ["incus", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,  # Ctrl-C reaches us alone: we decide when the transfer ends and tidy up after it
        )
    except FileNotFoundError:
        raise ImageError("The program `incus` is not installed.", "Run `anycastlab setup`.") from None
    except subprocess.TimeoutExpired:
        raise ImageError(
            f"Incus did not finish `incus {arguments[0]}` within {timeout_s:.0f} s.",
            "Look at `incus operation list` and the server's log.",
        ) from None
    if done.returncode != 0:
        raise _failure(arguments, done.stderr.strip())
    return done.stdout


class ImageStore:
    """The images of one Incus server."""

    def __init__(self, remote: str = LOCAL, run: Runner = run_incus) -> None:
        self.remote = remote
        self._run = run

    def architecture(self) -> str:
        """The server's own architecture in Incus' words."""
        return str(self._query("/1.0")["environment"]["kernel_architecture"])

    def has(self, alias: str) -> bool:
        return alias in self._aliases()

    def find(self, definition: ImageDefinition) -> bool:
        """Whether the image of `definition` is there, complete and under its alias. Adopts one whose alias got lost."""
        if self.has(definition.alias):
            return True
        for image in self.images():
            if image.digest == definition.digest:
                self._run(
                    ["image", "alias", "create", f"{self.remote}:{definition.alias}", image.fingerprint, *_IN_PROJECT],
                    INCUS_QUERY_TIMEOUT_S,
                )
                return True
        return False

    def images(self) -> list[StoredImage]:
        """The images that anycastlab made here."""
        found = []
        for row in self._query(f"/1.0/images?recursion=1&project={PROJECT}"):
            aliases = tuple(str(alias["name"]) for alias in row.get("aliases") or [])
            digest = str((row.get("properties") or {}).get(DIGEST_PROPERTY, ""))
            if digest or any(is_own_alias(alias) or alias.startswith(REMOTE_ALIAS_PREFIX) for alias in aliases):
                found.append(StoredImage(str(row["fingerprint"]), aliases, digest, int(row.get("size", 0))))
        return found

    def import_image(self, definition: ImageDefinition, metadata: Path, rootfs: Path) -> None:
        """Imports a split image under its alias. If that does not succeed, or is interrupted, nothing of it stays."""
        source = [str(metadata), str(rootfs), f"{self.remote}:"]
        try:
            self._run(
                ["image", "import", "-q", *source, "--alias", definition.alias, *_IN_PROJECT], INCUS_TRANSFER_TIMEOUT_S
            )
        except BaseException:
            self._forget(fingerprint(metadata, rootfs))
            raise

    def export(self, source: str, folder: Path) -> None:
        """Fetches an image of any server (`images:debian/13`) into the empty `folder`.

        It comes as one file, or as two of which the one that ends with `.root` is the root file system. (Told only the
        folder, Incus would make the image's name part of the path.)
        """
        self._run(["image", "export", "-q", "--", source, str(folder / "image")], INCUS_TRANSFER_TIMEOUT_S)

    def prune(self, keep: ImageDefinition) -> list[str]:
        """Deletes our built images of other definitions; returns their aliases. Only ever done when a person asks.

        Images made from a remote's by wish stay.
        """
        removed = []
        for image in self.images():
            if keep.alias in image.aliases or any(alias.startswith(REMOTE_ALIAS_PREFIX) for alias in image.aliases):
                continue
            self._delete(image.fingerprint)
            removed.append(", ".join(image.aliases) or image.fingerprint[:12])
        return removed

    def _delete(self, fingerprint: str) -> None:
        self._run(["image", "delete", f"{self.remote}:{fingerprint}", *_IN_PROJECT], INCUS_QUERY_TIMEOUT_S)

    def _forget(self, fingerprint: str) -> None:
        """Removes an image that may have been entered although its import was cut off."""
        deadline = time.monotonic() + _SETTLE_S
        while self._receiving() and time.monotonic() < deadline:
            time.sleep(_SETTLE_POLL_S)
        if any(image.fingerprint == fingerprint for image in self.images()):
            self._delete(fingerprint)

    def _receiving(self) -> bool:
        """Whether the server is entering an image right now."""
        running = self._query(f"/1.0/operations?recursion=1&project={PROJECT}").get("running") or []
        return any("image" in str(operation.get("description", "")).lower() for operation in running)

    def _aliases(self) -> set[str]:
        rows = self._query(f"/1.0/images/aliases?recursion=1&project={PROJECT}")
        return {str(row["name"]) for row in rows}

    def _query(self, path: str) -> Any:
        return json.loads(self._run(["query", f"{self.remote}:{path}"], INCUS_QUERY_TIMEOUT_S))


_IN_PROJECT: Final = ("--project", PROJECT)


def fingerprint(metadata: Path, rootfs: Path) -> str:
    """Incus' fingerprint of a split image: SHA-256 over both files in this order."""
    digest = hashlib.sha256()
    for path in (metadata, rootfs):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _failure(arguments: Sequence[str], stderr: str) -> ImageError:
    reason = stderr.splitlines()[-1].removeprefix("Error: ") if stderr else "no reason given"
    if list(arguments[:2]) == ["image", "export"]:
        image = arguments[-2]
        return ImageError(
            f"The image {image} cannot be fetched: {reason}.", f"See what `incus image info {image}` says."
        )
    if "no space left" in stderr.lower():
        return ImageError(
            "The disk of the Incus server is full: the base image was not imported.",
            "Free some space there, or delete old images (`incus image list`), and run it again.",
        )
    if "permission" in stderr.lower() or "daemon" in stderr.lower() or "connect:" in stderr.lower():
        return ImageError(f"The Incus server does not answer: {reason}.", "Run `anycastlab doctor`.")
    verb = " ".join(word for word in arguments[:2] if not word.startswith("-"))
    return ImageError(f"`incus {verb}` failed: {reason}.", "Look at the server's log, or run `anycastlab doctor`.")
