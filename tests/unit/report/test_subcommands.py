"""`anycastlab phone` and `anycastlab report` through the command line itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from anycastlab import cli
from anycastlab.phone.testing import DnsServer
from anycastlab.report import run
from tests.unit.report import samples


def test_the_phones_options_reach_the_phone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "q.csv"
    with DnsServer() as server:
        code = cli.run([
            "phone", "--server", server.address, "--rate", "50", "--duration", "0.2", "--quiet", "--csv", str(out),
        ])  # fmt: skip

    assert code in (0, 2)
    assert len(out.read_text().splitlines()) == 11
    assert "sent 10: " in capsys.readouterr().out


def test_the_phones_help_and_errors_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["phone", "--help"]) == 0
    assert "--one-flow" in capsys.readouterr().out
    assert cli.run(["phone", "--server", "nowhere"]) == 1
    assert capsys.readouterr().err.startswith("error: 'nowhere' is not the address of a server.")


def test_a_report_is_printed_and_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run.write(samples.several()[0], tmp_path / "runs" / "kill-1")

    assert cli.run(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "r.html"), "--format", "csv"]) == 0

    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].startswith("kill,1,ok,900,0,")
    assert captured.err == f"Written to {tmp_path / 'r.html'}.\n"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_a_folder_without_runs_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.run(["report", str(tmp_path)]) == 1

    assert f"No run in {tmp_path}." in capsys.readouterr().err
