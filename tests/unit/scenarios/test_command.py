"""`anycastlab scenario`: exit codes and what scripts read."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from anycastlab import cli
from anycastlab.commands.scenario import scenario
from anycastlab.exit_codes import OK
from anycastlab.phone.summary import wire_counts
from anycastlab.report.run import Proof, Run, Verdict
from anycastlab.scenarios import campaign, catalog
from anycastlab.scenarios.campaign import Options
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.scenarios.model import Scenario
from tests.unit.scenarios.doubles import good


def recorded(one: Scenario, number: int, verdict: Verdict) -> Run:
    evidence = good()
    reason = "" if verdict is Verdict.OK else "a reason"
    return Run(
        one.name, one.title, verdict, reason, number, evidence.fault, (Proof(True, "node02 was stopped"),),
        tuple(evidence.queries), tuple(evidence.announcements), {"counts": wire_counts(evidence.queries)},
    )  # fmt: skip


class Fake:
    """Stands for the lab: records what it was asked, answers with the verdicts it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *verdicts: Verdict | BaseException) -> None:
        self.verdicts = verdicts
        self.closed = False
        monkeypatch.setattr(campaign, "run_all", self.run_all)

    def run_all(self, chosen: Sequence[Scenario], options: Options, _: object) -> Generator[tuple[Run, Path]]:
        self.chosen, self.options = [one.name for one in chosen], options
        try:
            for number, verdict in enumerate(self.verdicts, 1):
                if isinstance(verdict, BaseException):
                    raise verdict
                yield recorded(chosen[0], number, verdict), Path("runs/x")
        finally:
            self.closed = True


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(scenario, arguments, standalone_mode=False)


def test_json_has_what_the_documentation_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(monkeypatch, Verdict.OK, Verdict.OK)
    result = invoke(
        "run", "kill", "--repeat", "2", "--rate", "50", "--quick", "--json", "--data", "bfd_interval_ms=300"
    )
    assert result.return_value == OK
    [found] = json.loads(result.stdout)
    assert (found["name"], found["verdict"], len(found["runs"])) == ("kill", "ok", 2)
    promised = {
        "sent", "lost", "stalled", "servfail", "felt_outage_s", "worst_gap", "withdrawn_after_s", "returned_after_s",
        "share", "proof", "phone",
    }  # fmt: skip
    run = found["runs"][0]
    assert promised <= set(run)
    assert set(run["worst_gap"]) == {"queries", "seconds"}
    assert set(run["phone"]) == {"late_p99_ms", "skipped"}
    assert (run["sent"], run["lost"], run["withdrawn_after_s"], run["returned_after_s"]) == (500, 0, 0.2, 5.0)
    assert run["proof"] == ["node02 was stopped"]
    assert fake.options == Options("inventory/lab.py", {"bfd_interval_ms": 300}, "lab", 2, 50.0, True, Path("runs"))


@pytest.mark.parametrize(
    ("verdicts", "code", "verdict"),
    [
        ((Verdict.OK, Verdict.OK), 0, "ok"),
        ((Verdict.OK, Verdict.VOID), 2, "void"),
        ((Verdict.FAILED, Verdict.OK), 2, "failed"),
        ((Verdict.FAILED, Verdict.VOID), 2, "void"),
    ],
)
def test_the_exit_code_is_that_of_the_worst_run(
    monkeypatch: pytest.MonkeyPatch, verdicts: tuple[Verdict, ...], code: int, verdict: str
) -> None:
    Fake(monkeypatch, *verdicts)
    result = invoke("run", "kill", "--json")
    assert (result.return_value, json.loads(result.stdout)[0]["verdict"]) == (code, verdict)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ScenarioError("The lab is not healthy.", "Look."), 1, "Error: The lab is not healthy. Look."),
        (KeyboardInterrupt(), 130, "stopped; everything is undone"),
    ],
)
def test_what_ends_a_run_early_undoes_it_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, says: str
) -> None:
    fake = Fake(monkeypatch, Verdict.OK, error)
    assert cli.run(["scenario", "run", "kill"]) == code
    assert fake.closed
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("freeze", "kill"), ["freeze", "kill"]),
        ((), catalog.names()),
        (("--quick",), [one.name for one in catalog.every() if one.in_quick_set]),
        (("--quick", "drain"), ["drain"]),
    ],
)
def test_which_scenarios_are_run(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], expected: list[str]
) -> None:
    fake = Fake(monkeypatch)
    invoke("run", *arguments)
    assert fake.chosen == expected


def test_a_rate_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Fake(monkeypatch, Verdict.OK)
    error = invoke("run", "kill", "--rate", "nan").exception
    assert isinstance(error, click.BadParameter)
    assert "'nan' is not a number" in error.message


def test_a_reader_that_has_gone_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    Fake(monkeypatch, Verdict.OK)

    def gone(*_: object, **options: object) -> None:
        if options.get("err"):
            raise BrokenPipeError

    monkeypatch.setattr(click, "echo", gone)
    assert invoke("run", "kill", "--json").return_value == OK


def test_nohup_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    Fake(monkeypatch, Verdict.OK)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        invoke("run", "kill", "--json")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_list_and_show() -> None:
    listed = json.loads(invoke("list", "--json").stdout)
    assert [one["name"] for one in listed] == catalog.names()
    shown = json.loads(invoke("show", "freeze", "--json").stdout)
    assert "queries lost for at most 1.25 x BFD's detection time and one query" in shown["expect"]
    assert isinstance(invoke("show", "freze").exception, ScenarioError)
