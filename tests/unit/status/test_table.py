"""The status is readable in 80 columns, and whole where it is not a terminal that reads."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from anycastlab import probe_control
from anycastlab.probe_control import NodeProbe, Question
from anycastlab.status import table
from anycastlab.status.model import Status
from tests.unit.site.test_load import build, lab
from tests.unit.status.test_status import healthy


def shown(status: Status, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(table.render(status))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def with_nodes(**changes: Any) -> Status:
    status = healthy()
    return replace(status, nodes=tuple(replace(node, **changes) for node in status.nodes))


def rows(lines: list[str]) -> list[list[str]]:
    """Heading and nodes as words, up to the empty line after them."""
    return [line.split() for line in lines[: lines.index("")] if "─" not in line]


def test_a_healthy_lab_in_80_columns_has_every_column_that_may_differ() -> None:
    lines = shown(with_nodes(wan=True, wan_age_s=14.0), 80)
    assert max(map(len, lines)) <= 80
    assert rows(lines) == [
        ["node", "address", "resolver", "BGP", "BFD", "announced", "answers", "WAN"],
        *(
            [name, f"10.1.2.{number}", "adguardhome", "0.107.79", "up", "up", "yes", "yes", "ok", "14", "s"]
            for name, number in (("node01", 11), ("node02", 12), ("node03", 13))
        ),
    ]
    assert rows(shown(with_nodes(wan=False, wan_age_s=130.0), 80))[1][-3:] == ["BAD", "2", "min"]


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "192.168.100.100", "architecture": "aarch64", "version": "v0.107.79-beta.12"},
        {"bgp": "OpenConfirm", "bfd": None, "announced": False, "drained": True, "architecture": "riscv64"},
    ],
)
def test_what_does_not_fit_is_left_out_and_never_broken(changes: dict[str, Any]) -> None:
    status = with_nodes(**changes)
    heading, *nodes = rows(shown(status, 80))
    assert "machine" not in heading
    assert [row[:2] for row in nodes] == [[node.name, node.address] for node in status.nodes]
    assert len(nodes) == 3
    assert max(map(len, shown(replace(status, router=healthy().router), 80)[:5])) <= 80
    wide, *_ = rows(shown(status, 200))
    assert "machine" in wide


def test_a_session_that_is_not_there_is_named_as_its_standard_does() -> None:
    lines = shown(with_nodes(bgp="Active", bfd="down"), 80)
    assert rows(lines)[1][-5:-3] == ["Active", "down"]
    said = " ".join(lines)
    assert "the BGP session to the router is not up: no connection succeeded, and the node waits for" in said
    assert "(BGP state Active)" in said


def test_40_columns_show_a_block_for_each_node_and_cut_nothing_off() -> None:
    lines = shown(with_nodes(wan=True, wan_age_s=14.0), 40)
    assert max(map(len, lines)) <= 40
    assert lines[:3] == [
        "node01",
        "  address 10.1.2.11, machine x86_64,",
        "  resolver adguardhome 0.107.79, BGP up,",
    ]
    assert not any("…" in line for line in lines)
    probe = probe_control.table([NodeProbe("node01", "announcing")], 40).splitlines()
    assert probe[0] == "node01"
    assert max(map(len, probe)) <= 40


def test_nothing_is_broken_where_no_terminal_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = StringIO()
    monkeypatch.setattr("sys.stdout", out)
    status = replace(with_nodes(announced=False), router=replace(healthy().router, next_hops=tuple("abcdefgh" * 30)))
    table.console().print(table.render(status))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert len(rows(lines)) == 4
    assert rows(lines)[0][2] == "machine"
    assert len([line for line in lines if line.startswith("next hops")]) == 1
    assert lines[-1] == "! node03 does not announce the service address."
    assert max(map(len, out.getvalue().splitlines())) < 1000  # no padding without end either


def test_a_lab_that_is_not_built_is_one_sentence() -> None:
    status = Status.unknown(build(lab()), "The lab lab is not built. Run `make lab`, or `anycastlab up`.")
    assert shown(status, 80) == ["! The lab lab is not built. Run `make lab`, or `anycastlab up`."]
    assert [node["name"] for node in status.to_json()["nodes"]] == ["node01", "node02", "node03"]
    assert status.to_json()["problem"] == status.complaints()[0]
    assert not status.to_json()["service"]["answers"]


def test_the_probes_table_fits_into_80_columns_at_its_worst() -> None:
    bad = Question(False, "silent", 1.9, "SERVFAIL", 7199.0)
    worst = NodeProbe(
        *("node01", "withdrawn"),
        reason="nothing answers",
        since_s=3599.0,
        drained=True,
        drain_wanted=True,
        p95_s=1.9994,
        questions=dict.fromkeys(("resolver", "local", "wan"), bad),
    )
    heading, row, reason, wan = probe_control.table([worst]).splitlines()
    assert row.split()[:2] == ["node01", "drained"]
    assert max(len(heading), len(row)) <= 80
    assert reason == "node01: nothing answers"
    assert wan == "node01: no internet name resolves there (SERVFAIL)."
    assert "raising (drained)" in probe_control.table([replace(worst, state="raising")])
