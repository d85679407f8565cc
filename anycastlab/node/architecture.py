"""Is a machine what it says it is, or would everything on it run emulated?

`uname -m` cannot tell: under qemu-user it answers for the emulated machine. Two things cannot lie: the ELF header of a
program in the root file system, and what the kernel serves in files that qemu-user passes through
(`/proc/sys/kernel/arch` since Linux 6.1, the CPU's modalias before that). Image and instance metadata is only a claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from anycastlab.node.errors import ArchitectureError

# Names in use for the same machine: Debian's, Go's, Incus' and the kernel's own variants.
_ALIASES: Final[dict[str, str]] = {
    "amd64": "x86_64", "x86-64": "x86_64", "x64": "x86_64",
    "arm64": "aarch64", "armv8l": "aarch64", "aarch64_be": "aarch64",
    "armhf": "armv7l", "arm": "armv7l", "armv7": "armv7l", "armel": "armv7l", "armv6l": "armv7l",
    "i386": "i686", "i486": "i686", "i586": "i686", "386": "i686", "x86": "i686",
    "ppc64el": "ppc64le",
}  # fmt: skip
# Kernels that run another machine's programs on the bare CPU: 32-bit user space of the same family.
_NATIVE_TOO: Final[dict[str, frozenset[str]]] = {
    "x86_64": frozenset({"i686"}),
    "aarch64": frozenset({"armv7l"}),
}
_MODALIAS = re.compile(r"^cpu:type:([^,:]+)")
_CPUINFO: Final = (("vendor_id", "x86_64"), ("CPU implementer", "aarch64"), ("isa", "riscv64"))
_GO: Final[dict[str, str]] = {
    "x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "ppc64le": "ppc64le", "riscv64": "riscv64",
}  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """What was found about one machine. None: not looked at, or the source is not there."""

    kernel: str | None = None  # what the running kernel, or the Incus server, was built for
    userland: str | None = None  # ELF machine of a program in the root file system
    claimed: str | None = None  # metadata of the image or instance


def canonical(name: str) -> str:
    """One name per machine: `amd64` and `x86_64` are the same."""
    return _ALIASES.get(name.strip().lower(), name.strip().lower())


def go_architecture(machine: str) -> str:
    """Go's name of a machine, as in GOARCH and in the names of release archives."""
    name = canonical(machine)
    if name not in _GO:
        raise ArchitectureError(
            f"There is no AdGuard Home for the machine {machine}.", 'Set resolver="unbound" for this node.'
        )
    return _GO[name]


def kernel_machine(arch: str = "", modalias: str = "", cpuinfo: str = "") -> str | None:
    """The kernel's machine from the first source that has something, in order of trust; None if none has.

    `arch`: /proc/sys/kernel/arch; `modalias`: /sys/devices/system/cpu/modalias; `cpuinfo`: keys of /proc/cpuinfo. The
    last two name the CPU and so may say aarch64 for a 32-bit ARM kernel, x86_64 for i686: `check` lets that pass, since
    either runs the 32-bit programs without emulation.
    """
    if arch.strip():
        return canonical(arch)
    if found := _MODALIAS.match(modalias.strip()):
        return "x86_64" if found.group(1) == "x86" else canonical(found.group(1))
    for key, machine in _CPUINFO:
        if re.search(rf"^{key}\s*:", cpuinfo, re.MULTILINE):
            return machine
    return None


def check(name: str, evidence: Evidence, wanted: str | None = None) -> str:
    """The machine whose programs `name` runs natively; raises ArchitectureError with both names and the fix.

    `wanted` is the node's `architecture` in the inventory, if it has one. Nothing is known of a machine that does not
    exist yet: then the claim is judged, or nothing.
    """
    kernel = canonical(evidence.kernel) if evidence.kernel else None
    claimed = canonical(evidence.claimed) if evidence.claimed else None
    userland = canonical(evidence.userland) if evidence.userland else None
    if userland and kernel and not _runs(kernel, userland):
        lie = f" (its metadata says {claimed})" if claimed and claimed != userland else ""
        raise ArchitectureError(
            f"{name} would run emulated: its programs are {userland}{lie}, the kernel is {kernel}.",
            f"Use an image or system built for {kernel}; nothing was installed.",
        )
    if claimed and userland and claimed != userland and not _runs(claimed, userland):
        raise ArchitectureError(
            f"{name} is {userland} but its image says {claimed}.",
            f"Rebuild or re-import the image with its true architecture, {userland}; nothing was installed.",
        )
    if claimed and kernel and not userland and not _runs(kernel, claimed):
        raise ArchitectureError(
            f"{name} would run emulated: its image is for {claimed}, the kernel is {kernel}.",
            f"Use an image built for {kernel}; nothing was installed.",
        )
    machine = userland or claimed or kernel
    if wanted and machine and canonical(wanted) != machine:
        raise ArchitectureError(
            f"{name} is {machine}, but the inventory says architecture={wanted!r}.",
            "Correct the inventory, or reinstall the machine; nothing was installed.",
        )
    return machine or ""


def _runs(kernel: str, program: str) -> bool:
    return program == kernel or program in _NATIVE_TOO.get(kernel, frozenset())
