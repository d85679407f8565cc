"""Files in a real instance, running and stopped."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import pytest

from anycastlab.incus import files, instances, labs, replace
from anycastlab.incus.errors import IncusError
from anycastlab.incus.exec import execute
from anycastlab.incus.rest import Rest

from .conftest import LAB, spec_of

EVERY_BYTE = bytes(range(256))


def owner_and_mode(rest: Rest, box: str, path: str) -> str:
    """As seen from inside."""
    return execute(rest, box, ["stat", "-c", "%u:%g %a", path]).text.strip()


def test_a_new_file_has_content_owner_and_mode(rest: Rest, box: str) -> None:
    replace.put(rest, box, "/root/new", EVERY_BYTE, mode=0o640, uid=33, gid=34)
    assert owner_and_mode(rest, box, "/root/new") == "33:34 640"
    assert files.get(rest, box, "/root/new") == EVERY_BYTE


def test_an_existing_file_gets_them_too_in_one_step(rest: Rest, box: str) -> None:
    replace.put(rest, box, "/root/old", b"old", mode=0o644)
    inode = execute(rest, box, ["stat", "-c", "%i", "/root/old"]).text
    replace.put(rest, box, "/root/old", b"", mode=0o4755, uid=1, gid=2)
    assert owner_and_mode(rest, box, "/root/old") == "1:2 4755"
    assert files.get(rest, box, "/root/old") == b""
    # Another inode: whoever had the old file open still reads the old one, whole.
    assert execute(rest, box, ["stat", "-c", "%i", "/root/old"]).text != inode


def test_what_cannot_be_replaced_leaves_no_temporary_file(rest: Rest, box: str) -> None:
    files.make_directories(rest, box, "/root/folder/inner")
    with pytest.raises(IncusError, match="cannot overwrite directory"):
        replace.put(rest, box, "/root/folder", b"x")
    assert execute(rest, box, ["find", "/root", "-name", ".folder.*"]).stdout == b""


def test_thirty_megabytes_are_streamed_from_a_file(rest: Rest, box: str, tmp_path: Path) -> None:
    block = hashlib.sha256(b"seed").digest() * 32768
    (tmp_path / "large").write_bytes(block * 30)
    with (tmp_path / "large").open("rb") as source:
        replace.put(rest, box, "/root/large", source, mode=0o755)
    received = hashlib.sha256()
    for piece in files.stream(rest, box, "/root/large"):
        received.update(piece)
    assert received.digest() == hashlib.sha256(block * 30).digest()


def test_directories_get_their_mode_and_existing_ones_keep_theirs(rest: Rest, box: str) -> None:
    files.make_directories(rest, box, "/root/a", mode=0o700, uid=7, gid=8)
    files.make_directories(rest, box, "/root/a/b/c", mode=0o750)
    assert owner_and_mode(rest, box, "/root/a") == "7:8 700"
    assert owner_and_mode(rest, box, "/root/a/b/c") == "0:0 750"


def test_status_does_not_follow_links(rest: Rest, box: str) -> None:
    execute(rest, box, ["ln", "-sf", "/nowhere", "/root/link"])
    found = files.status(rest, box, "/root/link")
    assert found is not None
    assert found.type == "symlink"
    assert files.status(rest, box, "/root/nothing") is None


def test_a_stopped_instance_takes_files_before_its_first_boot(rest: Rest, box: str, image: str) -> None:
    assert box
    spec = spec_of("cold", 201)
    labs.ensure_lab_networks(rest, LAB)
    instances.create(rest, spec, LAB, image)
    try:
        files.place(rest, "cold", "/etc/hostname", b"other\n", mode=0o600, uid=5)
        files.place(rest, "cold", "/srv/some/where/file", BytesIO(EVERY_BYTE), mode=0o640)
        # A link into the running system's /run must not lead the write astray.
        rest.write("/instances/cold/files", b"/run/elsewhere", files.headers("symlink"), path="/etc/link.conf")
        files.place(rest, "cold", "/etc/link.conf", b"mine\n")
        assert rest.get("/instances/cold")["status"] == "Stopped"
        instances.start(rest, "cold")
        assert owner_and_mode(rest, "cold", "/etc/hostname") == "5:0 600"
        assert files.get(rest, "cold", "/srv/some/where/file") == EVERY_BYTE
        assert owner_and_mode(rest, "cold", "/srv/some") == "0:0 755"
        assert execute(rest, "cold", ["cat", "/etc/link.conf"]).stdout == b"mine\n"
    finally:
        instances.delete(rest, "cold")
