"""JSON that another machine, a node's disk or a person's file gives: bounded in size and depth, never a traceback."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api.exceptions import FactProcessError

from anycastlab import probe_control, stored
from anycastlab.commands.options import parse_data
from anycastlab.errors import AnycastlabError
from anycastlab.host import undo_record
from anycastlab.host.errors import HostError
from anycastlab.host.firewall import forward_policy_drops
from anycastlab.incus.facts import IncusServer
from anycastlab.node import facts, originals
from anycastlab.phone import mix
from anycastlab.phone.errors import MixError
from anycastlab.probe import config, frr
from anycastlab.routeros.facts import RouterVersion
from anycastlab.scenarios import guardian, recorder
from anycastlab.site import deployed
from anycastlab.status.session_view import last_error

DEEP = ["[" * 200_000, '{"a":' * 200_000]
BAD = [*DEEP, "", "[]", "null", "x", "1" * 10_000, '{"a": Infinity}']


def node_says(**records: str) -> list[str]:
    return [
        "present\t1",
        "hostname\tnode01",
        "ipv4_forwarding\t0",
        "ipv6_forwarding\t0",
        "elf\t",
        *(f"{key}\t{base64.b64encode(text.encode()).decode()}" for key, text in records.items()),
    ]


@pytest.mark.parametrize("which", ["applied", "originals"])
@pytest.mark.parametrize("text", [*BAD, "{}", "[" + "1," * (1 << 19) + "1]"])
def test_a_damaged_record_on_a_node_is_named_and_is_not_nothing_there(which: str, text: str) -> None:
    with pytest.raises(
        FactProcessError, match=rf"/var/lib/anycastlab/{which}\.json is damaged: (it is |a number|Infinity)"
    ) as caught:
        facts.NodeFact().read(node_says(**{which: text}))
    assert "Error" not in str(caught.value)


@pytest.mark.parametrize("text", [*BAD, "{}", '{"files": []}', "x" * (originals.MOST_RECORD + 1)])
def test_a_damaged_record_of_the_owners_files_is_not_begun_afresh(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "originals.json"
    index.write_text(text)
    order: dict[str, Any] = {"name": "node01", "index": str(index), "folder": str(tmp_path / "originals")}
    monkeypatch.setattr(os, "umask", lambda _: 0)
    assert originals.main(order) == 1
    assert capsys.readouterr().err.startswith(f"node01: what was there before cannot be kept: {index} is damaged;")
    assert index.read_text() == text


@pytest.mark.parametrize(
    "state",
    [
        *BAD,
        "x" * (probe_control.MOST_STATE + 1),
        '{"written": 1e999}',
        json.dumps({"written": 10**400}),
        json.dumps({"written": 5.0, "cause": "x", "questions": {"wan": {"good": 7, "last": None}}}),
    ],
)
def test_whatever_a_probe_writes_its_node_is_unknown(state: str) -> None:
    assert probe_control.parse_state("node01", [state, "5.0"]).state == "unknown"


@pytest.mark.parametrize("key", ["p95_s", "latency_s"])
@pytest.mark.parametrize("value", ["fast", [1], True, {"a": 1}])
def test_a_probes_numbers_are_numbers(key: str, value: object) -> None:
    last = {"outcome": "ok", "latency_s": value if key == "latency_s" else 0.1, "detail": "", "age_s": 1}
    state = {
        "written": 5.0, "since": 1.0, "state": "announcing", "effective": True, "cause": "healthy", "reason": "",
        "p95_s": value if key == "p95_s" else 0.1, "problems": {}, "questions": {"local": {"good": True, "last": last}},
    }  # fmt: skip
    found = probe_control.parse_state("node01", [json.dumps(state), "5.0"])
    assert found.state == "unknown"
    assert probe_control.table([found])


def printed(command: str) -> bytes:
    return subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=10).stdout


def test_root_reads_so_much_of_a_probes_state_and_no_more(tmp_path: Path) -> None:
    """Also where the probe's user has put something in its place that never ends."""
    path = tmp_path / "probe.json"
    command = probe_control.READ_COMMAND.replace(probe_control.STATE_PATH, str(path))
    path.write_text("x" * (4 << 20))
    assert len(printed(command)) < 2 * probe_control.MOST_STATE
    path.unlink()
    path.symlink_to("/dev/zero")
    assert len(printed(command)) < 2 * probe_control.MOST_STATE
    path.unlink()
    os.mkfifo(path)
    printed(command)


@pytest.mark.parametrize("text", BAD)
def test_what_daemons_and_machines_print_is_never_a_traceback(text: str) -> None:
    assert last_error(text, "10.1.2.1") is None
    assert forward_policy_drops(text) is False
    assert deployed.parse(text) == {}
    assert frr._judge(text) is frr.Route.ABSENT
    for read in (lambda: RouterVersion().process([text]), lambda: config.from_json(text)):
        with pytest.raises((FactProcessError, config.ConfigError)):
            read()


@pytest.mark.parametrize("text", DEEP)
def test_deep_json_of_incus_and_of_a_person(text: str) -> None:
    with pytest.raises(FactProcessError, match="did not answer with JSON"):
        IncusServer().process([text])
    assert parse_data((f"x={text}",)) == {"x": text}


@pytest.mark.parametrize("line", [*(text for text in BAD if text), '{"time_ns": true, "hops": []}', '{"time_ns": 1}'])
def test_what_the_router_watched_is_checked(line: str) -> None:
    class Site:
        nodes = ()

    with pytest.raises(ValueError, match=r"it is|a line|a number|Infinity"):
        recorder.announcements(line, Site())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text('{"names":' + "[" * 200_000),
        lambda path: path.write_text('{"names": ' + "1" * 10_000 + "}"),
        lambda path: path.write_bytes(bytes(range(256))),
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), mix.MOST_LIST + 1),
        lambda path: path.mkdir(),
        lambda _: None,
    ],
)
def test_a_list_of_names_that_is_none(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "names.json")
    with pytest.raises(MixError) as caught:
        mix.load(str(tmp_path / "names.json"))
    assert "Errno" not in str(caught.value)


@pytest.mark.parametrize("text", BAD)
def test_a_damaged_record_of_set_up(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.json").write_text(text)
    monkeypatch.setattr(undo_record, "path", lambda: tmp_path / "setup.json")
    if text == "[]":
        assert undo_record.read() == []
        return
    with pytest.raises(HostError, match=r"setup\.json, cannot be read: "):
        undo_record.read()


@pytest.mark.parametrize("make", [lambda path: path.write_bytes(b"\xff\xfe"), os.mkfifo, lambda path: path.mkdir()])
def test_the_record_of_an_unfinished_fault_is_no_text(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "lab.json")
    monkeypatch.setattr(guardian, "record_path", lambda _: tmp_path / "lab.json")
    with pytest.raises(AnycastlabError, match=r"lab\.json, is damaged: it is "):
        guardian.heal("lab", lambda _: None)


def test_the_bound_is_the_readers(tmp_path: Path) -> None:
    with pytest.raises(stored.Damaged, match="larger than 1 KiB"):
        stored.parse_json("1" * 2000, 1024)
    (tmp_path / "text").write_text("x" * 2000)
    with pytest.raises(stored.Damaged, match="larger than 1 KiB"):
        stored.read_text(tmp_path / "text", 1024)
