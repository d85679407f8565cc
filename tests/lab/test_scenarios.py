"""Scenarios in the real lab: the short set, a run that must come out void, and a runner that is killed in mid-fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anycastlab.report import reading as records
from anycastlab.report.run import Run, Verdict
from anycastlab.scenarios import catalog, faults, guardian, proofs
from anycastlab.scenarios.actions import OnHost
from anycastlab.scenarios.model import Fault, Scenario
from anycastlab.scenarios.session import Session, open_session
from anycastlab.scenarios.stage import Stage
from anycastlab.scenarios.timing import Lengths
from tests.lab.conftest import ROOT, Health, RunningLab

# The shortest that a judge accepts; nothing has to come back in it.
SHORT = Lengths(calm_s=4, hold_s=3, after_s=2)
# Seconds in which a guardian has long undone a freeze.
UNDONE_LIMIT_S = 30


@pytest.fixture(scope="module")
def quick_set(
    built_lab: RunningLab, health: Health, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """The set of continuous integration, run once: what the command printed, by name, and where the runs are."""
    out = tmp_path_factory.mktemp("runs")
    if not built_lab.healthy():
        built_lab.up()
    health.there, health.known = True, False
    result = built_lab.command("scenario", "run", "--quick", "--json", "--out", str(out))
    assert result.returncode in (0, 2), result.stderr
    return {one["name"]: one for one in json.loads(result.stdout)}, out


def test_the_quick_set_is_measured_proven_and_as_expected(quick_set: tuple[dict[str, Any], Path]) -> None:
    found, _ = quick_set
    assert set(found) == {"kill", "freeze", "all-dead", "all-dead-no-last-resort"}
    assert {name: (one["verdict"], [run["reason"] for run in one["runs"]]) for name, one in found.items()} == {
        name: ("ok", [""]) for name in found
    }


def test_a_run_tells_what_was_felt_and_what_it_rests_on(quick_set: tuple[dict[str, Any], Path]) -> None:
    found, _ = quick_set
    [freeze] = found["freeze"]["runs"]
    # 27 s at 20 queries per second, and what the undoing took
    assert freeze["sent"] >= 530
    assert set(freeze["worst_gap"]) == {"queries", "seconds"}
    assert 0 < freeze["withdrawn_after_s"] < 1
    assert freeze["returned_after_s"] > 0
    assert sum(freeze["share"].values()) == pytest.approx(1, abs=0.01)
    assert any("packets of node" in sentence and "dropped" in sentence for sentence in freeze["proof"])
    assert freeze["phone"]["late_p99_ms"] <= 5
    assert freeze["phone"]["skipped"] == 0
    # Nodes share the household's flows; when one is gone the others have them, and nobody else answers.
    assert {"node01", "node02", "node03"} >= set(freeze["share"])
    [dead] = found["all-dead"]["runs"]
    assert dead["share"]["other"] > 0.1  # the router's own resolver has no identity


def test_the_control_shows_what_the_last_resort_is_worth(quick_set: tuple[dict[str, Any], Path]) -> None:
    found, _ = quick_set
    [with_it], [without] = found["all-dead"]["runs"], found["all-dead-no-last-resort"]["runs"]
    assert without["felt_outage_s"] > 5 * with_it["felt_outage_s"]


def test_a_report_can_be_made_of_the_runs(quick_set: tuple[dict[str, Any], Path], built_lab: RunningLab) -> None:
    found, out = quick_set
    assert {records.read(folder).scenario for folder in records.find([out])} == set(found)
    assert "freeze" in built_lab.command("report", str(out), "--format", "csv", check=True).stdout


# Void -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def session(lab: RunningLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(ROOT)
    with open_session(lab.inventory, {}, lab.name, print) as session:
        yield session


def run(session: Session, scenario: Scenario) -> Run:
    return session.run(scenario, SHORT, 20.0, 1)


def test_a_fault_of_a_drained_node_is_void(lab: RunningLab, session: Session) -> None:
    """It was frozen, its packets were dropped, nothing was lost: a perfect run, had the node served anybody."""
    lab.command("drain", "node03", check=True)
    try:
        found = run(session, Scenario("void", lambda stage: faults.frozen(stage, "node03"), name="void"))
    finally:
        lab.command("undrain", "node03", check=True)
    assert all(proof.holds for proof in found.proof)
    assert found.verdict is Verdict.VOID
    assert "node03 answered 0 of this client's queries before the fault: it hit nobody." in found.reason
    assert "The router kept its route through node03" in found.reason


def test_a_rule_that_never_matches_is_void(session: Session) -> None:
    """The rule is there and counts; no packet of this lab goes where it looks."""

    def nowhere(stage: Stage) -> Fault:
        interface = stage.host_interface("node03")
        table = "anycastlab_{lab}_nowhere"
        rules = (
            f"table netdev {table} {{ chain in {{"
            f' type filter hook ingress device "{interface}" priority -500; ip daddr 198.51.100.1 counter drop; }}; }}'
        )
        return Fault(
            "packets to nowhere dropped",
            ("upstream",),
            (OnHost(("nft", rules)),),
            (OnHost(("nft", "delete", "table", "netdev", table), strict=False),),
            (proofs.packets_dropped("netdev", table, "to nowhere"),),
            withdraws=False,
        )

    found = run(session, Scenario("void", nowhere, name="void"))
    assert (found.verdict, found.reason) == (Verdict.VOID, "No proof: 0 packets to nowhere were dropped.")


# Undone, whatever happens ---------------------------------------------------------------------------------------------


def tables() -> str:
    return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout


def start(lab: RunningLab, out: Path) -> subprocess.Popen[str]:
    """`anycastlab scenario run freeze` at the moment when the node is frozen."""
    command = [
        str(Path(sys.executable).with_name("anycastlab")),
        "scenario",
        "run",
        "freeze",
        "--quick",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=lab.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "all packets dropped; for" in line:
            break
    time.sleep(1.5)
    table = f"anycastlab_{lab.name}_freeze"
    assert table in tables()
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_runner_that_is_stopped_in_mid_fault(lab: RunningLab, tmp_path: Path, number: int, code: int) -> None:
    process = start(lab, tmp_path)
    # when the whole process group gets it, as with Ctrl-C or a closed machine
    os.killpg(process.pid, number)
    process.communicate(timeout=UNDONE_LIMIT_S)
    assert process.returncode == code
    # then the fault is undone without anybody's doing
    end = time.monotonic() + UNDONE_LIMIT_S
    while guardian.record_path(lab.name).exists() and time.monotonic() < end:
        time.sleep(0.2)
    assert f"anycastlab_{lab.name}_freeze" not in tables()
    assert "FROZEN" not in lab.incus("list", "-f", "csv", "-c", "ns")
    while not (healthy := lab.healthy()) and time.monotonic() < end:
        time.sleep(0.5)
    assert healthy
    # … and no instrument goes on
    units = lab.exec("client01", "systemctl", "list-units", "--plain", "--no-legend", "anycastlab-phone-*").stdout
    assert "running" not in units


def test_the_catalog_is_shown(built_lab: RunningLab) -> None:
    listed = json.loads(built_lab.command("scenario", "list", "--json", check=True).stdout)
    assert [one["name"] for one in listed] == catalog.names()
    refused = built_lab.command("scenario", "run", "freze")
    assert refused.returncode == 1
    assert "Did you mean freeze?" in refused.stderr
