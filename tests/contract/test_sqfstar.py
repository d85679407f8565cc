"""sqfstar ends at the end marker of a tar; what packs the base image reads on, to where the archive really ends."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest

from anycastlab.image import commands
from anycastlab.image.process import Outcome, run_piped

PATIENCE_S = 60.0
# Far more than a pipe holds: who writes it behind the end marker finds nobody there once sqfstar is gone.
PADDING_BYTES = 1 << 20


def pack(folder: Path, archive: bytes, consumer: list[str]) -> Outcome:
    (folder / "archive.tar").write_bytes(archive)
    return run_piped(
        ["cat", str(folder / "archive.tar")],
        consumer,
        stdin=b"",
        log=folder / "log",
        on_line=lambda _line: None,
        environment=dict(os.environ),
        timeout_s=PATIENCE_S,
    )


@pytest.fixture
def padded() -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        file = tarfile.TarInfo("etc")
        file.size = 5
        tar.addfile(file, io.BytesIO(b"kept\n"))
    return whole.getvalue() + bytes(PADDING_BYTES)


def test_sqfstar_alone_leaves_before_the_padding_was_read(tmp_path: Path, padded: bytes) -> None:
    outcome = pack(tmp_path, padded, ["sqfstar", "-quiet", "-no-progress", str(tmp_path / "image")])

    assert (outcome.producer_exit, outcome.consumer_exit) == (-signal.SIGPIPE, 0)


def test_the_padding_of_an_archive_is_read_and_the_image_is_whole(tmp_path: Path, padded: bytes) -> None:
    image = tmp_path / "image"

    assert pack(tmp_path, padded, commands.squash_command(image)).good

    done = subprocess.run(
        ["unsquashfs", "-cat", str(image), "etc"], capture_output=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout == b"kept\n"


def test_a_failure_of_sqfstar_is_one_of_the_whole(tmp_path: Path, padded: bytes) -> None:
    outcome = pack(tmp_path, padded, commands.squash_command(tmp_path / "nowhere" / "image"))

    assert not outcome.good
    assert outcome.consumer_exit == 1
