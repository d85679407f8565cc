"""The configuration survives a restart, a lost power supply and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anycastlab.virtual_router.router import StateError
from anycastlab.virtual_router.testing import running_router
from tests.unit.virtual_router.support import Client, connected

FILTER = "/ip/firewall/filter"


def test_rows_ids_and_settings_come_back(tmp_path: Path) -> None:
    with running_router(state_dir=tmp_path) as router, connected(router) as client:
        client.ret(f"{FILTER}/add", "=chain=input", "=comment=ü")
        second = client.ret(f"{FILTER}/add", "=chain=input", "=comment=two")
        client.ok(f"{FILTER}/move", f"=numbers={second}", "=destination=*1")
        client.ok("/ip/settings/set", "=send-redirects=no")
        client.ok("/system/identity/set", "=name=home")
        client.ok(f"{FILTER}/remove", "=.id=*1")
        before = client.rows(f"{FILTER}/print")
    with running_router(state_dir=tmp_path) as router, connected(router) as client:
        assert client.rows(f"{FILTER}/print") == before
        assert client.rows("/ip/settings/print")[0]["send-redirects"] == "false"
        assert client.rows("/system/identity/print") == [{"name": "home"}]
        assert client.ret(f"{FILTER}/add", "=chain=input") == "*3"
        assert len(client.rows("/interface/print")) == 4


def test_first_rows_are_given_once(tmp_path: Path) -> None:
    rows = {FILTER: [{"chain": "input", "action": "drop"}]}
    with running_router(state_dir=tmp_path, rows=rows) as router, connected(router) as client:
        client.ok(f"{FILTER}/remove", "=.id=*1")
    with running_router(state_dir=tmp_path, rows=rows) as router:
        assert router.rows(FILTER) == []


def test_power_lost_in_safe_mode_brings_back_what_was_before(tmp_path: Path) -> None:
    with running_router(state_dir=tmp_path) as router:
        client = Client(router).login()
        client.ret(f"{FILTER}/add", "=chain=input", "=comment=kept")
        client.rows(f"{FILTER}/print")
        client.ok("/safe-mode/take")
        client.ret(f"{FILTER}/add", "=chain=input", "=comment=risky")
        client.rows(f"{FILTER}/print")
        saved = json.loads((tmp_path / "config.json").read_text())
        comments = [values.get("comment") for _, values in saved["menus"][FILTER]]
        assert comments == ["kept"]
        client.ok("/safe-mode/release")
        client.close()
    with running_router(state_dir=tmp_path) as router:
        assert [row["comment"] for row in router.rows(FILTER)] == ["kept", "risky"]


def test_the_file_holds_passwords_so_only_its_owner_reads_it(tmp_path: Path) -> None:
    with running_router(state_dir=tmp_path):
        pass
    assert (tmp_path / "config.json").stat().st_mode & 0o777 == 0o600


def test_the_write_log_is_a_file_of_json_lines_with_secrets_masked(tmp_path: Path) -> None:
    with running_router(state_dir=tmp_path) as router, connected(router) as client:
        client.ret("/user/add", "=name=new", "=group=full", "=password=hunter2")
        client.rows("/user/print")
    (line,) = (tmp_path / "write-log.jsonl").read_text().splitlines()
    logged = json.loads(line)
    assert logged["sentence"] == ["/user/add", "=name=new", "=group=full", "=password=*****"]
    assert (logged["user"], logged["result"]) == ("admin", "done")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"ids": {}}'])
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(StateError, match=r"config\.json is damaged"), running_router(state_dir=tmp_path):
        pass
    assert path.read_text() == content


def test_a_wrong_first_row_is_named() -> None:
    rows = {FILTER: [{"chain": "input", "colour": "red"}]}
    with pytest.raises(StateError, match="unknown parameter colour"), running_router(rows=rows):
        pass


def test_an_upgrade_keeps_the_rows(tmp_path: Path) -> None:
    with running_router(version="7.16.2", state_dir=tmp_path) as router, connected(router) as client:
        client.ret(
            "/routing/bgp/connection/add", "=name=x", "=local.role=ebgp", "=address-families=ip", "=router-id=10.0.0.1"
        )
    with running_router(version="7.22.3", state_dir=tmp_path) as router:
        (row,) = router.rows("/routing/bgp/connection")
        assert (row["name"], row["local.role"]) == ("x", "ebgp")
        assert "router-id" not in row
