"""ELF headers are read as the ABI says, whatever byte order and class."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from anycastlab import elf
from anycastlab.node import architecture


def header(number: int, bits: int = 64, big: bool = False) -> bytes:
    ident = b"\x7fELF" + bytes([1 if bits == 32 else 2, 2 if big else 1, 1]) + bytes(9)
    return ident + struct.pack(f"{'>' if big else '<'}HH", 2, number)


@pytest.mark.parametrize(
    ("number", "bits", "big", "name"),
    [
        (62, 64, False, "x86_64"),
        (183, 64, False, "aarch64"),
        (40, 32, False, "armv7l"),
        (3, 32, False, "i686"),
        (243, 64, False, "riscv64"),
        (22, 64, True, "s390x"),
        (4242, 64, False, "ELF machine 4242 (64 bit)"),
    ],
)
def test_machines(number: int, bits: int, big: bool, name: str) -> None:
    assert elf.machine(header(number, bits, big)) == name


def test_the_running_interpreter_is_for_this_machine() -> None:
    with Path(sys.executable).resolve().open("rb") as file:
        found = elf.machine(file.read(elf.HEADER_BYTES))
    import os

    assert found == architecture.canonical(os.uname().machine)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n" + bytes(20), b"\x7fELF\x03\x01" + bytes(20)])
def test_what_is_no_elf_file(content: bytes) -> None:
    with pytest.raises(elf.NotElfError):
        elf.machine(content)
