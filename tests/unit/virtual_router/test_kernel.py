"""What the kernel says, under RouterOS's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from anycastlab.virtual_router import kernel
from anycastlab.virtual_router.testing import running_router
from tests.unit.virtual_router.support import connected


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lan = tmp_path / "lan"
    (lan / "statistics").mkdir(parents=True)
    for name, value in {"address": "00:16:3e:aa:bb:cc", "mtu": "1500", "operstate": "up"}.items():
        (lan / name).write_text(value + "\n")
    (lan / "statistics" / "rx_bytes").write_text("4711\n")
    monkeypatch.setattr(kernel, "_NET", tmp_path)
    return tmp_path


def test_an_interface_has_its_devices_state_and_counters(devices: Path) -> None:
    assert kernel.link("lan") == {
        "mac-address": "00:16:3E:AA:BB:CC", "mtu": "1500", "actual-mtu": "1500", "running": "true",
        "rx-byte": "4711", "tx-byte": "0", "rx-packet": "0", "tx-packet": "0", "rx-drop": "0", "tx-drop": "0",
        "rx-error": "0", "tx-error": "0",
    }  # fmt: skip
    with running_router() as router, connected(router) as client:
        rows = {row["name"]: row for row in client.rows("/interface/print")}
        assert (rows["ether2-lan"]["running"], rows["ether2-lan"]["rx-byte"]) == ("true", "4711")
        assert rows["ether1-wan"]["running"] == "false"
    (devices / "lan" / "operstate").write_text("lowerlayerdown\n")
    assert kernel.link("lan")["running"] == "false"


def test_the_neighbour_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        "IP address       HW type     Flags       HW address            Mask     Device\n"
        "10.1.2.11        0x1         0x2         00:16:3e:00:00:11     *        dns\n"
        "10.1.2.12        0x1         0x0         00:00:00:00:00:00     *        dns\n"
        "10.9.9.9         0x1         0x2         00:16:3e:00:00:99     *        elsewhere\n"
    )
    lines = table.splitlines()
    monkeypatch.setattr(kernel, "_lines", lambda path: lines if path.name == "arp" else [])
    with running_router() as router, connected(router) as client:
        rows = client.rows("/ip/arp/print")
    assert [(row["address"], row["interface"], row["complete"]) for row in rows] == [
        ("10.1.2.11", "ether3-dns", "true"),
        ("10.1.2.12", "ether3-dns", "false"),
    ]


def test_resources_are_numbers_where_a_client_counts_with_them() -> None:
    with running_router(version="7.20.8 (long-term)") as router, connected(router) as client:
        (row,) = client.rows("/system/resource/print")
    assert row["version"] == "7.20.8 (long-term)"
    for name in ("free-memory", "total-memory", "cpu-count", "cpu-load", "free-hdd-space", "total-hdd-space"):
        assert row[name].isdigit(), name
    assert int(row["total-memory"]) >= int(row["free-memory"]) > 0
