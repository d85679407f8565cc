"""The first bytes of a program say which machine it was made for; they cannot be talked out of it.

Source: System V ABI, ELF header (`e_ident`, `e_machine`).
"""

from __future__ import annotations

import struct
from typing import Final

HEADER_BYTES: Final = 20  # up to and including e_machine

_MAGIC: Final = b"\x7fELF"
_CLASS = {1: 32, 2: 64}
_ORDER = {1: "<", 2: ">"}
# e_machine (and class, where one number serves two) -> the kernel's name of the machine
_MACHINES: Final[dict[tuple[int, int], str]] = {
    (3, 32): "i686",
    (20, 32): "ppc",
    (21, 64): "ppc64le",
    (22, 64): "s390x",
    (40, 32): "armv7l",
    (62, 64): "x86_64",
    (183, 64): "aarch64",
    (243, 32): "riscv32",
    (243, 64): "riscv64",
    (258, 64): "loongarch64",
}


class NotElfError(ValueError):
    """The bytes are no ELF header."""


def machine(head: bytes) -> str:
    """Name of the machine in an ELF header (`x86_64`, `aarch64` …); an unknown one is named by its number.

    Raises NotElfError for anything else than an ELF file.
    """
    if len(head) < HEADER_BYTES or head[:4] != _MAGIC or head[4] not in _CLASS or head[5] not in _ORDER:
        raise NotElfError("not an ELF file")
    bits = _CLASS[head[4]]
    (number,) = struct.unpack_from(f"{_ORDER[head[5]]}H", head, 18)
    return _MACHINES.get((number, bits), f"ELF machine {number} ({bits} bit)")
