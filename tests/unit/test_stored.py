"""A damaged file is never nothing there, and every file that is read again says so in one plain sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from anycastlab import stored
from anycastlab.errors import AnycastlabError
from anycastlab.routeros import backup, credentials, originals
from anycastlab.routeros.backup import directory
from anycastlab.scenarios import guardian

HOST = "192.0.2.1"


def fifo(path: Path) -> None:
    os.mkfifo(path)


DAMAGE = [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"\n"),
    lambda path: path.write_text("[]"),
    lambda path: path.write_text("{}"),
    lambda path: path.write_text("null"),
    lambda path: path.write_text('{"a": 1}'),
    lambda path: path.write_text('{"/ip/dns": {"allow-remote-requests": 7}}'),
    lambda path: path.write_text('{"/ip/dns"'),
    lambda path: path.write_bytes(bytes(range(256)) * 4),
    lambda path: path.write_text("[" * 200_000),
    lambda path: path.write_text('{"a":' * 200_000),
    lambda path: path.write_text("1" * 10_000),
    lambda path: path.write_text('{"a": Infinity}'),
    fifo,
    lambda path: path.mkdir(),
]  # fmt: skip


def sentence(read: Callable[[], object]) -> AnycastlabError:
    with pytest.raises(AnycastlabError) as caught:
        read()
    for python in ("Error(", "<class", "{'", "['", "NoneType", "object has", "Traceback"):
        assert python not in str(caught.value)
    assert caught.value.problem.endswith(".")
    return caught.value


@pytest.mark.parametrize("damage", [one for one in DAMAGE if one is not DAMAGE[3]])  # nothing was there before
def test_the_record_of_a_routers_settings_is_never_nothing_there(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    path = directory(tmp_path, HOST) / originals.FILE_NAME
    path.parent.mkdir(parents=True)
    damage(path)
    assert str(path) in sentence(lambda: originals.load(tmp_path, HOST)).problem


def test_without_a_record_nothing_was_changed_yet(tmp_path: Path) -> None:
    assert originals.load(tmp_path, HOST) == {}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_backup_is_one_sentence(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    damage(tmp_path / "b.json")
    assert "b.json" in sentence(lambda: backup.load(tmp_path / "b.json")).problem


@pytest.mark.parametrize("damage", [one for one in DAMAGE if one is not DAMAGE[3]])  # no entry is no password yet
def test_a_damaged_file_of_passwords_is_one_sentence(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = tmp_path / "routers.json"
    damage(path)
    path.chmod(0o600)
    assert str(path) in sentence(lambda: credentials._entries(path, HOST)).problem


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"settings": 5}', '{"settings": [1]}', "[" * 200_000, "x", '{"settings": "ab"}']
)
def test_a_damaged_record_of_an_unfinished_fault_is_one_sentence(text: str) -> None:
    assert "The record of an unfinished fault cannot be read" in sentence(lambda: guardian.parse(text)).problem


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(stored.MOST + 1)
    with pytest.raises(stored.Damaged, match="larger than"):
        stored.read_json(path)


def test_a_line_without_end_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n" + b"x" * (stored.MOST_LINE + 1))
    with stored.opened(path) as file, pytest.raises(stored.Damaged, match="line 2 is longer than"):
        list(stored.lines(file))
