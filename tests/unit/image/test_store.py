"""The image in the server, against an Incus that exists only here."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anycastlab.image import build
from anycastlab.image.definition import DerivedDefinition, ImageDefinition
from anycastlab.image.errors import ImageError
from anycastlab.image.store import ImageStore, fingerprint

STANDARD = ImageDefinition("x86_64")
OLD = ImageDefinition("x86_64", layout=0)


class FakeIncus:
    """Answers the command lines the store uses, from a dictionary of images."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.calls: list[list[str]] = []
        self.breaks: BaseException | None = None
        self.enters_before_breaking = False

    def add(self, name: str, *aliases: str, digest: str = "") -> None:
        properties = {"anycastlab.definition": digest} if digest else {}
        self.images[name] = {"aliases": list(aliases), "properties": properties}

    def __call__(self, arguments: Sequence[str], _timeout_s: float) -> str:
        self.calls.append(list(arguments))
        match list(arguments):
            case ["query", path]:
                return json.dumps(self._answer(path.partition(":")[2].partition("?")[0]))
            case ["image", "import", "-q", metadata, rootfs, _remote, "--alias", alias, "--project", "default"]:
                name = fingerprint(Path(metadata), Path(rootfs))
                if self.breaks is not None:
                    if self.enters_before_breaking:
                        self.add(name, digest=STANDARD.digest)
                    raise self.breaks
                self.add(name, alias, digest=STANDARD.digest)
            case ["image", "delete", target, "--project", "default"]:
                del self.images[target.partition(":")[2]]
            case ["image", "alias", "create", alias, name, "--project", "default"]:
                self.images[name]["aliases"].append(alias.partition(":")[2])
            case unknown:
                raise AssertionError(unknown)
        return ""

    def _answer(self, path: str) -> Any:
        if path == "/1.0":
            return {"environment": {"kernel_architecture": "x86_64"}}
        if path == "/1.0/images/aliases":
            return [{"name": alias} for image in self.images.values() for alias in image["aliases"]]
        if path == "/1.0/operations":
            return {}
        assert path == "/1.0/images"
        return [
            {
                "fingerprint": name,
                "aliases": [{"name": alias} for alias in image["aliases"]],
                "properties": image["properties"],
                "size": 1,
            }
            for name, image in self.images.items()
        ]


@pytest.fixture
def incus() -> FakeIncus:
    return FakeIncus()


@pytest.fixture
def halves(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "metadata").write_bytes(b"one")
    (tmp_path / "rootfs").write_bytes(b"two")
    return tmp_path / "metadata", tmp_path / "rootfs"


def test_an_image_is_found_after_its_import(incus: FakeIncus, halves: tuple[Path, Path]) -> None:
    store = ImageStore(run=incus)
    assert not store.find(STANDARD)

    store.import_image(STANDARD, *halves)

    assert store.find(STANDARD)
    assert not store.find(OLD)


@pytest.mark.parametrize("entered", [False, True])
@pytest.mark.parametrize("reason", [KeyboardInterrupt(), ImageError("The disk is full.")])
def test_an_import_that_was_cut_off_leaves_nothing(
    incus: FakeIncus, halves: tuple[Path, Path], reason: BaseException, entered: bool
) -> None:
    # The server may have entered the image although the client never got to naming it.
    incus.add("foreign", "debian")
    incus.breaks, incus.enters_before_breaking = reason, entered

    with pytest.raises(type(reason)):
        ImageStore(run=incus).import_image(STANDARD, *halves)

    assert list(incus.images) == ["foreign"]


def test_a_complete_image_that_lost_its_alias_is_adopted(incus: FakeIncus) -> None:
    incus.add("abc", digest=STANDARD.digest)

    assert ImageStore(run=incus).find(STANDARD)

    assert incus.images["abc"]["aliases"] == [STANDARD.alias]


def test_prune_removes_our_old_images_alone(incus: FakeIncus) -> None:
    incus.add("foreign", "debian")
    incus.add("current", STANDARD.alias, digest=STANDARD.digest)
    incus.add("old", OLD.alias, digest=OLD.digest)
    incus.add("nameless", digest=OLD.digest)
    incus.add("wished", "anycastlab-remote-images-debian-13-x86_64")

    removed = ImageStore(run=incus).prune(keep=STANDARD)

    assert removed == [OLD.alias, "nameless"]
    assert sorted(incus.images) == ["current", "foreign", "wished"]


def test_an_image_made_from_a_remotes_is_found_again_without_asking_the_remote(incus: FakeIncus) -> None:
    derived = DerivedDefinition("x86_64", source="images:debian/13")
    incus.add("abc", derived.alias, digest=derived.digest)

    assert build.ensure("images:debian/13", store=ImageStore(run=incus)) == derived.alias

    assert {call[0] for call in incus.calls} == {"query"}


def test_an_image_that_is_there_is_used_by_its_name(incus: FakeIncus) -> None:
    incus.add("x", "mine")

    assert build.ensure("mine", store=ImageStore(run=incus)) == "mine"


def test_an_image_that_is_not_there_is_one_sentence(incus: FakeIncus) -> None:
    with pytest.raises(ImageError, match=r"^The Incus server has no image 'mine'\."):
        build.ensure("mine", store=ImageStore(run=incus))


def test_a_built_image_is_not_built_again(incus: FakeIncus) -> None:
    incus.add("abc", STANDARD.alias, digest=STANDARD.digest)

    assert build.ensure(store=ImageStore(run=incus)) == STANDARD.alias

    assert {call[0] for call in incus.calls} == {"query"}


def test_a_second_builder_waits_and_takes_the_first_ones_image(
    incus: FakeIncus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Given another run that holds the lock
    monkeypatch.setenv("ANYCASTLAB_CACHE", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("anycastlab.image.limits.LOCK_POLL_S", 0.01)
    said: list[str] = []

    with (tmp_path / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def first_one_finishes(line: str) -> None:
            said.append(line)
            incus.add("abc", STANDARD.alias, digest=STANDARD.digest)
            fcntl.flock(lock, fcntl.LOCK_UN)

        # When we want the same image; the other run finishes once we have begun to wait
        alias = build.ensure(store=ImageStore(run=incus), say=first_one_finishes)

    # Then nothing was built
    assert alias == STANDARD.alias
    assert said == ["Another run is building the base image; waiting for it …"]
    assert list(incus.images) == ["abc"]


def test_a_foreign_architecture_is_refused_before_anything_is_made(
    incus: FakeIncus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANYCASTLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    with pytest.raises(ImageError) as error:
        build.ensure(store=ImageStore(run=incus))

    assert str(error.value) == (
        "The Incus server needs an image for x86_64, but this machine is aarch64, and building it here would run it "
        "emulated. Run this on the server itself, or set `image` to the alias of one that is there."
    )
    assert not (tmp_path / "cache").exists()


def test_too_little_disk_is_said_with_numbers_and_leaves_nothing(
    incus: FakeIncus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANYCASTLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("anycastlab.image.build._require_programs", lambda: None)
    monkeypatch.setattr("anycastlab.image.limits.BUILD_DISK_MIB", 1 << 40)

    with pytest.raises(ImageError, match=r"needs 1099511627776 MiB free in .*, and there are \d+ MiB\."):
        build.ensure(store=ImageStore(run=incus))

    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
