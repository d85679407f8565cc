"""Why there is a phone at all: the usual load tool under-reports an outage, and ours does not.

dnsperf keeps at most 100 queries under way by default and stops sending when they are not answered (coordinated
omission). Its result is then about the time in which the server worked. Everything stays on 127.0.0.1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from anycastlab.phone.__main__ import main
from anycastlab.phone.records import LOSSES, read_csv
from anycastlab.phone.testing import Answer, DnsServer, Request

RATE = 400
RUN_S, DEAD_FROM_S, DEAD_UNTIL_S = 6, 1.5, 4.5
TRUE_SHARE = (DEAD_UNTIL_S - DEAD_FROM_S) / RUN_S


class DeadForHalf(DnsServer):
    """Silent for the middle half of the run, counted from its first query."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = 0

    def handle(self, request: Request) -> list[Answer]:
        elapsed = self.requests[-1].at_ns / 1e9 - self.requests[0].at_ns / 1e9
        if DEAD_FROM_S <= elapsed < DEAD_UNTIL_S:
            return []
        self.answered += 1
        return [Answer(request.reply(), delay_ms=0)]


@pytest.fixture
def names(tmp_path: Path) -> Path:
    file = tmp_path / "names"
    file.write_text("www.example A\n")
    return file


def test_the_phone_reports_the_outage_as_long_as_it_was(names: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.csv"
    with DeadForHalf() as server:
        main([
            "--server", server.address, "--rate", str(RATE), "--duration", str(RUN_S), "--mix", str(names),
            "--identity", "none", "--csv", str(out), "--quiet",
        ])  # fmt: skip

    records = list(read_csv(out.read_text().splitlines(keepends=True)))
    lost = sum(r.outcome in LOSSES for r in records)
    assert len(records) == RATE * RUN_S
    # Counted by what the server did answer: what a busy machine drops before the server sees it is lost as well.
    assert lost == len(records) - server.answered
    assert lost / len(records) == pytest.approx(TRUE_SHARE, abs=0.02)


def test_dnsperf_with_its_defaults_reports_a_fraction_of_it(names: Path) -> None:
    assert dnsperf(names) < TRUE_SHARE / 3


def test_dnsperf_with_room_for_every_query_comes_near_the_truth(names: Path) -> None:
    # given a limit that the outage never reaches, and a timeout that is over before the run is
    assert dnsperf(names, "-q", "2000", "-t", "1") == pytest.approx(TRUE_SHARE, abs=0.05)


def dnsperf(names: Path, *options: str) -> float:
    """The share of lost queries that dnsperf reports."""
    program = shutil.which("dnsperf")
    assert program, "dnsperf is missing: apt-get install dnsperf"
    with DeadForHalf() as server:
        command = [program, "-s", "127.0.0.1", "-p", str(server.port), "-d", str(names), "-f", "inet"]
        command += ["-Q", str(RATE), "-l", str(RUN_S), *options]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    sent, lost = (re.search(rf"Queries {word}:\s+(\d+)", said) for word in ("sent", "lost"))
    assert sent, said
    assert lost, said
    return int(lost[1]) / int(sent[1])
