"""The command as a person runs it, over real sockets, against a DNS server of the test on 127.0.0.1.

Punctuality depends on the machine that runs the tests, so the exit code may be 0 or 2 where it is not the point;
`bench/phone.py` is where it is measured.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anycastlab.bundle import bundle
from anycastlab.phone.__main__ import ERROR, LATE, OK, main
from anycastlab.phone.records import Outcome, Record, read_csv, read_jsonl
from anycastlab.phone.testing import Answer, DnsServer, Handler, Request

RAN = (OK, LATE)
IDENTITY = "id.anycast.lan"


class Phone:
    """Runs `main` in a folder of its own with short limits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = -1
        self.records: list[Record] = []
        self.summary: dict[str, Any] = {}

    def run(self, server: DnsServer, *options: str) -> Phone:
        csv, jsonl, summary = (self.folder / name for name in ("q.csv", "q.jsonl", "s.json"))
        names = self.folder / "names"
        if not names.exists():
            names.write_text("www.example\n")
        fixed = ("--rate", "100", "--duration", "0.6", "--timeout", "0.3", "--stall", "0.2", "--late-window", "0.3")
        files = ("--mix", str(names), "--csv", str(csv), "--jsonl", str(jsonl), "--json-summary", str(summary))
        self.code = main(["--server", server.address, *fixed, *files, "--quiet", *options])
        self.records = list(read_csv(csv.read_text().splitlines(keepends=True)))
        assert list(read_jsonl(jsonl.read_text().splitlines())) == self.records
        self.summary = json.loads(summary.read_text())
        return self

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(record.outcome.value for record in self.records)


@pytest.fixture
def phone(tmp_path: Path) -> Phone:
    return Phone(tmp_path)


class Script:
    """Query i of the run gets the i-th behaviour, round and round; identity queries are answered."""

    def __init__(self, *behaviours: Handler) -> None:
        self.behaviours = behaviours
        self.count = 0

    def __call__(self, request: Request) -> list[Answer]:
        if request.name == IDENTITY:
            return [Answer(request.reply('"node01"'), 0)]
        self.count += 1
        return list(self.behaviours[(self.count - 1) % len(self.behaviours)](request))


def good(request: Request) -> list[Answer]:
    return [Answer(request.reply(), 0)]


def silent(_request: Request) -> list[Answer]:
    return []


def wrong_id(request: Request) -> list[Answer]:
    raw = request.reply()
    return [Answer(bytes([raw[0] ^ 1]) + raw[1:], 0)]


def twice(request: Request) -> list[Answer]:
    return [Answer(request.reply(), 0), Answer(request.reply(), 20)]


def late(request: Request) -> list[Answer]:
    return [Answer(request.reply(), 400)]


def servfail(request: Request) -> list[Answer]:
    return [Answer(request.reply(data=None, rcode=2), 0)]


def test_known_losses_over_udp_are_counted_exactly(phone: Phone) -> None:
    with DnsServer(Script(good, silent, wrong_id, twice, late, servfail)) as server:
        phone.run(server)

    assert phone.code in RAN
    assert [r.outcome.value for r in phone.records] == ["answered", "lost", "lost", "answered", "late", "servfail"] * 10
    counts = phone.summary["counts"]
    assert (counts["sent"], counts["lost"], counts["late"]) == (60, 30, 10)
    assert (counts["duplicates"], counts["discarded"]) == (10, 10)
    assert phone.summary["share"] == {"node01": 1.0}


@pytest.mark.parametrize("options", [[], ["--one-flow"]])
def test_a_truncated_answer_comes_over_tcp(phone: Phone, options: list[str]) -> None:
    def handle(request: Request) -> list[Answer]:
        truncated = request.transport == "udp"
        return [Answer(request.reply(data=None if truncated else "192.0.2.1", truncated=truncated), 0)]

    with DnsServer(Script(handle)) as server:
        phone.run(server, "--identity", "none", *options)
        transports = Counter(request.transport for request in server.requests)

    assert phone.outcomes == {"answered": 60}
    assert phone.summary["counts"]["truncated"] == 60
    assert transports == {"udp": 60, "tcp": 60}


@pytest.mark.parametrize("options", [[], ["--one-flow"]])
def test_tcp(phone: Phone, options: list[str]) -> None:
    with DnsServer(Script(good, silent, late)) as server:
        phone.run(server, "--proto", "tcp", *options)

    assert phone.outcomes == {"answered": 20, "lost": 20, "late": 20}
    assert {r.node for r in phone.records} == {"node01"}


