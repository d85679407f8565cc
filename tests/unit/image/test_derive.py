"""Starting from another server's image: what is refused before anything of it runs, and what is unpacked."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from anycastlab.image import derive
from anycastlab.image.definition import DerivedDefinition, ImageDefinition
from anycastlab.image.errors import ImageError
from anycastlab.image.store import ImageStore

DEFINITION = DerivedDefinition("x86_64", source="attic:debian/12")
BOOKWORM = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'


def elf_head(machine: int) -> bytes:
    return b"\x7fELF\x02\x01".ljust(18, b"\0") + machine.to_bytes(2, "little")


class Attic(ImageStore):
    """A server with one image, in one of the shapes that Incus exports."""

    def __init__(self, tree: Path, shape: str) -> None:
        super().__init__(run=self.__call__)
        self.tree, self.shape = tree, shape

    def __call__(self, arguments: Sequence[str], _timeout_s: float) -> str:
        assert arguments[:4] == ["image", "export", "-q", "--"]
        assert arguments[4] == DEFINITION.source
        image, tree = Path(arguments[5]), str(self.tree)
        split = f"{image}.root"
        match self.shape:
            case "squashfs":
                command = ["mksquashfs", tree, split, "-quiet", "-no-progress"]
            case "tar":
                command = ["tar", "-C", tree, "-czf", split, "."]
            case _unified:
                (self.tree.parent / "metadata.yaml").write_text("architecture: x86_64\n")
                (self.tree.parent / "templates").mkdir()
                parts = ["metadata.yaml", "templates", "rootfs"]
                command = ["tar", "-C", str(self.tree.parent), "-czf", f"{image}.tar.gz", *parts]
        subprocess.run(command, check=True, capture_output=True)
        if self.shape != "unified":
            image.write_bytes(b"metadata")
        return ""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root file system with just enough in it."""
    tree = tmp_path / "image" / "rootfs"
    for folder in ("usr/lib", "usr/bin", "etc/apt/apt.conf.d", "dev", "templates"):
        (tree / folder).mkdir(parents=True)
    (tree / "usr/lib/os-release").write_text(BOOKWORM)
    (tree / "usr/bin/dpkg").write_bytes(elf_head(62))
    (tree / "usr/bin/again").hardlink_to(tree / "usr/bin/dpkg")
    (tree / "etc/os-release").symlink_to("../usr/lib/os-release")
    (tree / "etc/link").symlink_to("rootfs/x")
    (tree / "dev/null").write_text("not a device")
    return tree


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work's"
    work.mkdir()
    return work


@pytest.mark.parametrize("shape", ["squashfs", "tar", "unified"])
def test_every_shape_is_looked_at_and_unpacked_without_its_devices(tree: Path, work: Path, shape: str) -> None:
    source, definition = derive.fetch(DEFINITION, work, Attic(tree, shape))

    target = work / "target"
    (target / "dev").mkdir(parents=True)
    subprocess.run(["sh", "-ec", source.unpack_command(), "sh", str(target)], check=True, capture_output=True)

    # The release is the image's own, and does not change what the result is called.
    assert (definition.release, definition.alias) == (12, DEFINITION.alias)
    assert (target / "etc/os-release").read_text() == BOOKWORM
    assert (target / "etc/link").readlink() == Path("rootfs/x")
    assert (target / "usr/bin/again").samefile(target / "usr/bin/dpkg")
    assert list((target / "dev").iterdir()) == []
    assert not (target / "metadata.yaml").exists()
    assert not (target / "rootfs").exists()


@pytest.mark.parametrize(
    ("os_release", "sentence"),
    [
        (
            'ID=alpine\nVERSION_ID=3.22\nPRETTY_NAME="Alpine Linux v3.22"\n',
            "The lab cannot use the image attic:debian/12: it is Alpine Linux v3.22. Name one of Debian 12 or 13.",
        ),
        (
            "ID=debian\nVERSION_ID=11\nPRETTY_NAME='Debian GNU/Linux 11 (bullseye)'\n",
            "The lab cannot use the image attic:debian/12: it is Debian GNU/Linux 11 (bullseye). "
            "Name one of Debian 12 or 13.",
        ),
        ("", "The lab cannot use the image attic:debian/12: it is no Debian. Name one of Debian 12 or 13."),
    ],
)
def test_another_system_is_one_sentence(tree: Path, work: Path, os_release: str, sentence: str) -> None:
    (tree / "usr/lib/os-release").write_text(os_release)

    with pytest.raises(ImageError) as error:
        derive.fetch(DEFINITION, work, Attic(tree, "squashfs"))

    assert str(error.value) == sentence


def test_a_foreign_architecture_is_refused_by_its_programs_not_by_what_it_says(tree: Path, work: Path) -> None:
    (tree / "usr/bin/dpkg").write_bytes(elf_head(183))

    with pytest.raises(ImageError) as error:
        derive.fetch(DEFINITION, work, Attic(tree, "unified"))

    assert str(error.value) == (
        "The image attic:debian/12 is for aarch64, but the Incus server is x86_64: it would run emulated. "
        "Name one for x86_64."
    )


def test_the_alias_depends_on_source_and_content_alone() -> None:
    assert replace(DEFINITION, release=12).alias == DEFINITION.alias
    others = {
        replace(DEFINITION, source="attic-debian:12").alias,  # reads alike
        replace(DEFINITION, packages=("frr",)).alias,
        replace(DEFINITION, architecture="aarch64").alias,
        ImageDefinition("x86_64").alias,
        DEFINITION.alias,
    }
    assert len(others) == 5
