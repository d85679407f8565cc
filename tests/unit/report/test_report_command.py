"""`anycastlab report`: what it prints, and what it writes."""

from __future__ import annotations

import errno
import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from anycastlab.report import run
from anycastlab.report.command import report
from anycastlab.report.run import ReportError
from tests.unit import full_disk
from tests.unit.report import samples


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for one in samples.several():
        run.write(one, folder / f"{one.scenario}-{one.number}")
    return folder


def printed(runs: Path, form: str, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        report([runs], console, form=form)
    return capture.get()


def test_the_table_names_why_runs_are_void_or_failed(runs: Path) -> None:
    assert "freeze-idle, run 1: VOID: No packet of the client met the fault." in printed(runs, "table", 200)


@pytest.mark.parametrize(("form", "lines"), [("markdown", 11), ("csv", 9)])
def test_text_forms_are_not_wrapped_or_styled(runs: Path, form: str, lines: int) -> None:
    text = printed(runs, form)

    assert len(text.splitlines()) == lines
    assert "\x1b" not in text


def test_out_is_a_folder_or_a_page(runs: Path, tmp_path: Path) -> None:
    quiet = Console(quiet=True)

    assert report([runs], quiet, tmp_path / "r") == [tmp_path / "r" / f"report.{end}" for end in ("html", "md", "csv")]
    assert report([runs], quiet, tmp_path / "one.html") == [tmp_path / "one.html"]
    assert (tmp_path / "one.html").read_text() == (tmp_path / "r" / "report.html").read_text()


def test_a_place_that_cannot_be_written_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ReportError, match="Cannot write"):
        report([runs], Console(quiet=True), tmp_path / "file" / "r")


@pytest.mark.parametrize("form", ["table", "markdown", "csv"])
def test_an_output_that_takes_nothing_is_one_sentence(runs: Path, form: str) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ReportError, match="Cannot print the report: No space left on device"):
        report([runs], Console(file=Full(), width=200), form=form)


@pytest.mark.parametrize("name", [".", "page.html"])
def test_on_a_full_disk_the_earlier_report_stays_whole(runs: Path, tmp_path: Path, name: str) -> None:
    page = "page.html" if name == "page.html" else "report.html"
    program = str(Path(sys.executable).with_name("anycastlab"))
    out = tmp_path / "out"
    out.mkdir()
    # Given room for half of a page, beside an earlier one
    done = full_disk.run(out, f"echo earlier >{page}", [program, "report", str(runs), "--out", str(out / name)])
    # Then it is said, and nothing but the earlier page is there
    assert done.returncode == 1
    assert done.stderr == f"Error: Cannot write {out / name}: No space left on device.\n"
    assert [line for line in done.stdout.splitlines() if line.startswith("./")] == [f"./{page}: earlier"]


def test_on_a_full_disk_a_run_is_unfinished_and_not_half_a_run(tmp_path: Path) -> None:
    writer = (
        "import sys\nfrom pathlib import Path\n"
        "from anycastlab.report import run\nfrom tests.unit.report import samples\n"
        "one = samples.run('kill', 'Kill', 'node02 killed', samples.Home(dead=('node02',)))\n"
        "try:\n    run.write(one, Path(sys.argv[1]))\nexcept OSError as error:\n    print(error.strerror)\n"
    )
    done = full_disk.run(tmp_path, "", [sys.executable, "-c", writer, str(tmp_path)])
    assert done.stdout.splitlines()[0] == "No space left on device", done.stdout + done.stderr
    assert "./run.json" not in done.stdout