@pytest.mark.parametrize("options", [[], ["--one-flow"]])
def test_dns_over_tls(phone: Phone, tls_server: ssl.SSLContext, options: list[str]) -> None:
    with DnsServer(Script(good, servfail), tls=tls_server) as server:
        phone.run(server, "--proto", "dot", "--rate", "40", *options)

    assert phone.outcomes == {"answered": 12, "servfail": 12}
    assert {r.node for r in phone.records} == {"node01"}


def test_dns_over_tls_with_a_name_refuses_a_certificate_of_nobody_known(
    phone: Phone, tls_server: ssl.SSLContext
) -> None:
    with DnsServer(Script(good), tls=tls_server) as server:
        phone.run(server, "--proto", "dot", "--rate", "20", "--tls-name", "dns.lan")

    assert phone.outcomes == {"lost": 12}
    assert all("certificate verify failed" in r.note for r in phone.records)


def test_nobody_at_the_port_is_a_loss_at_once_with_the_reason(phone: Phone) -> None:
    with DnsServer() as server:
        pass

    phone.run(server)

    assert phone.outcomes == {"lost": 60}
    assert {r.note for r in phone.records} == {"Connection refused"}


def test_a_stub_resolver_saves_the_person_what_the_wire_lost(phone: Phone) -> None:
    # given musl, two servers, and a first server that is silent
    with DnsServer(Script(silent)) as dead, DnsServer(Script(good)) as alive:
        phone.run(dead, "--server", alive.address, "--client", "musl,wire")

    assert phone.outcomes == {"lost": 60}
    assert phone.summary["felt"]["musl"]["failed"] == 0
    assert phone.summary["felt"]["wire"]["failed"] == 30
    assert {r.felt for r in phone.records if r.client == "musl"} == {Outcome.ANSWERED}


def test_the_summary_says_how_and_where_it_was_measured(phone: Phone) -> None:
    with DnsServer(Script(good)) as server:
        phone.run(server, "--seed", "5", "--nonce", "abc")

    how = phone.summary["schedule"]
    assert (how["seed"], how["nonce"], how["servers"], how["rate"]) == (5, "abc", [server.address], 100.0)
    clock = phone.summary["clock"]
    assert phone.records[0].intended_ns == clock["start_monotonic_ns"]
    assert abs(clock["start_monotonic_ns"] + clock["epoch_minus_monotonic_ns"] - time.time_ns()) < 60e9
    assert set(phone.summary["machine"]) == {"host", "kernel", "machine", "cpus", "python", "priority"}


@pytest.mark.parametrize(("mix", "hinted"), [((), True), (("--mix", "home"), False)])
def test_names_that_only_the_lab_knows_are_said_to_be_why(
    capsys: pytest.CaptureFixture[str], mix: tuple[str, ...], hinted: bool
) -> None:
    """`anycastlab phone --server …` at a real home: its resolver is right, and the question was not for it."""
    with DnsServer(lambda request: [Answer(request.reply(data=None, rcode=3), 0)]) as server:
        main(["--server", server.address, "--rate", "50", "--duration", "0.2", "--quiet", *mix])

    assert ("use --mix home" in capsys.readouterr().out) is hinted


def test_a_start_time_is_kept(phone: Phone) -> None:
    start = time.monotonic_ns() + 2_000_000_000  # a busy machine needs a while until the phone looks
    with DnsServer(Script(good)) as server:
        phone.run(server, "--start-at", str(start))

    assert phone.records[0].intended_ns == start
    assert phone.records[0].sent_ns is not None
    assert phone.records[0].sent_ns >= start


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--server", "dns.example"], "'dns.example' is not the address of a server."),
        (["--server", "127.0.0.1@"], "'127.0.0.1@': '' is not a port."),
        (["--server", "127.0.0.1@0"], "'127.0.0.1@0': '0' is not a port."),
        (["--server", "127.0.0.1", "--rate", "0"], "A rate of 0 queries per second is not possible."),
        (["--server", "127.0.0.1", "--timeout", "nan"], "--timeout nan is not possible."),
        (["--server", "127.0.0.1", "--client", "beos"], "There is no client 'beos'."),
        (["--server", "127.0.0.1", "--mix", "/nonexistent"], "Cannot read the list of names /nonexistent"),
        (["--server", "127.0.0.1", "--csv", "/nonexistent/x.csv"], "Cannot write /nonexistent/x.csv"),
        (["--server", "127.0.0.1", "--start-at", "1"], "--start-at 1 lies "),
        (["--server", "127.0.0.1", "--start-at", str(10**30)], f"--start-at {10**30} lies more than 7 days ahead."),
        (["--server", "127.0.0.1", "--identity-name", "a..b"], "--identity-name: 'a..b' has a label"),
        (["--server", "127.0.0.1", "--tls-name", "dns.lan"], "--tls-name is for DNS over TLS, and --proto is udp."),
        (["--server", "127.0.0.1", "--proto", "dot", "--tls-name", ""], "--tls-name '' is not a name"),
        (["--server", "127.0.0.1", "--proto", "dot", "--tls-name", "a..b"], "--tls-name 'a..b' is not a name"),
        (
            ["--server", "127.0.0.1", "--csv", "-", "--json-summary", "-"],
            "--csv and --json-summary would both be written to standard output.",
        ),
        (
            ["--server", "127.0.0.1", "--jsonl", "/nonexistent/./x", "--json-summary", "/nonexistent/x"],
            "--jsonl and --json-summary would both be written to /nonexistent/x.",
        ),
        (["--server", "127.0.0.1", "--rate", "8000", "--duration", "60"], "40001 sockets may be open at once"),
        (
            ["--server", "127.0.0.1", "--rate", "8000", "--one-flow", "--duration", "60"],
            "40001 queries may be under way at once",
        ),
    ],
)
def test_what_cannot_run_is_one_sentence_and_exit_1(
    capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    assert main(["--duration", "1", *options]) == ERROR

    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"error: {problem}")
    assert all(line.startswith("hint: ") for line in said[1:])


