"""The files laid over the installed packages, and the image's metadata, as tarballs. Pure and deterministic."""

from __future__ import annotations

import io
import json
import tarfile

from anycastlab.image.definition import ImageDefinition

DIGEST_PROPERTY = "anycastlab.definition"
"""Image property that carries the definition's hash, so an image whose alias got lost is still known as ours."""

SOURCE_PROPERTY = "anycastlab.source"
"""Image property that says from which image of which server it was made."""


def overlay_tar(definition: ImageDefinition) -> bytes:
    """Files and mask links for the root of the image. No directory entries: existing directories keep their modes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, text in definition.files:
            _add_file(tar, path, text.encode())
        for unit in definition.masked:
            entry = tarfile.TarInfo(f"etc/systemd/system/{unit}")
            entry.type = tarfile.SYMTYPE
            entry.linkname = "/dev/null"
            tar.addfile(entry)
    return buffer.getvalue()


def metadata_yaml(definition: ImageDefinition, created: int, source: str = "") -> str:
    """Incus' `metadata.yaml`; `created` is in seconds since 1970, `source` the image it was made from, if any."""
    lines = [
        f"architecture: {definition.architecture}",
        f"creation_date: {created}",
        "properties:",
        f"  architecture: {definition.architecture}",
        f"  description: {json.dumps(definition.description)}",
        "  os: Debian",
        f"  release: {definition.codename}",
        f"  {DIGEST_PROPERTY}: '{definition.digest}'",
        *([f"  {SOURCE_PROPERTY}: {json.dumps(source)}"] if source else []),
        "templates:",
    ]
    for path, name, _text in definition.templates:
        lines += [f"  {path}:", "    when: [create, copy, rename]", f"    template: {name}"]
    return "\n".join(lines) + "\n"


def metadata_tar(definition: ImageDefinition, created: int, source: str = "") -> bytes:
    """The metadata half of a split Incus image."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        _add_file(tar, "metadata.yaml", metadata_yaml(definition, created, source).encode())
        for _path, name, text in definition.templates:
            _add_file(tar, f"templates/{name}", text.encode())
    return buffer.getvalue()


def _add_file(tar: tarfile.TarFile, path: str, content: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size = len(content)
    entry.mode = 0o644
    tar.addfile(entry, io.BytesIO(content))
