"""One file per program that runs on a machine of the home: a zip archive that Python executes.

The probe, the phone and the virtual router are pure Python over the standard library and dnspython, which Debian ships.
So a machine needs exactly one file of ours for each, and a changed hash means changed code. The bytes depend on the
sources alone: no times, no paths, fixed order.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

_SHEBANG = b"#!/usr/bin/env python3\n"
# The zip format knows no earlier time; a constant keeps the archive reproducible.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_USES: Final[Mapping[str, tuple[str, ...]]] = {"anycastlab.virtual_router": ("anycastlab.command_trees",)}
"""What a program uses besides its own package; that imports nothing else of ours either."""
_LEFT_OUT = {"__pycache__", "testing.py"}  # caches, and doubles that only tests use
SHARED = ("outside_text.py",)
"""Modules of the root package that every program may import."""


@cache
def bundle(package: str) -> bytes:
    """The executable archive of `package` (such as `anycastlab.probe`), whose `__main__` module has a `main()`.

    Contains that package and what it uses whole, data files included, the `__init__` of each parent, and what is
    `SHARED`. Deterministic.
    """
    packages = (package, *_USES.get(package, ()))
    parents = sorted({one.rpartition(".")[0] for one in packages})
    out = io.BytesIO()
    out.write(_SHEBANG)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        _write(archive, "__main__.py", f"import sys\nfrom {package}.__main__ import main\nsys.exit(main())\n".encode())
        for parent in parents:
            _write(archive, f"{parent.replace('.', '/')}/__init__.py", _read(resources.files(parent), "__init__.py"))
        for module in SHARED:
            _write(archive, f"anycastlab/{module}", _read(resources.files("anycastlab"), module))
        for one in packages:
            for path, content in sorted(_walk(resources.files(one), PurePosixPath(*one.split(".")))):
                _write(archive, str(path), content)
    return out.getvalue()


def _walk(folder: Traversable, at: PurePosixPath) -> list[tuple[PurePosixPath, bytes]]:
    found: list[tuple[PurePosixPath, bytes]] = []
    for entry in folder.iterdir():
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir():
            found.extend(_walk(entry, at / entry.name))
        else:
            found.append((at / entry.name, entry.read_bytes()))
    return found


def _read(folder: Traversable, name: str) -> bytes:
    return folder.joinpath(name).read_bytes()


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)