def test_a_wrong_option_is_exit_1_and_not_the_code_for_late(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--frobnicate"]) == ERROR
    assert capsys.readouterr().err.splitlines() == [
        "error: the following arguments are required: --server.",
        "hint: `anycastlab phone --help` shows every option.",
    ]


def test_help_is_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == OK
    assert "--one-flow" in capsys.readouterr().out


def test_the_columns_are_described_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--columns"]) == OK
    assert "latency_ms             from the INTENDED time" in capsys.readouterr().out


def test_records_go_to_standard_output_and_words_to_standard_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    names = tmp_path / "names"
    names.write_text("www.example\n")
    with DnsServer(Script(good)) as server:
        main(["--server", server.address, "--rate", "50", "--duration", "0.2", "--mix", str(names), "--csv", "-"])

    captured = capsys.readouterr()
    assert len(list(read_csv(captured.out.splitlines(keepends=True)))) == 10
    assert "10 answered" in captured.err


@pytest.mark.parametrize("option", ["--csv", "--jsonl", "--json-summary"])
def test_a_full_disk_is_one_sentence_and_exit_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str
) -> None:
    names = tmp_path / "names"
    names.write_text("www.example\n")
    with DnsServer(Script(good)) as server:
        code = main([
            "--server", server.address, "--rate", "50", "--duration", "0.1", "--mix", str(names), "--quiet",
            option, "/dev/full",
        ])  # fmt: skip

    assert code == ERROR
    assert capsys.readouterr().err == "error: Cannot write the records: No space left on device.\n"


@pytest.mark.parametrize("options", [["--csv", "-"], []])
def test_a_reader_that_left_is_one_sentence_and_exit_1(archive: Path, options: list[str]) -> None:
    fixed = ("--rate", "50", "--duration", "0.2")
    with DnsServer() as server, isolated(archive, "--server", server.address, *fixed, *options) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()

    assert process.returncode == ERROR
    assert "Broken pipe" in err
    assert "Traceback" not in err
    assert "Exception ignored" not in err


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "phone.pyz"
    path.write_bytes(bundle("anycastlab.phone"))
    return path


def isolated(archive: Path, *options: str) -> subprocess.Popen[str]:
    """The archive in an interpreter that sees no installed package."""
    command = [sys.executable, "-I", "-S", str(archive), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})


def test_the_archive_runs_with_nothing_installed(archive: Path) -> None:
    with DnsServer() as server:
        process = isolated(archive, "--server", server.address, "--rate", "50", "--duration", "0.4", "--quiet")
        out, err = process.communicate(timeout=30)

    assert process.returncode in RAN, err
    assert "sent 20: " in out
    assert err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_complete_files(archive: Path, tmp_path: Path, number: signal.Signals) -> None:
    csv, summary = tmp_path / "q.csv", tmp_path / "s.json"
    names = tmp_path / "names"
    names.write_text("www.example\n")
    with DnsServer(Script(good)) as server:
        process = isolated(
            archive, "--server", server.address, "--rate", "50", "--duration", "600", "--mix", str(names),
            "--csv", str(csv), "--json-summary", str(summary),
        )  # fmt: skip
        wait_until(lambda: len(server.requests) > 20)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 130, err
    records = list(read_csv(csv.read_text().splitlines(keepends=True)))
    written = json.loads(summary.read_text())
    assert written["interrupted"] is True
    assert written["counts"]["sent"] == len(records) >= 10
    assert {r.outcome for r in records} == {Outcome.ANSWERED}


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the phone sent nothing"
        time.sleep(0.02)
