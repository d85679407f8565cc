"""A machine that would run emulated is refused before anything is installed: a real arm64 system whose image lies.

Debian for the other architecture, run by qemu-user, in an image that says it is this machine's: it starts, Incus
believes it, and `uname -m` in it says what the lie's victim wants to hear.
"""

from __future__ import annotations

import base64
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from anycastlab import elf
from anycastlab.incus import instances, labs
from anycastlab.incus.spec import InstanceSpec, Nic
from anycastlab.paths import cache_dir
from anycastlab.site.topology import DNS, ROUTER_DNS
from tests.lab.node_lab import NodeLab

HERE = os.uname().machine
# (architecture, Debian's name, qemu's binfmt entry) of a machine that this one is not
FOREIGN = ("aarch64", "arm64", "qemu-aarch64") if HERE != "aarch64" else ("x86_64", "amd64", "qemu-x86_64")
ALIAS = "anycastlab-test-foreign"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# Nothing of the system is used but its shell and basic programs, so its init only has to stay.
INIT = "#!/bin/sh\nexec sleep infinity\n"
PROGRAMS = "base-files,coreutils,dash,findutils,grep,sed"
MIRROR_TIMEOUT_S = 600


@pytest.fixture(scope="module")
def emulation() -> Iterator[None]:
    """Programs of the other machine run here, as on a host with qemu-user-static; switched off again if it was off."""
    mounted = (BINFMT / "register").exists()
    if not mounted:
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)], check=True)
    was_on = (BINFMT / FOREIGN[2]).exists()
    subprocess.run(["update-binfmts", "--enable", FOREIGN[2]], check=True)
    yield
    if not was_on:
        subprocess.run(["update-binfmts", "--disable", FOREIGN[2]], check=True)
    if not mounted:
        subprocess.run(["umount", str(BINFMT)], check=True)


@pytest.fixture(scope="module")
def root(emulation: None) -> Path:  # noqa: ARG001
    """The other architecture's Debian, unpacked and no more; kept, for it takes a minute to fetch."""
    path = cache_dir() / "tests" / f"debian-{FOREIGN[1]}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new.tar")
        build = ["mmdebstrap", f"--arch={FOREIGN[1]}", "--variant=extract", f"--include={PROGRAMS}"]
        subprocess.run([*build, "trixie", str(fresh)], check=True, capture_output=True, timeout=MIRROR_TIMEOUT_S)
        with tarfile.open(fresh, "a") as tar:
            _add(tar, "./usr/sbin/init", INIT, mode=0o755)
        fresh.rename(path)
    return path


def _add(tar: tarfile.TarFile, name: str, text: str, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(text.encode()), mode
    tar.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def liar(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeLab]:
    """node01 from an image with that Debian in it, whose metadata names this machine's architecture."""
    folder = tmp_path_factory.mktemp("foreign")
    lab = NodeLab(name="foreign", count=1, image=ALIAS, folder=folder)
    metadata = folder / "metadata.tar"
    with tarfile.open(metadata, "w") as tar:
        _add(tar, "metadata.yaml", yaml.safe_dump({"architecture": HERE, "creation_date": 1}))
    incus = ["incus", "--project", "default", "-q", "image"]
    lab.remove()
    subprocess.run([*incus, "delete", ALIAS], check=False, capture_output=True)
    subprocess.run([*incus, "import", str(metadata), str(root), "--alias", ALIAS], check=True)
    try:
        labs.ensure_lab_networks(lab.rest, lab.lab, [lab.lab.bridge("dns")])
        spec = InstanceSpec(
            name="node01", nics=(Nic("eth0", lab.lab.bridge("dns"), DNS[11], DNS.prefixlen, ROUTER_DNS),)
        )
        instances.create(lab.rest, spec, lab.lab, ALIAS)
        instances.start(lab.rest, "node01")
        yield lab
    finally:
        lab.remove()
        subprocess.run([*incus, "delete", ALIAS], check=False, capture_output=True)


def test_everything_about_it_lies_but_two_witnesses(liar: NodeLab) -> None:
    # Incus believes the image,
    instance = liar.rest.get("/instances/node01")
    assert instance["architecture"] == HERE
    # the system believes its emulator,
    assert liar.shell("node01", "uname -m").strip() == FOREIGN[0]
    # and the kernel and the programs' own headers tell the truth.
    assert liar.shell("node01", "cat /proc/sys/kernel/arch").strip() == HERE
    assert elf.machine(base64.b64decode(liar.shell("node01", "head -c 20 /bin/sh | base64"))) == FOREIGN[0]


def test_it_is_refused_and_nothing_is_installed(liar: NodeLab) -> None:
    before = liar.shell("node01", "find / -xdev -newer /proc/1 -type f | sort")
    # when it is to become a node
    run = liar.configure(liar.site.nodes[0])
    # then it is refused in one sentence that names both machines and what to do
    assert run.code != 0
    assert (
        f"node01 would run emulated: its programs are {FOREIGN[0]}, the kernel is {HERE}. "
        f"Use an image or system built for {HERE}; nothing was installed."
    ) in run.output
    assert "Traceback" not in run.output
    # and nothing was
    assert liar.shell("node01", "find / -xdev -newer /proc/1 -type f | sort") == before


def test_a_dry_run_refuses_it_too(liar: NodeLab) -> None:
    run = liar.configure(liar.site.nodes[0], None, "--dry")
    assert run.code == 1
    assert "would run emulated" in run.output
    assert "Traceback" not in run.output
