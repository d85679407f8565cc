"""Who would run emulated is refused; who merely runs 32-bit programs on a 64-bit kernel is not."""

from __future__ import annotations

import pytest

from anycastlab.node import architecture
from anycastlab.node.architecture import Evidence, check
from anycastlab.node.errors import ArchitectureError


@pytest.mark.parametrize(
    ("evidence", "machine"),
    [
        (Evidence("x86_64", "x86_64", "x86_64"), "x86_64"),
        (Evidence("amd64", "x86_64", None), "x86_64"),
        (Evidence("aarch64", "aarch64", "arm64"), "aarch64"),
        (Evidence("aarch64", "armv7l", None), "armv7l"),  # Raspberry Pi OS, 32 bit, on its 64-bit kernel
        (Evidence("x86_64", "i686", None), "i686"),
        (Evidence(None, "aarch64", None), "aarch64"),  # a kernel that says nothing
        (Evidence("x86_64", None, "x86_64"), "x86_64"),  # not created yet
        (Evidence(), ""),
    ],
)
def test_native_machines(evidence: Evidence, machine: str) -> None:
    assert check("node01", evidence) == machine


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        (
            Evidence("x86_64", "aarch64", "x86_64"),
            "node01 would run emulated: its programs are aarch64 (its metadata says x86_64), the kernel is x86_64. "
            "Use an image or system built for x86_64; nothing was installed.",
        ),
        (
            Evidence("x86_64", "aarch64", None),
            "node01 would run emulated: its programs are aarch64, the kernel is x86_64. "
            "Use an image or system built for x86_64; nothing was installed.",
        ),
        (
            Evidence("x86_64", None, "aarch64"),
            "node01 would run emulated: its image is for aarch64, the kernel is x86_64. "
            "Use an image built for x86_64; nothing was installed.",
        ),
        (
            Evidence("armv7l", "aarch64", None),
            "node01 would run emulated: its programs are aarch64, the kernel is armv7l. "
            "Use an image or system built for armv7l; nothing was installed.",
        ),
        (
            Evidence("aarch64", "aarch64", "x86_64"),
            "node01 is aarch64 but its image says x86_64. "
            "Rebuild or re-import the image with its true architecture, aarch64; nothing was installed.",
        ),
    ],
)
def test_refusals_name_both_architectures_and_the_fix(evidence: Evidence, sentence: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        check("node01", evidence)
    assert str(caught.value) == sentence


def test_the_inventory_is_held_to_its_word() -> None:
    assert check("pi", Evidence("aarch64", "aarch64"), wanted="arm64") == "aarch64"
    with pytest.raises(ArchitectureError) as caught:
        check("pi", Evidence("aarch64", "aarch64"), wanted="x86_64")
    assert caught.value.problem == "pi is aarch64, but the inventory says architecture='x86_64'."


@pytest.mark.parametrize(
    ("arch", "modalias", "cpuinfo", "machine"),
    [
        ("x86_64\n", "cpu:type:aarch64:feature:,0000", "", "x86_64"),
        ("", "cpu:type:x86,ven0002fam0019mod0011:feature:,0000", "", "x86_64"),
        ("", "cpu:type:aarch64:feature:,0000,0001", "", "aarch64"),
        ("", "", "vendor_id\t: AuthenticAMD\n", "x86_64"),
        ("", "", "CPU implementer\t: 0x41\n", "aarch64"),
        ("", "", "", None),
    ],
)
def test_the_kernel_by_the_most_trusted_source(arch: str, modalias: str, cpuinfo: str, machine: str | None) -> None:
    assert architecture.kernel_machine(arch, modalias, cpuinfo) == machine


def test_go_has_its_own_names() -> None:
    assert architecture.go_architecture("aarch64") == "arm64"
    assert architecture.go_architecture("armhf") == "arm"
    with pytest.raises(ArchitectureError, match="There is no AdGuard Home for the machine s390x"):
        architecture.go_architecture("s390x")
