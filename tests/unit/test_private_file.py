"""Secrets are never readable by others, not for a moment, and never half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anycastlab import private_file


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_on_the_way_are_private_too(tmp_path: Path) -> None:
    private_file.replace(tmp_path / "a/b/secret", "1")
    assert [mode(tmp_path / "a"), mode(tmp_path / "a/b"), mode(tmp_path / "a/b/secret")] == [0o700, 0o700, 0o600]


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    private_file.replace(tmp_path / "open/secret", "1")
    assert mode(tmp_path / "open") == 0o755


def test_replacing_makes_a_new_file_so_a_reader_of_the_old_one_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as reader:
        private_file.replace(path, "new")
        assert reader.read() == "old"
    assert (path.read_text(), mode(path)) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_first_of_two_creates(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert private_file.create(path, "first")
    assert not private_file.create(path, "second")
    assert (path.read_text(), mode(path)) == ("first", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [private_file.replace, private_file.create])
def test_what_a_killed_run_left_is_not_written_into(tmp_path: Path, write: object) -> None:
    left = tmp_path / f".secret.{os.getpid()}"
    left.write_text("left")
    left.chmod(0o666)
    with left.open() as reader:
        assert callable(write)
        write(tmp_path / "secret", "1")
        assert reader.read() == "left"
    assert mode(tmp_path / "secret") == 0o600
