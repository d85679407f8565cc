"""An image of another Incus server (`images:debian/13`), fetched and looked at before anything of it is run.

The lab's bridges lead nowhere, so its packages are added on this machine, before the first container: `build` unpacks
the image, lets apt add what is missing from this machine's mirror, and imports the result. What the image brings of its
own apt configuration is not read, since that could run commands outside of it. Its own programs run while packages are
installed, as they do when a system is installed from scratch: that much the image's server is trusted.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from anycastlab import elf
from anycastlab.image import limits
from anycastlab.image.definition import CODENAMES, DerivedDefinition
from anycastlab.image.errors import ImageError
from anycastlab.image.store import ImageStore, fingerprint

_OS_RELEASE: Final = "usr/lib/os-release"
_PROGRAM: Final = "usr/bin/dpkg"
_SQUASHFS_MAGIC: Final = b"hsqs"
_DISK_MAGIC: Final = b"QFI\xfb"  # qcow2
_UNIFIED: Final = "rootfs"  # where an image in one archive has its root file system, beside metadata.yaml and templates


@dataclass(frozen=True)
class Source:
    """A fetched image. `fingerprint` is the one its own server knows it by."""

    archive: Path
    is_squashfs: bool
    fingerprint: str

    def unpack_command(self) -> str:
        """Shell words that unpack the root file system into the directory `$1`; Incus brings its own /dev."""
        archive = shlex.quote(str(self.archive))
        if self.is_squashfs:
            return f'unsquashfs -quiet -no-progress -force -dest "$1" -excludes {archive} dev >&2'
        return (
            f'tar --directory="$1" --extract --file={archive} --numeric-owner --preserve-permissions --xattrs '
            f"--xattrs-include='*' --anchored --exclude='dev/*' --exclude='./dev/*' "
            f"--exclude={_UNIFIED}/'dev/*' --exclude=./{_UNIFIED}/'dev/*' "
            # Names and targets of hard links, not of symbolic ones.
            rf"--transform='flags=rhS;s,^\(\./\)*{_UNIFIED}/*,./,' "
            '&& rm -rf "$1/metadata.yaml" "$1/templates"'
        )


def fetch(definition: DerivedDefinition, work: Path, store: ImageStore) -> tuple[Source, DerivedDefinition]:
    """Fetches the image into `work`; the definition comes back with the release it turned out to be.

    Raises ImageError, with nothing of the image run, for one that is no Debian we know, or of another architecture.
    """
    folder = work / "source"
    folder.mkdir()
    store.export(definition.source, folder)
    source = _recognise(folder, definition.source)
    peek = work / "peek"
    _take_a_look(source, peek)
    release = debian_release(definition.source, _first(peek, _OS_RELEASE).decode(errors="replace"))
    _require_architecture(definition, _first(peek, _PROGRAM))
    return source, replace(definition, release=release)


def debian_release(image: str, os_release: str) -> int:
    """The release in the text of an os-release file; ImageError for anything but a Debian we know."""
    fields = dict(line.partition("=")[::2] for line in os_release.splitlines())
    values = {key: value.strip().strip("\"'") for key, value in fields.items()}
    version = values.get("VERSION_ID", "")
    if values.get("ID") == "debian" and version.isdigit() and int(version) in CODENAMES:
        return int(version)
    name = values.get("PRETTY_NAME") or "no Debian"
    raise ImageError(
        f"The lab cannot use the image {image}: it is {name}.",
        f"Name one of Debian {' or '.join(str(known) for known in CODENAMES)}.",
    )


def _recognise(folder: Path, image: str) -> Source:
    files = sorted(folder.iterdir())
    if len(files) == 2:
        metadata, rootfs = sorted(files, key=lambda path: path.suffix == ".root")
        known_as = fingerprint(metadata, rootfs)
    elif len(files) == 1:
        rootfs = files[0]
        with rootfs.open("rb") as whole:
            known_as = hashlib.file_digest(whole, "sha256").hexdigest()
    else:
        raise ImageError(f"The image {image} came as {len(files)} files, where one or two were expected.")
    with rootfs.open("rb") as file:
        magic = file.read(len(_SQUASHFS_MAGIC))
    if magic == _DISK_MAGIC:
        raise ImageError(f"The lab cannot use the image {image}: it is one of a virtual machine.")
    rootfs.chmod(0o644)  # without root, it is unpacked by another user
    return Source(rootfs, magic == _SQUASHFS_MAGIC, known_as)


def _take_a_look(source: Source, peek: Path) -> None:
    """Unpacks two files; whether they were there is seen afterwards."""
    archive = str(source.archive)
    if source.is_squashfs:
        command = ["unsquashfs", "-no-xattrs", "-dest", str(peek), archive, _OS_RELEASE, _PROGRAM]
    else:
        peek.mkdir()
        patterns = [f"*{_OS_RELEASE}", f"*{_PROGRAM}"]
        command = ["tar", "--directory", str(peek), "--extract", "--file", archive, "--wildcards", *patterns]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=limits.BUILD_TIMEOUT_S)


def _first(peek: Path, name: str) -> bytes:
    for path in (peek / name, peek / _UNIFIED / name):
        if path.is_file() and not path.is_symlink():
            return path.read_bytes()
    return b""


def _require_architecture(definition: DerivedDefinition, program: bytes) -> None:
    try:
        found = elf.machine(program[: elf.HEADER_BYTES])
    except elf.NotElfError:
        raise ImageError(f"The lab cannot use the image {definition.source}: there is no dpkg in it.") from None
    if found != definition.architecture:
        raise ImageError(
            f"The image {definition.source} is for {found}, but the Incus server is {definition.architecture}: it "
            "would run emulated.",
            f"Name one for {definition.architecture}.",
        )
