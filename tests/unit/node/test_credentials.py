"""The administrator's password: from the environment, or made once and kept to ourselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anycastlab.node import credentials
from anycastlab.node.errors import NodeError


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path / "state"))
    monkeypatch.delenv(credentials.VARIABLE, raising=False)


def test_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials.adguard_password(create=True)
    monkeypatch.setenv(credentials.VARIABLE, "from the environment")
    assert credentials.adguard_password(create=True) == "from the environment"


def test_one_is_made_once_and_only_its_owner_reads_it() -> None:
    made = credentials.adguard_password(create=True)
    assert made
    assert len(made) >= 20
    assert credentials.adguard_password(create=True) == made
    path = credentials.password_file()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_dry_run_makes_none() -> None:
    assert credentials.adguard_password(create=False) is None
    assert not credentials.password_file().parent.exists()


def test_a_password_that_bcrypt_would_cut_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(credentials.VARIABLE, "ä" * 40)
    with pytest.raises(NodeError, match="longer than 72 bytes"):
        credentials.adguard_password(create=True)


def test_a_password_that_nobody_can_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(credentials.VARIABLE, "two\nlines")
    with pytest.raises(NodeError, match="ANYCASTLAB_ADGUARD_PASSWORD has characters that nobody can type"):
        credentials.adguard_password(create=True)


def test_a_pipe_in_the_place_of_the_password_does_not_hold_anybody_up() -> None:
    path = credentials.password_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(NodeError, match="is empty or damaged"):
        credentials.adguard_password(create=True)


def test_hashes_are_bcrypt_of_the_least_cost_that_is_accepted() -> None:
    hashed = credentials.bcrypt_hash("secret")
    assert hashed.startswith("$2b$10$")
    assert len(hashed) == 60
    assert credentials.bcrypt_matches("secret", hashed)
    assert not credentials.bcrypt_matches("Secret", hashed)
    assert not credentials.bcrypt_matches("secret", "no hash")


def test_a_state_folder_that_is_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(NodeError, match="password file"):
        credentials.adguard_password(create=True)


@pytest.mark.parametrize("content", [b"", b"\n", b" \n", b"\xff\xfe", b"a\0b", b"x" * 100])
@pytest.mark.parametrize("create", [True, False])
def test_a_damaged_file_is_no_password_and_stays(content: bytes, create: bool) -> None:
    path = credentials.password_file()
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(NodeError, match=r"The password file .* is (empty or )?damaged\."):
        credentials.adguard_password(create=create)
    assert path.read_bytes() == content
