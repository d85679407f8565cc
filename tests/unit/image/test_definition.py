"""The alias is the content: the same everywhere for the same definition, another one for any change."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from dataclasses import fields, replace
from typing import Any

import pytest
import yaml

from anycastlab.image.definition import FILES, ImageDefinition, is_own_alias
from anycastlab.image.errors import ImageError
from anycastlab.image.overlay import metadata_tar, metadata_yaml, overlay_tar

STANDARD = ImageDefinition("x86_64")

CHANGES: dict[str, Any] = {
    "architecture": "aarch64",
    "release": 12,
    "packages": (*STANDARD.packages, "dnsperf"),
    "enabled": (),
    "disabled": STANDARD.disabled[1:],
    "masked": STANDARD.masked[1:],
    "files": (*FILES, ("etc/motd", "hello\n")),
    "templates": STANDARD.templates[1:],
    "left_out": (),
    "kept": (),
    "layout": STANDARD.layout + 1,
}


def test_the_alias_names_release_and_architecture() -> None:
    assert STANDARD.alias.startswith("anycastlab-debian13-x86_64-")
    assert ImageDefinition("aarch64", release=12).alias.startswith("anycastlab-debian12-aarch64-")
    assert is_own_alias(STANDARD.alias)


def test_the_hash_is_the_same_in_another_process() -> None:
    # Hash randomisation or set order would show here: then every run would build its own image.
    code = "from anycastlab.image.definition import ImageDefinition; print(ImageDefinition('x86_64').alias)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == STANDARD.alias


@pytest.mark.parametrize("field", [field.name for field in fields(ImageDefinition)])
def test_every_field_changes_the_alias(field: str) -> None:
    assert replace(STANDARD, **{field: CHANGES[field]}).digest != STANDARD.digest


def test_a_change_inside_a_file_changes_the_alias() -> None:
    path, text = FILES[0]

    assert replace(STANDARD, files=((path, text + "\n"), *FILES[1:])).digest != STANDARD.digest


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"release": 11}, "The base image cannot be Debian 11. Releases it can be: 12 and 13."),
        ({"architecture": "amd64"}, "The base image cannot be built for the architecture 'amd64'."),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ImageError) as error:
        ImageDefinition(**{"architecture": "x86_64", **arguments})

    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    "alias",
    [
        "debian-13",
        "anycastlab-debian13",
        "anycastlab-debian13-x86_64-4354973ce11",
        "anycastlab-debian13-x86_64-4354973ce11g",
        "anycastlab-debianX-x86_64-4354973ce115",
        "anycastlab-debian13-amd64-4354973ce115",
        "anycastlab-remote-images-debian-13-x86_64",
    ],
)
def test_aliases_of_other_people_are_not_ours(alias: str) -> None:
    assert not is_own_alias(alias)


def test_metadata_is_what_incus_reads() -> None:
    metadata = yaml.safe_load(metadata_yaml(STANDARD, created=1_700_000_000))

    assert metadata["architecture"] == "x86_64"
    assert metadata["creation_date"] == 1_700_000_000
    assert metadata["properties"]["anycastlab.definition"] == STANDARD.digest
    assert metadata["templates"]["/etc/hostname"] == {"when": ["create", "copy", "rename"], "template": "hostname.tpl"}


def test_every_template_that_is_named_is_in_the_tarball() -> None:
    with tarfile.open(fileobj=io.BytesIO(metadata_tar(STANDARD, 0))) as tar:
        metadata = yaml.safe_load(tar.extractfile("metadata.yaml") or b"")
        for template in metadata["templates"].values():
            assert tar.getmember(f"templates/{template['template']}").isfile()


def test_the_overlay_masks_units_and_brings_no_directories() -> None:
    with tarfile.open(fileobj=io.BytesIO(overlay_tar(STANDARD))) as tar:
        members = {member.name: member for member in tar}

    masked = members["etc/systemd/system/systemd-modules-load.service"]
    assert masked.issym()
    assert masked.linkname == "/dev/null"
    assert members["etc/machine-id"].size == 0
    assert not any(member.isdir() for member in members.values())
    assert {member.uid for member in members.values()} == {0}


def test_the_overlay_is_deterministic() -> None:
    assert overlay_tar(STANDARD) == overlay_tar(ImageDefinition("x86_64"))
