"""Credentials come from the environment or a private file, and are asked for in words otherwise."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from anycastlab.routeros.credentials import FILE_NAME, credentials, store_credentials
from anycastlab.routeros.errors import RouterDenied


def test_the_environment_wins(tmp_path: Path) -> None:
    store_credentials("192.0.2.1", "filed", "filed-secret", tmp_path)
    environment = {"ANYCASTLAB_ROUTER_USER": "me", "ANYCASTLAB_ROUTER_PASSWORD": ""}
    assert credentials("192.0.2.1", "default", tmp_path, environment) == ("me", "")
    assert credentials("192.0.2.1", "default", tmp_path, {}) == ("filed", "filed-secret")
    assert credentials("192.0.2.1", "default", tmp_path, {"ANYCASTLAB_ROUTER_USER": "me"}) == ("me", "filed-secret")


def test_stored_credentials_are_private_and_kept_per_host(tmp_path: Path) -> None:
    store_credentials("a", "u", "1", tmp_path)
    path = store_credentials("b", "u", "no", tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [credentials(host, "x", tmp_path, {})[1] for host in ("a", "b")] == ["1", "no"]
    assert [entry.name for entry in tmp_path.iterdir()] == [FILE_NAME]


def test_a_file_others_can_read_is_refused(tmp_path: Path) -> None:
    store_credentials("a", "u", "geheim", tmp_path).chmod(0o640)
    with pytest.raises(RouterDenied, match="can be read by others") as caught:
        credentials("a", "u", tmp_path, {})
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "[]", '{"a": "x"}', '{"a": {"user": "x"}}', "\x00"])
def test_a_broken_file_is_refused_in_words(content: str, tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(RouterDenied, match=FILE_NAME):
        credentials("a", "u", tmp_path, {})


def test_none_at_all_names_both_ways(tmp_path: Path) -> None:
    with pytest.raises(RouterDenied, match=r"ANYCASTLAB_ROUTER_PASSWORD .*router-credentials\.json"):
        credentials("a", "u", tmp_path, {})
